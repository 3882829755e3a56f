"""Locks that a forked child can take."""

import os
import weakref
from typing import Any, TypeVar

L = TypeVar("L", bound=Any)

_locks: "weakref.WeakSet[Any]" = weakref.WeakSet()


def renewed(lock: L) -> L:
    """The lock, which is free in a forked child: the thread that held the parent's may not exist
    there."""
    _locks.add(lock)
    return lock


def _renew() -> None:
    for lock in list(_locks):
        lock._at_fork_reinit()  # as the standard library does


os.register_at_fork(after_in_child=_renew)
