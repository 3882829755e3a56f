"""Skyward beside its peers, in one run on one machine: `./dev bench [--quick] [--only NAME …]`.

Rounds are interleaved (A, B, C, A, B, C …), figures are medians over the rounds; compare ratios,
not figures. Writes bench/out/results.json and bench/out/chart.png.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from pathlib import Path

import numpy as np
from contenders import ALL, echo, touch

MIB = 1 << 20
OUT = Path(__file__).parent / "out"

# name: (unit, is more better?)
WORKLOADS = {
    "start": ("s", False),
    "round_trip_p50": ("us", False),
    "round_trip_p99": ("us", False),
    "tasks_per_second": ("1/s", True),
    "cpu_per_task": ("us", False),
    "argument_first": ("GiB/s", True),
    "argument_again": ("GiB/s", True),
    "memory": ("MiB", False),
}


def process_tree() -> list[int]:
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents.setdefault(int(fields[1]), []).append(int(entry.name))
    found, todo = [], [os.getpid()]
    while todo:
        pid = todo.pop()
        found.append(pid)
        todo += parents.get(pid, [])
    return found


def tree_cpu_seconds() -> float:
    """User and system time of this process and everything below it, the reaped ones included."""
    ticks = 0
    for pid in process_tree():
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks += sum(int(field) for field in fields[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


def tree_memory_mib() -> float:
    """Proportional set size of everything below this process, without this process."""
    total = 0
    for pid in process_tree()[1:]:
        try:
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1])
        except OSError:
            continue
    return total / 1024


def memcpy_gib_s(array: np.ndarray) -> dict[str, float]:
    """Copying the array into memory that nobody has touched yet (what a first argument needs), and
    into memory that is there (what a second one needs)."""
    fresh, warm = [], []
    for _ in range(3):
        target = np.empty_like(array)
        for times in (fresh, warm):
            begin = time.perf_counter()
            np.copyto(target, array)
            times.append(time.perf_counter() - begin)
        del target
    size = array.nbytes / (1 << 30)
    return {"fresh": size / statistics.median(fresh), "warm": size / statistics.median(warm)}


def measure(
    contender_class, workers: int, calls: int, tasks: int, array: np.ndarray
) -> dict[str, float]:
    contender = contender_class(workers)
    begin = time.perf_counter()
    contender.start()
    assert contender.call(echo, 1) == 1
    figures = {"start": time.perf_counter() - begin}
    try:
        contender.many(echo, range(200))
        figures["memory"] = tree_memory_mib()

        times = []
        for i in range(calls):
            begin = time.perf_counter()
            contender.call(echo, i)
            times.append((time.perf_counter() - begin) * 1e6)
        figures["round_trip_p50"] = statistics.median(times)
        figures["round_trip_p99"] = statistics.quantiles(times, n=100)[98]

        count = min(tasks, contender.parallel_limit)
        cpu, begin = tree_cpu_seconds(), time.perf_counter()
        assert contender.many(echo, range(count)) == list(range(count))
        figures["tasks_per_second"] = count / (time.perf_counter() - begin)
        figures["cpu_per_task"] = (tree_cpu_seconds() - cpu) / count * 1e6

        # Beside each other: what fresh memory costs depends on what the machine did before.
        figures |= {f"memcpy_{kind}": rate for kind, rate in memcpy_gib_s(array).items()}
        expected = touch(array)
        rates = []
        for _ in range(4):
            begin = time.perf_counter()
            assert contender.call(touch, array) == expected
            rates.append(array.nbytes / (1 << 30) / (time.perf_counter() - begin))
        figures["argument_first"] = rates[0]
        figures["argument_again"] = statistics.median(rates[1:])
    finally:
        contender.close()
    return figures


def broadcast_ratio(array: np.ndarray) -> float:
    """Time of a broadcast to four local nodes over that of one.

    About 1 when the bytes are stored once, 4 when they are copied for each.
    """
    import skyward as sky

    times = {}
    for nodes in (1, 4):
        with sky.ComputePool(nodes=nodes, display="quiet", collect_metrics=False) as pool:
            size_of = sky.compute(len)
            size_of(array) @ pool
            samples = []
            for _ in range(3):
                begin = time.perf_counter()
                size_of(array) @ pool
                samples.append(time.perf_counter() - begin)
            times[nodes] = statistics.median(samples)
    return times[4] / times[1]


def summarize(rounds: dict[str, list[dict[str, float]]]) -> dict[str, dict[str, float]]:
    return {
        name: {key: statistics.median(r[key] for r in results) for key in WORKLOADS}
        for name, results in rounds.items()
        if results
    }


def print_table(summary: dict[str, dict[str, float]]) -> None:
    width = max(len(name) for name in summary)
    for workload, (unit, more_is_better) in WORKLOADS.items():
        print(f"\n{workload} ({unit}, {'more' if more_is_better else 'less'} is better)")
        ours = summary.get("skyward", {}).get(workload)
        for name, figures in summary.items():
            value = figures[workload]
            ratio = ""
            if ours and name != "skyward":
                times = ours / value if more_is_better else value / ours
                ratio = f"   skyward is {times:.2f} x as good"
            print(f"  {name:<{width}} {value:>14,.4g}{ratio}")


def draw_chart(summary: dict[str, dict[str, float]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    names = list(summary)
    figure, axes = pyplot.subplots(2, 4, figsize=(16, 7), layout="constrained")
    for axis, (workload, (unit, more_is_better)) in zip(axes.flat, WORKLOADS.items(), strict=True):
        values = [summary[name][workload] for name in names]
        colors = ["tab:blue" if name == "skyward" else "lightgray" for name in names]
        bars = axis.barh(names, values, color=colors)
        axis.bar_label(bars, fmt="%.3g", padding=2)
        axis.invert_yaxis()
        axis.set_xscale("log")
        axis.margins(x=0.25)
        axis.set_title(
            f"{workload} [{unit}], {'more' if more_is_better else 'less'} is better", fontsize=10
        )
    figure.suptitle(
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, medians"
    )
    figure.savefig(path, dpi=110)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="one small round, to see that everything runs"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", nargs="*", help="names of contenders")
    options = parser.parse_args()

    rounds = 1 if options.quick else options.rounds
    calls, tasks = (100, 1_000) if options.quick else (1_000, 20_000)
    array = np.random.default_rng(0).random((64 if options.quick else 1024) * MIB // 8)

    chosen = [c for c in ALL if not options.only or c.name in options.only]
    skipped = {c.name: c.missing() for c in chosen if c.missing()}
    chosen = [c for c in chosen if c.name not in skipped]
    results: dict[str, list[dict[str, float]]] = {c.name: [] for c in chosen}
    for number in range(rounds):
        for contender in chosen:
            print(f"round {number + 1}/{rounds}: {contender.name}", file=sys.stderr, flush=True)
            results[contender.name].append(measure(contender, options.workers, calls, tasks, array))

    summary = summarize(results)
    print_table(summary)
    report = {
        "machine": {
            "cpus": os.cpu_count(),
            "python": platform.python_version(),
            "load": os.getloadavg(),
        },
        "versions": {c.name: c.version() for c in chosen},
        "skipped": skipped,
        "workers": options.workers,
        "array_bytes": array.nbytes,
        "units": {name: unit for name, (unit, _) in WORKLOADS.items()},
        "median": summary,
        "rounds": results,
    }
    if "skyward" in results:
        report["broadcast_4_nodes_over_1"] = broadcast_ratio(array)
        ours = {
            k: statistics.median(r[k] for r in results["skyward"]) for k in results["skyward"][0]
        }
        for kind, name in (("fresh", "argument_first"), ("warm", "argument_again")):
            rate = ours[f"memcpy_{kind}"]
            print(
                f"memcpy into {kind} memory {rate:.2f} GiB/s; skyward's {name} "
                f"reaches {ours[name] / rate:.0%} of it"
            )
        print(
            f"broadcast to 4 nodes takes {report['broadcast_4_nodes_over_1']:.2f} x the time of 1"
        )
    for name, why in skipped.items():
        print(f"skipped {name}: {why}")
    OUT.mkdir(exist_ok=True)
    (OUT / "results.json").write_text(json.dumps(report, indent=1))
    draw_chart(summary, OUT / "chart.png")
    print(f"\nwritten: {OUT / 'results.json'} and {OUT / 'chart.png'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
