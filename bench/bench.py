"""Skyward beside its peers, in one run on one machine: `./dev bench [--quick] [--only NAME …]`.

Rounds are interleaved (A, B, C, A, B, C …), figures are medians over the rounds; compare ratios,
not figures. Each system runs in a process of its own in each round: what another has imported would
slow it down, and what another has left would count as its. Each file of workloads/ is one workload
with its targets; floors.py measures what the machine itself takes, in the same run. Writes
bench/out/results.json, bench/out/performance.md and bench/out/chart.png; `python bench/page.py`
makes the results docs/performance.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import floors
import numpy as np
from contenders import ALL, echo
from page import NAMES, number, page
from workloads import ALL as ALL_WORKLOADS
from workloads import OWN

MIB = 1 << 20
OUT = Path(__file__).parent / "out"

FIGURES = {name: kind for workload in ALL_WORKLOADS for name, kind in workload.FIGURES.items()}
OWN_FIGURES = {name: kind for workload in OWN for name, kind in workload.FIGURES.items()}
TARGETS = {
    name: goals for workload in [*ALL_WORKLOADS, *OWN] for name, goals in workload.TARGETS.items()
}


@dataclass
class Size:
    """Of one round."""

    calls: int
    tasks: int
    array: np.ndarray
    # What only Skyward does.
    lines: int
    queued: int
    engine_tasks: int
    idle_samples: int  # of the machine, two seconds apart
    rounds: int
    ssh_mib: int


def start(contender) -> float:
    """Seconds until the first answer."""
    begin = time.perf_counter()
    contender.start()
    assert contender.call(echo, 1) == 1
    return time.perf_counter() - begin


def measure_apart(name: str, options: argparse.Namespace) -> dict[str, float]:
    """measure(), in another process."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        command = [sys.executable, __file__, "--one", name, "--into", file.name]
        command += ["--workers", str(options.workers)] + ["--quick"] * options.quick
        subprocess.run(command, check=True)
        return json.loads(Path(file.name).read_text())


def measure(contender_class, workers: int, size: Size) -> dict[str, float]:
    contender = contender_class(workers)
    figures = {"first_start": start(contender)}
    contender.close()
    contender = contender_class(workers)
    figures["start"] = start(contender)
    try:
        for workload in ALL_WORKLOADS:
            if getattr(workload, "IN_A_NEW_POOL", False):
                contender.close()
                contender = contender_class(workers)
                start(contender)
            figures |= workload.measure(contender, size)
    finally:
        contender.close()
    return figures


def measure_own(size: Size) -> tuple[dict[str, float], dict[str, str]]:
    """The figures, and why some workloads have none."""
    figures: dict[str, float] = {}
    skipped: dict[str, str] = {}
    for workload in OWN:
        name = workload.__name__.removeprefix("workloads.")
        if reason := getattr(workload, "missing", lambda: None)():
            skipped[name] = reason
            continue
        print(f"skyward alone: {name}", file=sys.stderr, flush=True)
        figures |= workload.measure(size)
    return figures, skipped


def measure_floors(size: Size) -> dict[str, float]:
    rates = floors.memcpy(size.array)
    return {"echo": floors.echo(size.calls)} | {f"memcpy_{kind}": rates[kind] for kind in rates}


def medians(rounds: list[dict[str, float]]) -> dict[str, float]:
    return {key: statistics.median(r[key] for r in rounds) for key in rounds[0]}


def goals(
    summary: dict[str, dict[str, float]], own: dict[str, float], floor: dict[str, float]
) -> list[dict]:
    """Each target of Skyward with what was measured; `ratio` is 1 or more where it is reached."""
    rows = []
    measured = summary["skyward"] | own
    summary = summary | {"skyward": measured}
    for name, targets in TARGETS.items():
        if name not in measured:
            continue  # skipped
        unit, more_is_better = (FIGURES | OWN_FIGURES)[name]
        value = measured[name]
        for target in targets:
            given = callable(target)
            limit = target(summary, floor) if given else target
            if limit is None:
                continue  # the peer did not run
            rows.append(
                {
                    "figure": name,
                    "unit": unit,
                    "target": f"{limit:,.4g}" + (f" ({target.__doc__})" if given else ""),
                    "measured": value,
                    "ratio": _ratio(value, limit, more_is_better),
                }
            )
    return rows


def _ratio(value: float, limit: float, more_is_better: bool) -> float:
    if more_is_better:
        return value / limit
    return limit / value if value > 0 else float(value <= limit)  # memory may have shrunk


def print_goals(rows: list[dict]) -> None:
    width = max(len(row["target"]) for row in rows)
    print(f"\n{'figure':20} {'target':>{width}} {'measured':>12}  ratio (1: reached)")
    for row in rows:
        print(
            f"{row['figure']:20} {row['target']:>{width}} {row['measured']:>12,.4g}"
            f"  {row['ratio']:.2f} {row['unit']}"
        )


