"""Threads of the driver, for calls that are made in the ordinary, blocking way.

    from skyward.conc import map_async

    results = list(map_async(lambda x: work(x) >> pool, range(100)))

``pool.map`` does this without threads; these take any function, with several calls in it."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")


def map_async(
    fn: Callable[[T], R], items: Iterable[T], concurrency: int | None = None
) -> Iterator[R]:
    """Calls ``fn`` for each item, at most `concurrency` at a time (None: all at once), starting
    right away; yields the results in the order of the items. The error of the first failing item,
    in that order, is raised; calls that have not started by then never do. Each call sees the
    context variables of the caller."""
    work = list(items)
    threads = ThreadPoolExecutor(max(1, concurrency or len(work)), "skyward-conc")
    futures = [threads.submit(copy_context().run, fn, item) for item in work]
    threads.shutdown(wait=False)

    def results() -> Iterator[R]:
        try:
            for future in futures:
                yield future.result()
        finally:
            for future in futures:
                future.cancel()

    return results()


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
