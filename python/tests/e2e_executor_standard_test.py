"""sky.Executor beside the standard library's: the same program is told the same by both."""

import functools
import itertools
import os
import tempfile
import threading
import time
from concurrent import futures

import pytest
from waiting import DEADLINE

import skyward as sky


def capture(*args, **kwargs):
    return args, kwargs


def divide(x):
    return 10 / x


def wait(seconds, gate=""):
    """Sleeps, and then waits until the file `gate` is removed."""
    time.sleep(seconds)  # on a worker
    while os.path.exists(gate):
        time.sleep(0.005)  # on a worker
    return seconds


def calls(executor):
    yield lambda: executor.submit(capture, 1, self=2, fn=3).result()
    yield lambda: executor.submit()
    yield lambda: executor.submit(fn=capture)
    yield lambda: executor.submit(divide, 0).result()
    yield lambda: list(executor.map(capture))
    yield lambda: list(executor.map(pow, range(5), range(5)))
    yield lambda: list(executor.map(pow, range(9), range(2)))
    yield lambda: list(executor.map(divide, [1, 0, 2]))
    yield lambda: list(executor.map(pow, range(40), range(40), chunksize=6))
    yield lambda: list(executor.map(divide, [1, 2, 0, 4], chunksize=2))
    yield lambda: list(executor.map(wait, [0, 5], timeout=0.2))
    with tempfile.NamedTemporaryFile() as gate:
        yield lambda: executor.submit(wait, 0, gate.name).result(0.01)
    answers = executor.map(divide, [5, 0, 2])
    yield lambda: next(answers)
    yield lambda: next(answers)
    yield lambda: next(answers)


def waiting(executor):
    """Waiting for one, for the first error, for none, for all as they come."""
    with tempfile.NamedTemporaryFile() as last:
        with tempfile.NamedTemporaryFile() as gate:
            quick, long = executor.submit(wait, 0), executor.submit(wait, 0, gate.name)
            yield futures.wait([quick, long], return_when=futures.FIRST_COMPLETED).done == {quick}
            failed, long = executor.submit(divide, 0), executor.submit(wait, 0, gate.name)
            yield futures.wait([failed, long], return_when=futures.FIRST_EXCEPTION).done == {failed}
            yield (failed.done(), failed.running(), failed.cancelled(), failed.cancel())
            yield len(futures.wait([executor.submit(wait, 0, gate.name)], timeout=0.01).not_done)
            # The short one starts when the first of those that still run ends.
            two = executor.submit(wait, 0.01, last.name), executor.submit(wait, 0)
            order = futures.as_completed(two)
        yield next(order).result()
    yield [future.result() for future in order]
    seen, called = [], threading.Event()
    future = executor.submit(wait, 0.1)
    future.add_done_callback(lambda done: seen.append(done is future))
    future.add_done_callback(lambda done: 1 // 0)  # is logged, and stops nothing
    future.add_done_callback(lambda done: seen.append(done.result()) or called.set())
    yield called.wait(DEADLINE)
    yield seen


def ending(executor):
    """What waits can be cancelled, what runs is finished, and nothing new is taken."""
    many = [executor.submit(wait, 0.5) for _ in range(40)]
    yield (many[-1].cancel(), many[-1].cancelled(), many[-1].done())
    yield lambda: many[-1].result()
    executor.shutdown(cancel_futures=True)
    yield [future.done() for future in many]
    yield all(future.cancelled() or future.result() == 0.5 for future in many)
    yield many[0].result(), many[-2].cancelled()
    yield lambda: executor.submit(wait, 0)
    yield lambda: executor.map(wait, [0])
    yield executor.shutdown()


def told(scenario, executor):
    found = []
    for step in scenario(executor):
        try:
            found.append(step() if callable(step) else step)
        except Exception as error:
            cls = next(c for c in type(error).__mro__ if not issubclass(c, sky.SkywardError))
            found.append((cls, str(error).replace(f"{type(executor).__name__}.", "")))
    return found


@pytest.mark.parametrize("scenario", [calls, waiting, ending])
def test_both_tell_the_same(scenario, pool):
    with sky.Executor(pool=pool) as ours, futures.ThreadPoolExecutor(pool.total_slots) as theirs:
        assert told(scenario, ours) == told(scenario, theirs)


def read_in_part(executor, chunksize):
    """Inputs may be endless; none is drawn before there is room for it."""
    drawn = []

    def inputs():
        for x in itertools.count(1):
            drawn.append(x)
            yield x

    answers = executor.map(divide, inputs(), chunksize=chunksize, buffersize=3)
    yield len(drawn)
    for _ in range(5):
        yield next(answers), len(drawn)
    answers.close()
    yield lambda: next(answers)
    yield lambda: list(executor.map(divide, [2, 0, 1], buffersize=1, chunksize=chunksize))
    yield lambda: list(executor.map(pow, range(7), range(9), buffersize=50, chunksize=chunksize))
    yield lambda: list(executor.map(wait, [0, 5], timeout=0.2, buffersize=1, chunksize=chunksize))
    yield lambda: executor.map(divide, [1], buffersize=0, chunksize=chunksize)
    yield lambda: executor.map(divide, [1], buffersize="2", chunksize=chunksize)


TOLD = [
    [3, (10.0, 4), (5.0, 5), (10 / 3, 6), (2.5, 7), (2.0, 8)],
    [6, (10.0, 8), (5.0, 8), (10 / 3, 10), (2.5, 10), (2.0, 12)],
]


@pytest.mark.parametrize("chunksize", [1, 2])
def test_a_map_may_be_a_bounded_way_ahead(pool, chunksize):
    """As the process pools of Python 3.14 do it."""
    scenario = functools.partial(read_in_part, chunksize=chunksize)
    with sky.Executor(pool=pool) as ours:
        seen = told(scenario, ours)
    assert seen[:6] == TOLD[chunksize - 1]
    assert [end if isinstance(end, list) else end[0] for end in seen[6:]] == [
        StopIteration,
        ZeroDivisionError,
        [x**x for x in range(7)],
        TimeoutError,
        ValueError,
        TypeError,
    ]
