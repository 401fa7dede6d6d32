#!/usr/bin/env bash
# Does what `quietcore fix` prints mend a real kernel? Run by hand; no test runs it.
#
# Boots a Debian kernel in QEMU (software emulation: no KVM, no root) with a bad boot line, audits it there, and takes what
# `fix` prints. Then once more with the bad line and the printed script, which must mend what can be mended at run time; and
# once with the printed line and the script, after which every rule that failed must pass.
#
#   cargo build --release && tests/fix-on-a-kernel.sh [FOLDER]
#
# FOLDER keeps the packages and logs (default: a new one under /tmp). QUIETCORE, KERNEL, MODULES, QEMU and BUSYBOX name
# what is not to be taken from target/release and from Debian's packages, which apt-get then downloads and nothing installs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

work=${1:-$(mktemp -d /tmp/fix-on-a-kernel.XXXXXX)}
mkdir -p "$work"
work=$(cd "$work" && pwd)
quietcore=${QUIETCORE:-target/release/quietcore}
timeout=${TIMEOUT:-300}

# 2 sockets x 2 cores x 2 threads; CPUs 2n and 2n+1 share a core. Two hot CPUs on the second socket.
smp=8,sockets=2,cores=2,threads=2
plan='realtime = true
locked-memory = "64MiB"
idle = "5,7"
housekeeping = "0-3"

[hot]
feed = 4
strategy = 6
'
# Everything that can be wrong on a boot line: two lists of which the second is refused, a tick that never stops, a bare
# rcu_nocbs, huge pages, and words that must come through untouched.
bad='console=ttyS0 panic=-1 quiet isolcpus=4 isolcpus=6 nohz=off rcu_nocbs transparent_hugepage=always note="two words" -- -s'

say() { printf '== %s\n' "$*"; }
fail() { printf 'fix-on-a-kernel: %s\n' "$*" >&2; exit 1; }

