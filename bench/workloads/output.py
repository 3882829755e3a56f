"""A task that prints as fast as it can, into the driver's log files."""

import os
import re
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import processes

FIGURES = {
    "lines_per_second": ("1/s", True),
    "prints_per_second": ("1/s", True),
    "lines_memory": ("MiB", False),
}
TARGETS = {"lines_per_second": [1_000_000], "lines_memory": [192]}
NUMBERS = 100_000
"""Lines are numbered, again from 0 after so many."""


def write_lines(count):
    """Blocks of many lines, as a native program writes them."""
    import os

    block = "".join(f"line {number:06} of the output\n" for number in range(NUMBERS)).encode()
    for _ in range(count // NUMBERS):
        rest = memoryview(block)
        while rest:
            rest = rest[os.write(1, rest) :]


def print_lines(count):
    for number in range(count):
        print(f"line {number % NUMBERS:06} of the output")


@contextmanager
def log_files():
    """Of the pools inside, in a folder of their own."""
    usual = os.environ.get("XDG_STATE_HOME")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_STATE_HOME"] = folder
        try:
            yield Path(folder)
        finally:
            del os.environ["XDG_STATE_HOME"]
            if usual is not None:
                os.environ["XDG_STATE_HOME"] = usual


def check_lines(logs, count):
    """The last one is there, and what rotation has left has no gap."""
    text = "".join(log.read_text() for log in sorted(logs, reverse=True))
    numbers = [int(digits) for digits in re.findall(r"line (\d+) of the output$", text, re.M)]
    assert len(numbers) == text.count("\n")
    assert numbers[-1] == (count - 1) % NUMBERS
    assert all((b - a) % NUMBERS == 1 for a, b in zip(numbers, numbers[1:], strict=False))


def rate(function, count):
    """Lines each second, from the call to the last one in the log file; and by how much memory of
    the driver and the agent has grown meanwhile."""
    import skyward as sky

    with log_files() as folder:
        with sky.ComputePool(nodes=1, display="quiet", collect_metrics=False) as pool:
            sky.compute(int)() >> pool
            readers = [os.getpid(), processes.agent()]
            before = sum(map(processes.forget_peak, readers))
            begin = time.time_ns()
            sky.compute(function)(count) >> pool
            grown = sum(map(processes.peak_bytes, readers)) - before
        logs = list(folder.rglob("node-0.log*"))
        end = max(log.stat().st_mtime_ns for log in logs)
        check_lines(logs, count)
    return count / (end - begin) * 1e9, grown / (1 << 20)


def measure(size):
    lines, grown = rate(write_lines, size.lines)
    prints, _ = rate(print_lines, size.lines // 4)
    return {"lines_per_second": lines, "prints_per_second": prints, "lines_memory": grown}
