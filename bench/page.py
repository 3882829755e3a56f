"""docs/performance.md, from what a run of bench.py has measured."""

import json
import textwrap
from pathlib import Path

COLUMNS = 125

NAMES = {
    "first_start": "pool ready, first time in a program",
    "start": "pool ready",
    "memory": "memory of all processes",
    "round_trip_p50": "warm call, median",
    "round_trip_p99": "warm call, 99th percentile",
    "tasks_per_second": "tracked tasks of one batch",
    "cpu_per_task": "CPU of all processes for each task of a batch",
    "map_per_second": "`map`",
    "futures_per_second": "futures, results read as they complete",
    "argument_first": "a large argument, first time",
    "argument_again": "the same argument again",
    "awaits_per_second": "calls awaited together in asyncio",
    "result_first": "a large result, first time",
    "result_again": "further large results",
    "four_start": "pool of four local nodes ready",
    "four_answered": "... and each of its workers has answered",
    "broadcast_first": "a large argument for four local nodes, relative to one node",
    "broadcast_again": "further large arguments for four local nodes",
    "same_object": "call with a large argument sent before, same object",
    "equal_object": "the same with an equal object",
    "read_only_object": "the same with a read-only array",
    "ssh_raw_round_trip": "round trip of a bare ssh connection on loopback",
    "ssh_call": "warm call over ssh on loopback, median",
    "ssh_raw_bulk": "bytes through a bare ssh connection",
    "ssh_bulk": "a large argument over ssh",
    "cpp_echo": "bare echo between two C++ processes",
    "cpp_start": "C++: pool of four local nodes, each has answered",
    "cpp_call_p50": "C++: warm call, median",
    "cpp_call_p99": "C++: warm call, 99th percentile",
    "cpp_tasks_per_second": "C++: tracked tasks of one batch",
    "cpp_same_object": "C++: call with a large argument that the node already has",
    "agent_disk": "the agent's file",
    "agent_packed": "the agent's file, compressed for sending",
    "agent_resident": "an idle agent's memory",
    "agent_idle_cpu": "an idle agent's CPU",
    "lines_per_second": "lines of a task's output, into the log files",
    "prints_per_second": "the same with `print`",
    "lines_memory": "memory growth of driver and agent during that output",
    "queue_seconds": "a batch of 1,000,000 calls is queued",
    "queue_memory": "memory of the driver for each of them",
    "queue_left": "memory still held after the batch",
    "engine_task": "CPU of the engine for a task, 10 to 10,000 nodes",
    "engine_scale": "CPU of the engine for a task, largest deviation from 10 to 10,000 nodes",
    "engine_node": "memory of the engine for each of 10,000 nodes",
    "engine_growth": "growth of its memory over 10,000,000 tasks",
    "engine_accept": "CPU of the engine to accept 1,000,000 tasks",
    "engine_queued": "memory of the engine for each of them",
    "engine_left": "engine memory still held after them",
}
WHY = {
    "memory": "Skyward runs an agent beside the workers, and each worker is a whole interpreter.",
    "map_per_second": "It sends many items as one task and answers them together. Skyward returns"
    " each result as soon as it is ready, and no slow item holds up the others.",
    "futures_per_second": "Skyward's futures are those of `concurrent.futures`: making one and"
    " waiting for it takes most of the time of a quick call.",
    "argument_first": "The bytes are copied once, into memory that the workers map. The first time,"
    " the kernel must provide that memory.",
    "first_start": "Skyward starts an agent, which starts the workers.",
    "start": "Skyward starts an agent, which starts the workers.",
}
"""Why a peer may be ahead."""
MISSED = {
    "round_trip_p50": "A call and its answer go through the agent, which the kernel must wake each"
    " time. A bare echo has no intermediary.",
    "round_trip_p99": "In some pools, the kernel puts the worker on the core on which the program"
    " spins. Dozens of calls then take a millisecond or two, until it moves one of the two.",
    "result_first": "The worker copies the bytes once, with one thread, into memory that the kernel"
    " must first provide. Later results reuse it.",
    "same_object": "A program may write into an array between two calls, so its bytes are copied"
    " each time. A read-only array is sent once, and so is an `sky::Array` of C++.",
    "ssh_call": "At the end of the bare connection is one process. At the end of the pool's are"
    " two, one after the other: the agent and the worker.",
    "ssh_bulk": "The bytes are copied and named before the first is sent, and what stores them on"
    " the node shares the cores with both ends of ssh.",
    "agent_packed": "Two thirds of the file are OpenSSL and the C library.",
    "start": "Each worker is a whole interpreter.",
    "four_start": "Four interpreters start on two cores.",
    "broadcast_first": "Runs differ by more than what is missing here.",
    "argument_first": "The bytes are copied once, by two threads, into memory that the kernel must"
    " first provide. Later calls reuse it.",
    "cpp_call_p50": "Agent and worker are woken one after the other, on the one core that the"
    " program leaves free.",
    "engine_scale": "What the engine knows of 10,000 nodes does not fit into the caches of a core.",
}
"""Why a target may be missed."""


