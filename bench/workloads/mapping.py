"""A function over many items, as each system does it best: batched where it batches by itself."""

import time

from contenders import echo
from targets import times

FIGURES = {"map_per_second": ("1/s", True)}
TARGETS = {"map_per_second": [600_000, times("joblib/loky", "map_per_second", 2)]}


def measure(contender, size):
    count = min(size.tasks, contender.map_limit or contender.parallel_limit)
    contender.map(echo, range(200))  # starts what only `map` uses
    begin = time.perf_counter()
    assert contender.map(echo, range(count)) == list(range(count))
    return {"map_per_second": count / (time.perf_counter() - begin)}