def print_table(summary: dict[str, dict[str, float]]) -> None:
    width = max(len(name) for name in summary)
    for figure, (unit, more_is_better) in FIGURES.items():
        print(f"\n{figure} ({unit}, {'more' if more_is_better else 'less'} is better)")
        ours = summary.get("skyward", {}).get(figure)
        for name, figures in summary.items():
            value = figures[figure]
            ratio = ""
            if ours and name != "skyward":
                times = ours / value if more_is_better else value / ours
                ratio = f"   skyward is {times:.2f} x as good"
            print(f"  {name:<{width}} {value:>14,.4g}{ratio}")


def draw_chart(summary: dict[str, dict[str, float]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot, ticker

    names = list(summary)
    columns = -(-len(FIGURES) // 3)
    figure, axes = pyplot.subplots(3, columns, figsize=(4.5 * columns, 10), layout="constrained")
    for axis in axes.flat[len(FIGURES) :]:
        axis.set_axis_off()
    for axis, (workload, (unit, more_is_better)) in zip(axes.flat, FIGURES.items(), strict=False):
        values = [summary[name][workload] for name in names]
        colors = ["tab:blue" if name == "skyward" else "lightgray" for name in names]
        bars = axis.barh(names, values, color=colors)
        axis.bar_label(bars, labels=[number(value) for value in values], padding=2)
        axis.invert_yaxis()
        axis.set_xscale("log")
        axis.set_xlim(min(values) / 2, max(values) * (max(values) / min(values)) ** 0.3 * 2)
        axis.xaxis.set_minor_formatter(ticker.NullFormatter())
        better = "more is better" if more_is_better else "less is better"
        axis.set_title(f"{NAMES[workload].replace('`', '')} [{unit}]\n{better}", fontsize=10)
    figure.suptitle(
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, medians"
    )
    figure.savefig(path, dpi=110)


def round_size(quick: bool) -> Size:
    calls, tasks, mib = (100, 1_000, 64) if quick else (1_000, 100_000, 1024)
    own = (
        (200_000, 50_000, 100_000, 1, 1, 16)
        if quick
        else (4_000_000, 1_000_000, 10_000_000, 5, 5, 256)
    )
    return Size(calls, tasks, np.random.default_rng(0).random(mib * MIB // 8), *own)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="one small round, to see that everything runs"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--only", nargs="+", choices=[c.name for c in ALL], help="names of contenders"
    )
    parser.add_argument("--one", help=argparse.SUPPRESS)  # see measure_apart()
    parser.add_argument("--into", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    options = parse_options()
    # Workers start from byte code, as in an installed package.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

    rounds = 1 if options.quick else options.rounds
    size = round_size(options.quick)
    if options.one:
        (contender,) = [c for c in ALL if c.name == options.one]
        options.into.write_text(json.dumps(measure(contender, options.workers, size)))
        return 0
    chosen = [c for c in ALL if not options.only or c.name in options.only]
    skipped = {c.name: c.missing() for c in chosen if c.missing()}
    chosen = [c for c in chosen if c.name not in skipped]
    if not chosen:
        raise SystemExit("; ".join(f"{name}: {why}" for name, why in skipped.items()))
    results: dict[str, list[dict[str, float]]] = {c.name: [] for c in chosen}
    bare: list[dict[str, float]] = []
    for done in range(rounds):
        bare.append(measure_floors(size))
        for contender in chosen:
            print(f"round {done + 1}/{rounds}: {contender.name}", file=sys.stderr, flush=True)
            results[contender.name].append(measure_apart(contender.name, options))

    floor = medians(bare)
    summary = {name: medians(rounds) for name, rounds in results.items()}
    print_table(summary)
    print(
        f"\nfloors: bare pickle echo {floor['echo']:.1f} us, memcpy into fresh memory "
        f"{floor['memcpy_fresh']:.2f} and into warm {floor['memcpy_warm']:.2f} GiB/s"
    )
    report = {
        "date": time.strftime("%Y-%m-%d"),
        "machine": {
            "cpus": os.cpu_count(),
            "machine": platform.machine(),
            "python": platform.python_version(),
            "load": os.getloadavg(),
        },
        "versions": {c.name: c.version() for c in chosen},
        "skipped": skipped,
        "workers": options.workers,
        "array_bytes": size.array.nbytes,
        "tasks": size.tasks,
        "units": {name: unit for name, (unit, _) in FIGURES.items()},
        "more_is_better": {name: better for name, (_, better) in FIGURES.items()},
        "floors": floor,
        "median": summary,
        "rounds": results,
    }
    if "skyward" in results:
        report["own"], report["own_skipped"] = measure_own(size)
        skipped |= report["own_skipped"]
        report["own_units"] = {name: unit for name, (unit, _) in OWN_FIGURES.items()}
        report["targets"] = goals(summary, report["own"], floor)
        print_goals(report["targets"])
    for name, why in skipped.items():
        print(f"skipped {name}: {why}")
    OUT.mkdir(exist_ok=True)
    (OUT / "results.json").write_text(json.dumps(report, indent=1))
    if "skyward" in results:
        (OUT / "performance.md").write_text(page(report))
    draw_chart(summary, OUT / "chart.png")
    print(f"\nwritten: {OUT / 'results.json'} and {OUT / 'chart.png'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
