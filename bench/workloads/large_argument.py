"""A large array as an argument: the first time, and when the workers have seen it."""

import statistics
import time

import floors
from contenders import touch
from targets import times

FIGURES = {"argument_first": ("GiB/s", True), "argument_again": ("GiB/s", True)}
TARGETS = {"argument_first": [times("ray", "argument_first", 1.3)]}


def measure(contender, size):
    expected = touch(size.array)
    floors.get_memory(size.array)
    rates = []
    for _ in range(4):
        begin = time.perf_counter()
        assert contender.call(touch, size.array) == expected
        rates.append(size.array.nbytes / (1 << 30) / (time.perf_counter() - begin))
    return {"argument_first": rates[0], "argument_again": statistics.median(rates[1:])}
