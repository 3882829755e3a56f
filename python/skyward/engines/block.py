"""What the blocks of all engines have in common."""

from collections.abc import Iterator
from contextlib import contextmanager

from skyward.call.limits import seconds_to_wait
from skyward.pool.compute_pool import ComputePool
from skyward.pool.open_pool import OpenPool


@contextmanager
def hold_slot(verb: str, pool: ComputePool) -> Iterator[OpenPool]:
    """The open pool. Its calls are refused at once while engines hold every slot."""
    if not isinstance(pool, ComputePool):
        raise TypeError(f"{verb.partition('(')[0]}() takes an open pool, not {type(pool).__name__}")
    engine = pool._engine()
    pool._engines += (verb,)
    try:
        yield engine
    finally:
        left = list(pool._engines)
        left.remove(verb)
        pool._engines = tuple(left)


def seconds_of(verb: str, timeout: float) -> float:
    return seconds_to_wait(f"{verb}: timeout", timeout, 1e6)