packages() {
  [ -d "$work/tree/usr/bin" ] && return
  say "downloading QEMU, busybox and a kernel from Debian"
  mkdir -p "$work/debs/partial" "$work/tree"
  apt-get install --download-only --no-install-recommends -y -o Dir::Cache::archives="$work/debs" \
    -o Debug::NoLocking=1 qemu-system-x86 busybox-static > "$work/apt.log" 2>&1 || fail "apt-get: see $work/apt.log"
  local kernel
  kernel=$(apt-cache depends linux-image-amd64 | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)$/\1/p' | head -n 1)
  (cd "$work/debs" && apt-get download "$kernel") >> "$work/apt.log" 2>&1 || fail "apt-get: see $work/apt.log"
  local deb
  for deb in "$work"/debs/*.deb; do dpkg-deb -x "$deb" "$work/tree"; done
}

# What is installed already does not come with --download-only, and then is used from where it is.
first() { local path; for path in "$@"; do [ -e "$path" ] && { printf '%s\n' "$path"; return; }; done; return 1; }

initramfs() {
  local tree=$work/initramfs file
  rm -rf "$tree"
  mkdir -p "$tree"/{bin,proc,sys,dev,modules,tmp}
  cp "$busybox" "$tree/bin/busybox"
  cp "$quietcore" "$tree/bin/quietcore"
  # The program is linked to the C library: what it needs comes along.
  for file in $(ldd "$quietcore" | grep -o '/[^ ]*'); do
    mkdir -p "$tree$(dirname "$file")"
    cp -L "$file" "$tree$file"
  done
  # Devices whose lines can be moved (network) and cannot (disk), in the order in which they need each other.
  local number=10
  for file in virtio/virtio_ring virtio/virtio virtio/virtio_pci_modern_dev virtio/virtio_pci_legacy_dev \
    virtio/virtio_pci block/virtio_blk net/failover net/net_failover net/virtio_net; do
    file=$(find "$modules/kernel" -name "$(basename "$file").ko" | head -n 1)
    [ -n "$file" ] && cp "$file" "$tree/modules/$((number++))-$(basename "$file")"
  done
  printf '%s' "$plan" > "$tree/plan.toml"
  if [ -e "$work/fix.sh" ]; then cp "$work/fix.sh" "$tree/fix.sh"; fi
  cat > "$tree/init" <<'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin NO_COLOR=1
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mount -t debugfs debugfs /sys/kernel/debug
mount -t cgroup2 cgroup2 /sys/fs/cgroup
dmesg -n 1
for module in /modules/*; do insmod "$module"; done
ip link set eth0 up 2> /dev/null
part() {
  echo "@@begin $1"
  shift
  "$@" 2>&1
  echo "@@exit $?"
  echo "@@end"
}
part line cat /proc/cmdline
part isolated cat /sys/devices/system/cpu/isolated
part nohz_full cat /sys/devices/system/cpu/nohz_full
if [ -e /fix.sh ]; then
  part after-boot quietcore check --plan /plan.toml
  part script sh /fix.sh
  part after-script quietcore check --plan /plan.toml
  part map quietcore explain cpu 4 --plan /plan.toml
else
  part before quietcore check --plan /plan.toml
  part cmdline quietcore fix --plan /plan.toml --as cmdline
  part runtime quietcore fix --plan /plan.toml --as runtime
fi
echo "@@done"
poweroff -f
INIT
  chmod +x "$tree/init"
  (cd "$tree" && find . | "$busybox" cpio -o -H newc 2> /dev/null) | gzip -1 > "$work/initramfs.gz"
}

boot() {
  local log=$work/$1.log line=$2
  say "booting ($1): $line"
  initramfs
  [ -e "$work/disk" ] || truncate -s 1M "$work/disk"
  LD_LIBRARY_PATH=$libraries timeout "$timeout" "$qemu" -L "$work/tree/usr/share/qemu" -L "$work/tree/usr/share/seabios" \
    -machine pc,accel=tcg -cpu max,vendor=GenuineIntel -smp "$smp" -m 768 -nographic -no-reboot -nic none \
    -device virtio-net-pci,romfile=,mq=on,vectors=4 \
    -drive file="$work/disk",format=raw,if=none,id=disk -device virtio-blk-pci,drive=disk,num-queues=8 \
    -kernel "$kernel" -initrd "$work/initramfs.gz" -append "$line" < /dev/null 2> "$work/qemu.log" | tr -d '\r' > "$log" || true
  grep -q '^@@done$' "$log" || fail "the kernel did not get to its end: see $log and $work/qemu.log"
}

# A part of what the guest printed.
part() { sed -n "/^@@begin $2\$/,/^@@end\$/{/^@@/!p}" "$work/$1.log"; }

# The rules with a verdict of that word, one a line.
rules() { part "$1" "$2" | awk -v word="$3" '$2 == word && length($1) == 1 { print $3 }'; }

[ -x "$quietcore" ] || fail "no $quietcore: cargo build --release"
tree=$work/tree
[ -n "${KERNEL:-}" ] && [ -n "${QEMU:-}" ] && [ -n "${BUSYBOX:-}" ] || packages
kernel=${KERNEL:-$(first "$tree"/boot/vmlinuz-*)} || fail "no kernel"
modules=${MODULES:-$(first "$tree"/lib/modules/* "$tree"/usr/lib/modules/*)} || fail "no modules"
qemu=${QEMU:-$(first "$tree/usr/bin/qemu-system-x86_64" /usr/bin/qemu-system-x86_64)} || fail "no QEMU"
busybox=${BUSYBOX:-$(first "$tree/bin/busybox" "$tree/usr/bin/busybox" /bin/busybox)} || fail "no busybox"
libraries=$tree/usr/lib/x86_64-linux-gnu:$tree/lib/x86_64-linux-gnu
rm -f "$work/fix.sh"

boot bad "$bad"
part bad before
line=$(part bad cmdline | grep -v '^#' | grep .) || fail "fix printed no boot line"
part bad runtime > "$work/fix.sh"
say "the printed script"
grep '^put \|^  put ' "$work/fix.sh"

boot script "$bad"
part script script
boot fixed "$line"
part fixed script
part fixed after-script
part fixed map

say "what failed, and what became of it"
verdict() { part "$1" "$2" | awk -v rule="$3" '$3 == rule { print $2 }'; }
status=0
failed=$(rules bad before FAIL)
[ -n "$failed" ] || fail "nothing failed at first"
for rule in $failed; do
  by_script=$(verdict script after-script "$rule")
  by_line=$(verdict fixed after-boot "$rule")
  by_both=$(verdict fixed after-script "$rule")
  printf '%-13s by the script alone: %-5s by the boot line alone: %-5s by both: %s\n' \
    "$rule" "$by_script" "$by_line" "$by_both"
  [ "$by_both" = pass ] || status=1
  case $rule in
    # What only the boot line decides.
    nohz_full | rcu_nocbs | cstate) ;;
    *) [ "$by_script" = pass ] || status=1 ;;
  esac
done
for run in script fixed; do
  grep -q '^@@exit 0$' <(sed -n '/^@@begin script$/,/^@@end$/p' "$work/$run.log") || { say "the script failed ($run)"; status=1; }
done
say "logs: $work; $([ "$status" -eq 0 ] && echo 'everything is as it should be' || echo 'NOT everything is as it should be')"
exit "$status"
