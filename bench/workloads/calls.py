"""A call and its answer, one after the other; and what comes before the first."""

import statistics
import time

import processes
from contenders import echo
from targets import floor, times

FIGURES = {
    "first_start": ("s", False),  # imports and all
    "start": ("s", False),  # once more in the same process
    "memory": ("MiB", False),
    "round_trip_p50": ("us", False),
    "round_trip_p99": ("us", False),
}
TARGETS = {
    "start": [0.1],
    "round_trip_p50": [40, floor("echo", 3), times("multiprocessing.Pool", "round_trip_p50", 0.25)],
    "round_trip_p99": [200],
}


def measure(contender, size):
    contender.many(echo, range(200))
    figures = {"memory": processes.memory_mib()}
    took = []
    for i in range(size.calls):
        begin = time.perf_counter()
        contender.call(echo, i)
        took.append((time.perf_counter() - begin) * 1e6)
    figures["round_trip_p50"] = statistics.median(took)
    figures["round_trip_p99"] = statistics.quantiles(took, n=100)[98]
    return figures
