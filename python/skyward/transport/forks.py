"""Locks that a forked child can take."""

import os
import weakref
from typing import Any, TypeVar

L = TypeVar("L", bound=Any)

_locks: "weakref.WeakSet[Any]" = weakref.WeakSet()


def renewed(lock: L) -> L:
    """The lock, which is free in a forked child unless the thread that forked holds it: the child
    has no other thread."""
    _locks.add(lock)
    return lock


def _renew() -> None:
    for lock in list(_locks):
        if not (hasattr(lock, "_is_owned") and lock._is_owned()):
            lock._at_fork_reinit()  # as the standard library does


os.register_at_fork(after_in_child=_renew)
