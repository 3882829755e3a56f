"""Calls on a local pool, to be counted from outside: `workload.py gather|map|submit|call COUNT`."""

import os
import sys
import tempfile
from concurrent.futures import as_completed

import skyward as sky


def echo(x):
    return x


def gather(pool, call, count):
    return sky.gather(*[call(i) for i in range(count)]) >> pool


def mapped(pool, call, count):
    return pool.map(call, range(count))


def read(path):
    with open(path) as file:
        return file.read()


def submit(pool, call, count):
    """The worker starts with the first when all are submitted. Otherwise the driver's two threads
    take turns as the machine happens to run them, and the counts differ by a factor of three."""
    with sky.Executor(pool=pool) as executor, tempfile.TemporaryDirectory() as folder:
        gate = os.path.join(folder, "gate")
        os.mkfifo(gate)
        executor.submit(read, gate)
        with open(gate, "w"):  # opens when the worker reads
            futures = [executor.submit(echo, i) for i in range(count)]
        return sorted(future.result() for future in as_completed(futures))


def one_by_one(pool, call, count):
    return [call(i) >> pool for i in range(count)]


WAYS = {"gather": gather, "map": mapped, "submit": submit, "call": one_by_one}


def main(kind, count):
    call = sky.compute(echo)
    with sky.ComputePool(
        provider=sky.Local(), nodes=1, display="quiet", collect_metrics=False
    ) as pool:
        assert list(sky.gather(*[call(i) for i in range(64)]) >> pool) == list(range(64))
        assert list(WAYS[kind](pool, call, count)) == list(range(count))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
