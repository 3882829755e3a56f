"""The right side of ``>>``: a pool, or the package itself for the innermost open pool."""

import sys
import threading
import weakref
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

_innermost: ContextVar[Any] = ContextVar("skyward_pool", default=None)
_opened: dict[int, "weakref.ref[Any]"] = {}  # by id; each step is one of the interpreter's


def note_opened(pool: Any) -> None:
    """open() has opened this pool."""
    key = id(pool)
    _opened[key] = weakref.ref(pool, lambda _: _opened.pop(key, None))


def note_left(pool: Any) -> None:
    _opened.pop(id(pool), None)


def opened_pools() -> list[Any]:
    """The pools that open() opened and that are not closed, expired ones included."""
    return [pool for known in list(_opened.values()) if (pool := known()) is not None]


def has_expired(pool: Any) -> bool:
    """Whether open() has opened it, so that it may never be closed, and its time is over."""
    return id(pool) in _opened and not pool.is_active


def resolve(target: Any) -> Any:
    """The pool that the right side of an operator means: itself, or the innermost open one."""
    if target is not sys.modules.get("skyward"):
        return target
    around = [pool for pool in enclosing(_innermost.get()) if pool._is_entered]
    current = next((pool for pool in around if not has_expired(pool)), None)
    if current is None and threading.current_thread() is threading.main_thread():
        current = _only_opened()
    if current is None and around:
        current = around[0]  # its error says that its time is over
    if current is None:
        raise RuntimeError(f"`>> sky` needs an open pool{_advice()}")
    return current


def _only_opened() -> Any:
    """The one pool that open() has opened elsewhere: a cell of a notebook that has `await` runs in
    a context of its own, of which nothing is left for the next cell."""
    pools = [pool for pool in opened_pools() if pool.is_active]
    if len(pools) > 1:
        raise RuntimeError(
            f"`>> sky` could mean any of {len(pools)} open pools, {', '.join(map(repr, pools))}:"
            " write `>> pool`"
        )
    return pools[0] if pools else None


def _advice() -> str:
    if "_skyward_worker" in sys.modules:
        return (
            ", and a task cannot send calls to the pool in which it runs: call the function"
            " directly, f.local(…)"
        )
    usual = ": use it inside a function with @sky.pool(…), or inside a pool's `with` block"
    if threading.current_thread() is threading.main_thread():
        return usual
    return (
        f"{usual}. Threads that you start do not know the pool: name it (`>> pool`), or start them"
        " with skyward.conc or asyncio.to_thread"
    )


def enclosing(pool: Any) -> Iterator[Any]:
    """The pool and those around it, innermost first."""
    seen = set()
    while pool is not None and id(pool) not in seen:
        seen.add(id(pool))
        yield pool
        pool = pool._around  # of its last opening: perhaps inside one of these
