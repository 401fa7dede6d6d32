# Becomes systemd as PID 1, over a root of its own that shows the host's. The namespaces are new: `unshare` has made them.
# What it mounts and writes is seen in them alone, and ends with them. A step that the host does not let it take ends it.
# shellcheck shell=sh
set -eu
umask 022
scratch=$1 systemd=$2 quietcore=$3 fixtures=$4 etc=$5 plan=$6
# In the host's own numbers, for its /proc is still the one in sight.
read -r pid _ </proc/self/stat

# The root: reads come from the host's, writes go to memory.
mount -t tmpfs -o mode=755 tmpfs "$scratch"
cd "$scratch"
mkdir upper work root
mount -t overlay -o lowerdir=/,upperdir=upper,workdir=work overlay root
cd root
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=1777 tmpfs tmp

# What the kernel shows, not to be written where it is the whole machine's.
mount -t proc proc proc
for shared in sys irq bus fs sysrq-trigger; do
  [ -e "proc/$shared" ] || continue
  mount --bind "proc/$shared" "proc/$shared"
  mount -o remount,bind,ro "proc/$shared"
done
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs dev
for device in null zero full random urandom tty; do
  [ -e "/dev/$device" ] || continue
  : >"dev/$device"
  mount --bind "/dev/$device" "dev/$device"
done

# The program, for every user, and the trees that it judges.
rm -f usr/bin/quietcore
cp "$quietcore" usr/bin/quietcore
chmod 755 usr/bin/quietcore
mkdir run/fixtures
mount --bind "$fixtures" run/fixtures
mount -o remount,bind,ro run/fixtures

# The units of the test, and the few of the system that they need. No other can be started.
rm -rf etc/systemd etc/quietcore etc/machine-id
cp -R "$etc/." etc/
chmod -R a+rX etc/quietcore etc/systemd
for unit in sysinit.target basic.target shutdown.target \
  systemd-journald.service systemd-journald.socket systemd-journald-dev-log.socket; do
  cp "${systemd%/*}/system/$unit" etc/systemd/system/
done
printf '%s\n' '[Journal]' Storage=volatile Audit=no ReadKMsg=no ForwardToWall=no >etc/systemd/journald.conf
printf '%s' "$plan" >etc/quietcore/plan.toml
ln -s /run/fixtures/mistuned/root etc/quietcore/host
echo 71756965746d61636869746573740001 >etc/machine-id

# The host's root goes out of sight.
mkdir run/outside
pivot_root . run/outside
cd /
umount -l /run/outside
rmdir /run/outside
echo "pid $pid"
exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin container=test \
  SYSTEMD_UNIT_PATH=/etc/systemd/system SYSTEMD_GENERATOR_PATH=/run/none SYSTEMD_ENVIRONMENT_GENERATOR_PATH=/run/none \
  setpriv --bounding-set=-sys_boot,-sys_module,-sys_rawio,-sys_time,-syslog,-audit_control,-mac_admin \
  "$systemd" --unit=test.target
