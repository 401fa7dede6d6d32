#!/usr/bin/env python3
"""The eleven base rules as an administrator would write them down in an afternoon: no evidence, no causes, no bounds.

  eleven.py PLAN ROOT

It exists to be timed beside `quietcore check`. Its verdicts agree with quietcore's on well-behaved trees, and it falls for
most of what quietcore does not fall for.
"""
import os, re, sys, tomllib


def main(plan_path, root):
    with open(plan_path, "rb") as file:
        plan = tomllib.load(file)

    def read(path):
        try:
            with open(os.path.join(root, path), encoding="utf8", errors="replace") as file:
                return file.read()
        except OSError:
            return None

    def cpus(text):
        found = set()
        for part in (text or "").strip().split(","):
            if match := re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip()):
                found.update(range(int(match[1]), int(match[2] or match[1]) + 1))
        return found

    def size(text):
        number, unit = re.fullmatch(r"(\d+)\s*(\w*)", str(text)).groups()
        return int(number) * {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[unit]

    hot = set().union(*(cpus(str(role)) for role in plan["hot"].values()))
    boot = (read("proc/cmdline") or "").split()
    values = {}
    for word in boot:
        name, _, value = word.partition("=")
        values[name] = value
    verdicts = {}

    online = cpus(read("sys/devices/system/cpu/online"))
    isolated = cpus(read("sys/devices/system/cpu/isolated")) | cpus(read("sys/fs/cgroup/cpuset.cpus.isolated"))
    verdicts["isolated"] = hot <= (isolated & online)

    if "idle" in plan:
        idle = cpus(plan["idle"])
    else:
        idle = set().union(*(cpus(read(f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")) for cpu in hot)) - hot
    verdicts["siblings"] = all(cpu not in online or cpu in isolated for cpu in idle)

    nohz = cpus(read("sys/devices/system/cpu/nohz_full"))
    verdicts["nohz_full"] = hot <= nohz
    verdicts["rcu_nocbs"] = hot <= nohz | cpus(values.get("rcu_nocbs"))

    mask = int((read("proc/irq/default_smp_affinity") or "0").strip().replace(",", ""), 16)
    fires = any(mask >> cpu & 1 for cpu in hot)
    for line in os.listdir(os.path.join(root, "proc/irq")):
        if line.isdigit():
            folder = os.path.join(root, "proc/irq", line)
            if any(entry.is_dir() for entry in os.scandir(folder)):
                fires |= bool(cpus(read(f"proc/irq/{line}/smp_affinity_list")) & hot)
    verdicts["irq_affinity"] = not fires

    names = [read(f"proc/{pid}/comm") for pid in os.listdir(os.path.join(root, "proc")) if pid.isdigit()]
    verdicts["irqbalance"] = "irqbalance\n" not in names

    governors = [read(f"sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor") for cpu in hot]
    verdicts["governor"] = all(text == "performance\n" for text in governors)

    deep = False
    for cpu in hot:
        folder = os.path.join(root, f"sys/devices/system/cpu/cpu{cpu}/cpuidle")
        for state in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
            path = f"sys/devices/system/cpu/cpu{cpu}/cpuidle/{state}"
            if (read(f"{path}/disable") or "0").strip() == "0":
                deep |= int(read(f"{path}/latency") or 0) > 2
    capped = values.get("intel_idle.max_cstate") == "1" or values.get("processor.max_cstate") == "1"
    verdicts["cstate"] = capped or not deep

    def chosen(path):
        found = re.search(r"\[(\w+)\]", read(path) or "")
        return found and found[1]

    thp = "sys/kernel/mm/transparent_hugepage"
    verdicts["thp"] = chosen(f"{thp}/enabled") in ("madvise", "never") and chosen(f"{thp}/defrag") != "always"

    limit = re.search(r"Max locked memory\s+(\S+)", read("proc/self/limits") or "")
    wanted = size(plan.get("locked-memory", 0))
    verdicts["memlock"] = bool(limit) and (limit[1] == "unlimited" or int(limit[1]) >= wanted)

    throttle = int(read("proc/sys/kernel/sched_rt_runtime_us") or 0)
    verdicts["rt_throttle"] = not plan.get("realtime", False) or throttle == -1

    for rule, passes in verdicts.items():
        print(f"{rule:<14}{'pass' if passes else 'FAIL'}")
    return 0 if all(verdicts.values()) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
