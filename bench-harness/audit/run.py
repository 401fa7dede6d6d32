#!/usr/bin/env python3
"""What an audit costs: `quietcore check` beside the least that reading its files can cost, and beside a Python script.

  bench-harness/audit/run.py [--bin DIR] [--rounds N] [--trees 64,1024,4096] [--packs base] [--keep DIR]

Three programs take turns (A B C A B C …), each a whole process pinned to one CPU:
  check   quietcore check --packs base --format json
  floor   floor.c, which opens, reads and closes exactly the files that check opened, and lists the same folders
  python  eleven.py, a plain script of the eleven base rules
on this host and on generated trees of 64, 1024 and 4096 CPUs with 256, 4096 and 16384 interrupt lines; and on this host an
empty Rust program, as what a process costs at all. Which files check opens is taken from one run under strace.

Needs cc, rustc, strace and python3.11; installs nothing, changes nothing. Times are medians of user + system time, and the
ratios are medians of the ratios within a round; only they carry over to another host.
"""
import argparse, os, pathlib, re, shutil, statistics, subprocess, sys, tempfile

HERE = pathlib.Path(__file__).resolve().parent
LINES = {64: 256, 1024: 4096, 4096: 16384}


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def mask(cpus, total):
    """The set in the form of smp_affinity: groups of 32 bits, the highest first."""
    bits = sum(1 << cpu for cpu in cpus)
    groups = [f"{bits >> shift & 0xFFFFFFFF:08x}" for shift in range(0, total, 32)]
    return ",".join(reversed(groups)) + "\n"