def text(line: str) -> str:
    """Wrapped like the other pages; a "- " begins an item of a list."""
    return textwrap.fill(
        line,
        COLUMNS,
        subsequent_indent="  " if line.startswith("- ") else "",
        break_long_words=False,
        break_on_hyphens=False,
    )


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:,.3g}"


def lead(ours: float, theirs: float, more_is_better: bool) -> float:
    """How many times better a peer is."""
    return theirs / ours if more_is_better else ours / theirs


def peers_ahead(report: dict) -> list[str]:
    """Nothing within 5 %: that is noise."""
    lines = []
    ours = report["median"]["skyward"]
    for figure, more_is_better in report["more_is_better"].items():
        better = {
            peer: lead(ours[figure], figures[figure], more_is_better)
            for peer, figures in report["median"].items()
            if peer != "skyward"
        }
        ahead = [
            f"{peer} ({ratio:.1f} ×)"
            for peer, ratio in sorted(better.items(), key=lambda one: -one[1])
            if ratio > 1.05
        ]
        if ahead:
            line = f"- **{NAMES[figure]}**: {', '.join(ahead)}. {WHY.get(figure, '')}"
            lines.append(text(line.rstrip()))
    return lines or ["Nowhere in this run."]


def reasons(rows: list[dict]) -> list[str]:
    missed = dict.fromkeys(row["figure"] for row in rows if row["ratio"] < 1)
    lines = [
        text(f"- **{NAMES[figure]}**: {MISSED[figure]}") for figure in missed if figure in MISSED
    ]
    return ["", *lines] if lines else []


def reached(ratio: float) -> str:
    return "yes" if ratio >= 1 else f"{ratio:.0%} of it"


def method(report: dict) -> list[str]:
    gib = report["array_bytes"] / (1 << 30)
    return [
        "## Method",
        "",
        text(
            "- Each figure of the first table is the median of the rounds. Rounds are interleaved:"
            " every system runs once before any runs again, each time in a process of its own."
            " Compare ratios; the figures are those of one machine."
        ),
        text(
            "- All functions return at once. A batch has"
            f" {report['tasks']:,} tasks, fewer for systems that would take minutes. The large"
            f" argument is an array of {gib:.3g} GiB, of which a worker reads every page."
        ),
        text(
            "- Large results are measured in a new pool: a store that has held an argument before"
            " has memory for them already. Before large data is measured, four times as much memory"
            " is written and released, since a virtual machine first gets its memory from its host."
        ),
        text(
            "- Each system is used in its own recommended way: futures where it tracks tasks"
            " one by one, its object store where it has one, its own batching in `map`."
        ),
        "- CPU is that of the program and of every process it has started.",
    ]


def page(report: dict) -> str:
    machine = report["machine"]
    names = list(report["median"])
    rows = [
        f"| {NAMES[figure]} [{unit}] | "
        + " | ".join(number(report["median"][name][figure]) for name in names)
        + " |"
        for figure, unit in report["units"].items()
    ]
    goals = [
        f"| {NAMES[row['figure']]} [{row['unit']}] | {row['target']} | {number(row['measured'])} |"
        f" {reached(row['ratio'])} |"
        for row in report["targets"]
    ]
    versions = ", ".join(f"{name} {version}" for name, version in report["versions"].items())
    floors = report["floors"]
    return "\n".join(
        [
            "# Performance",
            "",
            "Results of the latest run of `./dev bench`, made into this page by"
            " `python bench/page.py`.",
            "",
            text(
                f"{machine['cpus']} cores, {machine['machine']}, Python {machine['python']},"
                f" {report['workers']} workers on one local node; {versions}. Run on"
                f" {report['date']}."
            ),
            "",
            "| | " + " | ".join(names) + " |",
            "|---|" + "---|" * len(names),
            *rows,
            "",
            text(
                "In the same run, a bare pickle echo between two Python processes over a Unix"
                f" socket took {floors['echo']:.1f} µs, and copying into fresh memory ran at"
                f" {floors['memcpy_fresh']:.2f} GiB/s."
            ),
            "",
            "## Targets",
            "",
            text(
                "Our targets, including those we miss. Targets without a ratio were set on a"
                " machine where the bare echo takes about 40 µs."
            ),
            "",
            "| | Target | Measured | Reached |",
            "|---|---|---|---|",
            *goals,
            *reasons(report["targets"]),
            "",
            "## Where others are ahead",
            "",
            *peers_ahead(report),
            "",
            *method(report),
            "",
        ]
    )


if __name__ == "__main__":
    here = Path(__file__).resolve().parent
    report = json.loads((here / "out" / "results.json").read_text())
    (here.parent / "docs" / "performance.md").write_text(page(report))
