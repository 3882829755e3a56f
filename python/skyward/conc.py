"""Runs ordinary blocking calls on threads of your program.

    from skyward.conc import map_async

    results = list(map_async(lambda x: work(x) >> pool, range(100)))

``pool.map`` does this without threads; these take any function, with several calls in it."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from typing import Any, TypeVar

from skyward.exceptions import ConfigurationError

T = TypeVar("T")
R = TypeVar("R")

MOST_THREADS = 1024
"""Where no number is given."""
AHEAD = 1024
"""Results of later items that wait for the first one, at most."""


def map_async(
    fn: Callable[[T], R], items: Iterable[T], concurrency: int | None = None
) -> Iterator[R]:
    """Calls ``fn`` for each item, at most `concurrency` at a time (None: all at once, up to 1024),
    starting right away, and yields the results in the order of the items. Draws an item only when
    its call can start and at most 1024 results wait for the reader, so with `concurrency` the input
    may be endless. Raises the error of the first failing item, in that order; calls that have not
    started by then never do. If the reader stops earlier, calls that have started run on, with all
    that they have sent to a pool: keep `concurrency` near ``pool.total_slots``. Each call sees the
    context variables of the caller."""
    if concurrency is None:
        items = list(items)
        concurrency = min(max(1, len(items)), MOST_THREADS)
    elif isinstance(concurrency, bool) or not isinstance(concurrency, int) or concurrency < 1:
        raise ConfigurationError(
            f"concurrency={concurrency!r}: a whole number is expected, at least 1, or None"
        )
    results = _results(fn, iter(items), concurrency)
    next(results)  # starts the first calls; from here on, dropping it ends the rest
    return results


def _results(fn: Callable[[T], R], items: Iterator[T], concurrency: int) -> Iterator[Any]:
    """First None, when the first calls have started, and then the results."""
    context, threads = copy_context(), ThreadPoolExecutor(concurrency, "skyward-conc")
    calls: deque[Future[R]] = deque()
    running: list[Future[R]] = []
    is_dry = False

    def draw() -> None:
        nonlocal is_dry
        running[:] = [call for call in running if not call.done()]
        while not is_dry and len(running) < concurrency and len(calls) < concurrency + AHEAD:
            try:
                item = next(items)
            except StopIteration:
                is_dry = True
            except Exception as error:  # of the input: raised at its place
                is_dry = True
                calls.append(Future())
                calls[-1].set_exception(error)
            else:
                running.append(threads.submit(context.copy().run, fn, item))
                calls.append(running[-1])

    try:
        draw()
        yield None
        while calls:
            while not is_dry and not calls[0].done():
                wait(running, return_when=FIRST_COMPLETED)
                draw()
            result = calls.popleft().result()
            if not is_dry:
                draw()
            yield result
    finally:
        for call in calls:
            call.cancel()
        threads.shutdown(wait=False)


def for_each_async(
    fn: Callable[[T], Any], items: Iterable[T], concurrency: int | None = None
) -> None:
    """Like ``map_async``, but discards the results; returns when all calls have ended."""
    for _ in map_async(fn, items, concurrency):
        pass


def map_async_indexed(
    fn: Callable[[int, T], R],
    items: Iterable[T],
    concurrency: int | None = None,
    with_index: bool = False,
) -> Iterator[Any]:
    """``fn(index, item)`` of each item, in order; pairs (index, result) when `with_index`."""
    answers = map_async(lambda pair: fn(*pair), enumerate(items), concurrency)
    return enumerate(answers) if with_index else answers
