"""A large array as a result: made by the worker, and every page of it read by the program."""

import statistics
import time

import floors
from contenders import make, touch
from targets import times

FIGURES = {"result_first": ("GiB/s", True), "result_again": ("GiB/s", True)}
IN_A_NEW_POOL = True  # a store may use again what an argument has left: that is no first time
TARGETS = {"result_first": [times("ray", "result_first", 1.3)]}


def measure(contender, size):
    expected = touch(make(size.array.size))
    floors.get_memory(size.array)
    rates = []
    for _ in range(3):
        begin = time.perf_counter()
        assert touch(contender.call(make, size.array.size)) == expected
        rates.append(size.array.nbytes / (1 << 30) / (time.perf_counter() - begin))
    return {"result_first": rates[0], "result_again": statistics.median(rates[1:])}
