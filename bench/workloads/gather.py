"""Many calls at once, each tracked by itself."""

import time

import processes
from contenders import echo
from targets import times

FIGURES = {"tasks_per_second": ("1/s", True), "cpu_per_task": ("us", False)}
TARGETS = {
    "tasks_per_second": [200_000, times("multiprocessing.Pool", "tasks_per_second", 5)],
    "cpu_per_task": [10],
}


def measure(contender, size):
    count = min(size.tasks, contender.parallel_limit)
    cpu, begin = processes.cpu_seconds(), time.perf_counter()
    assert contender.many(echo, range(count)) == list(range(count))
    took = time.perf_counter() - begin
    return {
        "tasks_per_second": count / took,
        "cpu_per_task": (processes.cpu_seconds() - cpu) / count * 1e6,
    }
