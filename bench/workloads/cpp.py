"""The same calls from a C++ program, whose workers are C++ programs too (cpp_bench.cc)."""

import json
import subprocess
from pathlib import Path

FIGURES = {
    "cpp_echo": ("us", False),
    "cpp_start": ("s", False),
    "cpp_call_p50": ("us", False),
    "cpp_call_p99": ("us", False),
    "cpp_tasks_per_second": ("1/s", True),
    "cpp_same_object": ("ms", False),
}
TARGETS = {
    "cpp_start": [0.015],
    "cpp_call_p50": [20],
    "cpp_tasks_per_second": [500_000],
    "cpp_same_object": [1],
}
PROGRAM = Path(__file__).resolve().parents[2] / "build" / "release" / "bin" / "cpp_bench"


def measure(size):
    sizes = (size.calls, 5 * size.tasks, size.rounds, size.array.nbytes >> 20)
    run = subprocess.run([PROGRAM, *map(str, sizes)], check=True, stdout=subprocess.PIPE)
    report = json.loads(run.stdout)
    return {
        "cpp_echo": report["echo_us"],
        "cpp_start": report["start_seconds"],
        "cpp_call_p50": report["call_p50_us"],
        "cpp_call_p99": report["call_p99_us"],
        "cpp_tasks_per_second": report["tasks_per_second"],
        "cpp_same_object": report["again_ms"],
    }
