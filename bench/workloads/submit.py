"""Futures of single calls, read as they complete."""

import time

from contenders import echo

FIGURES = {"futures_per_second": ("1/s", True)}
TARGETS = {"futures_per_second": [100_000]}


def measure(contender, size):
    count = min(size.tasks, contender.parallel_limit)
    begin = time.perf_counter()
    assert sorted(contender.as_completed(echo, range(count))) == list(range(count))
    return {"futures_per_second": count / (time.perf_counter() - begin)}
