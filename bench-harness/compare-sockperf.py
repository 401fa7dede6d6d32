#!/usr/bin/env python3
"""The echo race beside sockperf: same two CPUs, same 64 bytes, TCP over loopback, full round trips, taking turns.

  bench-harness/compare-sockperf.py [--bin DIR] [--rounds N] [--cpus CLIENT,SERVER]

Two comparisons:
  spin   client and server spin: `quietcore-bench echo --client spin --only fastpath` against
         `sockperf ping-pong --tcp --nonblocked --full-rtt`. A slice is 0.25 s of either: of sockperf, whose shortest
         run is a second, the first 0.25 s that it counts.
  block  the client sleeps in the kernel: naive against fastpath, which take turns inside `quietcore-bench echo`.

Nothing is installed and nothing is changed. Prints a line a slice, with the share of the CPUs that other programs and
the hypervisor took meanwhile, and the medians last. Only ratios carry over to another host.
"""
import argparse, csv, json, os, pathlib, platform, resource, shutil, signal, socket, statistics, subprocess, sys, tempfile, time

SLICE_S = 0.25
SPIN_N = 30_000      # about 0.2 s of spinning round trips
ATTEMPTS = 3         # on a busy host sockperf may count nothing at all
BLOCK_N = 4_000      # about 0.1 s of the faster side, 0.3 s of the slower one


def cpu_ticks(cpus):
    """Busy and stolen ticks of the CPUs since boot."""
    busy = steal = 0
    for line in pathlib.Path("/proc/stat").read_text().splitlines():
        name, *ticks = line.split()
        if name in {f"cpu{c}" for c in cpus}:
            user, nice, system, _idle, _iowait, irq, softirq, stolen = map(int, ticks[:8])
            busy += user + nice + system + irq + softirq
            steal += stolen
    return busy, steal


class Others:
    """The share of the CPUs that neither this script nor its children used, while the block ran."""

    def __init__(self, cpus):
        self.cpus = cpus

    def own(self):
        return sum(u.ru_utime + u.ru_stime for u in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))

    def __enter__(self):
        self.start, self.ticks, self.used = time.monotonic(), cpu_ticks(self.cpus), self.own()
        return self

    def __exit__(self, *_):
        wall = (time.monotonic() - self.start) * len(self.cpus)
        busy, steal = (b - a for a, b in zip(self.ticks, cpu_ticks(self.cpus)))
        hz = os.sysconf("SC_CLK_TCK")
        self.others = max(0.0, (busy / hz - (self.own() - self.used)) / wall)
        self.steal = steal / hz / wall

    def __str__(self):
        return f"others {self.others:4.0%}  steal {self.steal:4.0%}"


def end(process):
    """Ends a process group of our own and reaps its leader."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def start(args, **more):
    return subprocess.Popen([str(a) for a in args], start_new_session=True, stdin=subprocess.DEVNULL, **more)


def output(args, timeout):
    process = start(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        out, err = process.communicate(timeout=timeout)
    finally:
        end(process)
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, args))}: exit {process.returncode}\n{err}")
    return out


def quietcore(bench, cpus, *more):
    out = output([bench, "echo", "--ungated", "--format", "json", "--cpus", ",".join(map(str, cpus)), *more], 120)
    return json.loads(out)


def listening(port):
    """Looked up, not tried: the server would take a probe for its client."""
    want = f":{port:04X}"
    rows = (line.split() for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:])
    return any(row[1].endswith(want) and row[3] == "0A" for row in rows)


def sockperf_slice(cpus, folder):
    """Median round trip, in ns, of the first SLICE_S that sockperf counts."""
    client, server = cpus
    log = pathlib.Path(folder) / "log.csv"
    for _ in range(ATTEMPTS):
        log.unlink(missing_ok=True)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        place = ["--tcp", "-i", "127.0.0.1", "-p", port, "--nonblocked"]
        # A spinning server without a client would slow the other side's slices down: one server a slice.
        process = start(["taskset", "-c", server, "sockperf", "server", *place], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + 10
            while not listening(port) and time.monotonic() < deadline:
                time.sleep(0.02)
            said = output(["taskset", "-c", client, "sockperf", "ping-pong", *place, "-m", 64, "-t", 1, "--full-rtt", "--full-log", log], 60)
        finally:
            end(process)
        with open(log, newline="") as lines:
            rows = [row for row in csv.reader(lines) if len(row) == 4 and row[0].isdigit()]
        if rows:
            trips = [(float(sent), float(rtt)) for _, sent, _, rtt in rows]
            return statistics.median_low([round(rtt * 1000) for sent, rtt in trips if sent - trips[0][0] < SLICE_S])
    raise SystemExit(f"sockperf counted nothing in {ATTEMPTS} attempts:\n{said}")


def main():
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--bin", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent / "target" / "release")
    ask.add_argument("--rounds", type=int, default=24)
    ask.add_argument("--cpus", default="0,1")
    ask = ask.parse_args()
    bench = ask.bin / "quietcore-bench"
    cpus = [int(c) for c in ask.cpus.split(",")]
    if len(cpus) != 2 or not set(cpus) <= set(range(os.cpu_count() or 1)):
        sys.exit("skipped: needs two CPUs that are online")
    if not bench.exists():
        sys.exit(f"skipped: {bench} is not built")

    model = next((l.split(":", 1)[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), "unknown CPU")
    print(f"kernel {platform.release()}; {model}; client CPU {cpus[0]}, server CPU {cpus[1]}; load {os.getloadavg()[0]:.2f}")
    print(f"{ask.rounds} rounds; times are medians of full round trips in ns\n")

    if shutil.which("sockperf") is None:
        print("spin: skipped: sockperf is not installed\n")
    else:
        ours, theirs = [], []
        with tempfile.TemporaryDirectory() as folder:
            for turn in range(1, ask.rounds + 1):
                with Others(cpus) as a:
                    arms = quietcore(bench, cpus, "--client", "spin", "--only", "fastpath", "--trials", "1", "--n", SPIN_N)["arms"]
                ours.append(arms[0]["p50"])
                with Others(cpus) as b:
                    theirs.append(sockperf_slice(cpus, folder))
                print(f"spin {turn:2}  quietcore {ours[-1]:7}  ({a})  sockperf {theirs[-1]:7}  ({b})", flush=True)
        a, b = statistics.median(ours), statistics.median(theirs)
        pairs = statistics.median(x / y for x, y in zip(ours, theirs))
        print(f"spin: quietcore {a:.0f}, sockperf {b:.0f}, ratio of medians {a / b:.3f}, median of the rounds' ratios {pairs:.3f}\n")

    with Others(cpus) as noise:
        rep = quietcore(bench, cpus, "--client", "block", "--trials", ask.rounds, "--n", BLOCK_N)
    by_name = {arm["name"]: arm["p50"] for arm in rep["arms"]}
    naive, fast = ([by_name[f"{side}-{turn}"] for turn in range(1, ask.rounds + 1)] for side in ("naive", "fastpath"))
    for turn, (x, y) in enumerate(zip(naive, fast), 1):
        print(f"block {turn:2}  naive {x:7}  fastpath {y:7}")
    a, b = statistics.median(naive), statistics.median(fast)
    pairs = statistics.median(x / y for x, y in zip(naive, fast))
    print(f"block: naive {a:.0f}, fastpath {b:.0f}, ratio of medians {a / b:.2f}, median of the rounds' ratios {pairs:.2f} ({noise})")


if __name__ == "__main__":
    main()