def generate(folder, cpus):
    """A tuned host of two sockets: two threads a core, the last four cores of the second socket hot. Returns its plan."""
    root, half = folder / "root", cpus // 2
    hot = range(half - 4, half)  # first threads
    idle = range(cpus - 4, cpus)
    rest = f"0-{half - 5},{half}-{cpus - 5}"
    quiet = f"{hot[0]}-{hot[-1]},{idle[0]}-{idle[-1]}"
    hot_list = f"{hot[0]}-{hot[-1]}"
    system = root / "sys/devices/system"
    for name in ("possible", "present", "online"):
        write(system / "cpu" / name, f"0-{cpus - 1}\n")
    write(system / "cpu/isolated", quiet + "\n")
    write(system / "cpu/nohz_full", quiet + "\n")
    write(system / "cpu/cpuidle/current_driver", "intel_idle\n")
    for node in (0, 1):
        quarter = half // 2
        write(system / f"node/node{node}/cpulist", f"{node * quarter}-{node * quarter + quarter - 1},{half + node * quarter}-{half + node * quarter + quarter - 1}\n")
    write(system / "node/online", "0-1\n")
    for cpu in range(cpus):
        core = cpu % half
        topology = system / f"cpu/cpu{cpu}/topology"
        for name, value in (("thread_siblings_list", f"{core},{core + half}"), ("core_cpus_list", f"{core},{core + half}"), ("core_id", core), ("physical_package_id", core * 2 // half)):
            write(topology / name, f"{value}\n")
        write(system / f"cpu/cpu{cpu}/online", "1\n")
        write(system / f"cpu/cpu{cpu}/cpufreq/scaling_governor", "performance\n")
        for state, (name, latency) in enumerate((("POLL", 0), ("C1", 2), ("C6", 133))):
            for key, value in (("name", name), ("latency", latency), ("disable", 1 if latency > 2 else 0)):
                write(system / f"cpu/cpu{cpu}/cpuidle/state{state}/{key}", f"{value}\n")
    write(root / "proc/cmdline", f"BOOT_IMAGE=/vmlinuz ro isolcpus=managed_irq,domain,{quiet} nohz_full={quiet} rcu_nocbs={quiet}\n")
    write(root / "proc/irq/default_smp_affinity", mask([cpu for cpu in range(cpus) if cpu not in hot and cpu not in idle], cpus))
    for line in range(LINES[cpus]):
        target = line % (half - 4)
        irq = root / f"proc/irq/{24 + line}"
        write(irq / "smp_affinity_list", f"{target}\n")
        write(irq / "smp_affinity", mask([target], cpus))
        write(irq / "effective_affinity_list", f"{target}\n")
        (irq / f"nic-{line}").mkdir(exist_ok=True)
    for pid, name in ((1, "systemd"), (2, "kthreadd"), (700, "sshd"), (701, "feed")):
        write(root / f"proc/{pid}/comm", name + "\n")
    write(root / "proc/self/limits", "Limit                     Soft Limit           Hard Limit           Units     \nMax locked memory         unlimited            unlimited            bytes     \n")
    write(root / "proc/sys/kernel/osrelease", "6.1.119\n")
    write(root / "proc/sys/kernel/sched_rt_runtime_us", "950000\n")
    write(root / "proc/sys/kernel/sched_rt_period_us", "1000000\n")
    for name in ("enabled", "defrag"):
        write(root / f"sys/kernel/mm/transparent_hugepage/{name}", "always [madvise] never\n")
    plan = folder / "plan.toml"
    write(plan, f'idle = "{idle[0]}-{idle[-1]}"\nhousekeeping = "{rest}"\nlocked-memory = "1GiB"\n[hot]\nfeed = "{hot_list}"\n')
    return plan, root


def reads_of(command, root, scratch):
    """The files and folders that a command opens below `root`, in order, and how many system calls it makes in all."""
    trace = scratch / "trace"
    subprocess.run(["strace", "-f", "-y", "-qq", "-o", trace, *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    top = str(root).rstrip("/") + "/"
    reads, calls, inside = [], 0, 0
    for line in trace.read_text(errors="replace").splitlines():
        calls += 1
        # The kernel's own name of what was opened: `= 5</sys/devices/system/cpu/online>`.
        opened = re.search(r" open(?:at2?)?\(.*= \d+<(/.*)>$", line)
        if opened and opened[1].startswith(top) and "O_PATH" not in line:
            path = opened[1][len(top):]
            if re.match(r"(proc|sys|dev|boot)/", path) and not re.match(r"proc/\d+/maps$", path):
                reads.append(("d" if "O_DIRECTORY" in line or os.path.isdir(opened[1]) else "f", path))
        inside += bool(re.search(r"<%s(proc|sys|dev|boot)\b|\((\d+)<%s" % (re.escape(top), re.escape(top)), line))
    return reads, calls, inside


def timed(launcher, command, cpu):
    """User + system seconds, wall seconds and peak KiB of a whole process."""
    done = subprocess.run([str(part) for part in (launcher, cpu, *command)], stdout=subprocess.PIPE, text=True, check=True)
    used, wall, peak, code = map(int, done.stdout.split())
    if code not in (0, 1):
        sys.exit(f"{command[0]} ended with {code}")
    return used / 1e6, wall / 1e6, peak


def compare(name, programs, rounds, launcher, cpu):
    """Runs the programs in turns; medians of each, and of the ratios of the first one to the others within a round."""
    taken = {program: [] for program in programs}
    for _ in range(rounds):
        for program, command in programs.items():
            taken[program].append(timed(launcher, command, cpu))
    first = next(iter(programs))
    for program, runs in taken.items():
        cpu_ms, wall_ms, peak = (statistics.median(run[i] for run in runs) for i in range(3))
        cpu_ms, wall_ms = cpu_ms * 1000, wall_ms * 1000
        ratio = statistics.median(a[1] / b[1] for a, b in zip(taken[first], runs))
        ratio_cpu = statistics.median(a[0] / b[0] for a, b in zip(taken[first], runs) if b[0])
        over = statistics.median((a[1] - b[1]) * 1000 for a, b in zip(taken[first], runs))
        print(f"{name:<22}{program:<8}{cpu_ms:9.2f}{wall_ms:9.2f}{peak / 1024:8.1f}{ratio_cpu:9.2f}{ratio:9.2f}{over:9.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("target/release"))
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--trees", default="64,1024,4096")
    parser.add_argument("--packs", default="base")
    parser.add_argument("--keep", type=pathlib.Path, help="make the trees here, and use those that are there")
    ask = parser.parse_args()
    for tool in ("cc", "rustc", "strace"):
        if not shutil.which(tool):
            sys.exit(f"{tool} is missing")
    check = (ask.bin / "quietcore").resolve()
    cpu = max(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        for name in ("floor", "timed"):
            subprocess.run(["cc", "-O2", "-o", scratch / name, HERE / f"{name}.c"], check=True)
        (scratch / "empty.rs").write_text("fn main() {}\n")
        subprocess.run(["rustc", "-O", "-o", scratch / "empty", scratch / "empty.rs"], check=True)
        plan = scratch / "plan.toml"
        plan.write_text(f'locked-memory = "64MiB"\n[hot]\nfeed = {cpu}\n')
        hosts = [("this host", plan, pathlib.Path("/"))]
        for cpus in [int(text) for text in ask.trees.split(",") if text]:
            folder = (ask.keep or scratch) / str(cpus)
            made = (folder / "plan.toml", folder / "root")
            hosts.append((f"{cpus} CPUs, {LINES[cpus]} lines", *(made if made[0].exists() else generate(folder, cpus))))
        prepared = []
        print("host                  files    folders  twice   calls  calls a file  binary MB")
        for name, plan, root in hosts:
            command = [check, "check", "--packs", ask.packs, "--plan", plan, "--root", root, "--format", "json"]
            reads, calls, inside = reads_of(command, root.resolve(), scratch)
            files, folders = ([path for kind, path in reads if kind == wanted] for wanted in "fd")
            wanted = scratch / f"reads-{len(prepared)}"
            wanted.write_text("".join(f"{kind} {path}\n" for kind, path in dict.fromkeys(reads)))
            twice = len(reads) - len(set(reads))
            print(f"{name:<22}{len(files):<9}{len(folders):<9}{twice:<8}{calls:<7}{inside / max(1, len(files)):<14.2f}{check.stat().st_size / 1e6:.2f}")
            python = shutil.which("python3")
            programs = {"check": command, "floor": [scratch / "floor", root, wanted], "python": [python, HERE / "eleven.py", plan, root]}
            if root == pathlib.Path("/"):
                programs["empty"] = [scratch / "empty"]
            prepared.append((name, programs))
        print("\nhost                  program   cpu ms  wall ms  peak MB  check/cpu /wall   over ms")
        for name, programs in prepared:
            compare(name, programs, ask.rounds if "4096 CPUs" not in name else max(5, ask.rounds // 4), scratch / "timed", cpu)


if __name__ == "__main__":
    main()
