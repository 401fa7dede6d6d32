#!/usr/bin/env python3
"""The hiccup meter beside oslat (rt-tests) and beside a bare loop: same CPU, taking turns.

  bench-harness/compare-oslat.py [--bin DIR] [--pairs N] [--seconds S] [--cpu CPU]

oslat counts passes in bins of a microsecond, whose labels are one too high (bin 6 holds 5 us up to 6 us), so the two are
compared where both can see: time lost to gaps of 2 us and more, each of oslat's taken as the middle of its bin, and the
number of gaps of 5 us and more. The bare loop reads the counter and compares, and does nothing else; it is compiled with
`cc` where there is one. Nothing is installed and nothing is changed. Prints a line a pair and the medians last: only
ratios carry over to another host.
"""
import argparse, csv, json, os, pathlib, shutil, statistics, subprocess, sys, tempfile

LOST_FROM_US = 2
COUNT_FROM_US = 5
BINS = 1024  # the most that oslat takes; how much longer than that a pass was shows in its average alone

BARE_LOOP = r"""
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <x86intrin.h>
static double ns(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC_RAW, &t); return t.tv_sec * 1e9 + t.tv_nsec; }
int main(int argc, char **argv) {
    double from = ns();
    uint64_t begin = __rdtsc();
    while (ns() - from < 5e7);
    double ns_per_tick = (ns() - from) / (double)(__rdtsc() - begin);
    uint64_t threshold = 200 / ns_per_tick, passes = 0, gaps = 0, lost = 0;
    uint64_t first = __rdtsc(), last = first, end = first + (uint64_t)(atof(argv[argc - 1]) * 1e9 / ns_per_tick);
    while (last < end) {
        uint64_t now = __rdtsc();
        passes++;
        if (now - last >= threshold) { gaps++; lost += now - last; }
        last = now;
    }
    printf("%f\n", (last - first - lost) * ns_per_tick / (passes - gaps));
}
"""


def oslat(cpu, seconds, scratch):
    """Share of time lost, and gaps a second."""
    out = scratch / "oslat.json"
    main = min(c for c in os.sched_getaffinity(0) if c != cpu)
    command = ["oslat", "-c", cpu, "-C", main, "-D", seconds, "-b", BINS, "-q", f"--json={out}"]
    subprocess.run([str(a) for a in command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    thread = json.loads(out.read_text())["thread"]["0"]
    bins = [(int(label) - 1, count) for label, count in thread["histogram"].items()]
    beyond = thread["avg"] * sum(count for _, count in bins) - sum((us + 1) * count for us, count in bins)
    lost = beyond + sum((us + 0.5) * count for us, count in bins if us >= LOST_FROM_US)
    return lost / 1e6 / thread["duration"], sum(count for us, count in bins if us >= COUNT_FROM_US) / thread["duration"]


def meter(bench, cpu, seconds, scratch):
    """Share of time lost, gaps a second, and the length of a pass."""
    command = [bench, "hiccups", "--ungated", "-c", cpu, "--seconds", seconds, "--format", "json", "--out", scratch]
    result = subprocess.run([str(a) for a in command], check=True, stdout=subprocess.PIPE, text=True)
    arm = json.loads(result.stdout)["arms"][0]
    with open(scratch / "hiccups-alone.csv") as file:
        lengths = [int(row["ns"]) for row in csv.DictReader(file)]
    if len(lengths) != arm["gaps"]:
        sys.exit("more gaps than were kept one by one: ask for fewer seconds")
    lost = sum(ns for ns in lengths if ns >= LOST_FROM_US * 1000) / arm["observed_ns"]
    return lost, arm["gaps_per_s"][str(COUNT_FROM_US * 1000)], arm["loop_ns"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("target/release"))
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--cpu", type=int, default=max(os.sched_getaffinity(0)))
    ask = parser.parse_args()
    if not shutil.which("oslat"):
        sys.exit("oslat is missing: apt-get install rt-tests")
    bench = ask.bin / "quietcore-bench"
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        bare = None
        if shutil.which("cc") and os.uname().machine == "x86_64":
            (scratch / "bare.c").write_text(BARE_LOOP)
            bare = scratch / "bare"
            subprocess.run(["cc", "-O2", "-o", bare, scratch / "bare.c"], check=True)
        ratios = {"lost": [], "gaps": [], "pass": []}
        print("      lost %                 gaps >= 5 us a second    pass ns")
        print("pair  meter   oslat   ratio  meter   oslat   ratio    meter   bare")
        for pair in range(1, ask.pairs + 1):
            runs = {}
            for name in ("meter", "oslat") if pair % 2 else ("oslat", "meter"):
                runs[name] = meter(bench, ask.cpu, ask.seconds, scratch) if name == "meter" else oslat(ask.cpu, ask.seconds, scratch)
            (lost, gaps, loop), (other_lost, other_gaps) = runs["meter"], runs["oslat"]
            ratios["lost"].append(lost / other_lost)
            ratios["gaps"].append(gaps / other_gaps)
            line = f"{pair:4}  {lost:6.2%}  {other_lost:6.2%}  {lost / other_lost:5.2f}  {gaps:6.0f}  {other_gaps:6.0f}  {gaps / other_gaps:5.2f}  {loop:7.2f}"
            if bare:
                command = ["taskset", "-c", str(ask.cpu), str(bare), "1"]
                bare_pass = float(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
                ratios["pass"].append(loop / bare_pass)
                line += f"  {bare_pass:6.2f}"
            print(line, flush=True)
        for name, values in ratios.items():
            if values:
                print(f"median ratio, {name}: {statistics.median(values):.3f}, from {min(values):.3f} to {max(values):.3f}")


if __name__ == "__main__":
    main()
