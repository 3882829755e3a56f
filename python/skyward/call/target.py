"""The right side of ``>>``: a pool, or the package itself for the innermost open pool."""

import sys
from contextvars import ContextVar
from typing import Any

_innermost: ContextVar[Any] = ContextVar("skyward_pool", default=None)


def resolve(target: Any) -> Any:
    """The pool that the right side of an operator means: itself, or the innermost open one."""
    if target is not sys.modules.get("skyward"):
        return target
    current = _innermost.get()
    while current is not None and not current._is_entered:
        current = current._around  # left in another thread
    if current is None:
        raise RuntimeError(
            "`>> sky` needs an open pool: use it inside a function with @sky.pool(…), or inside"
            " a pool's `with` block"
        )
    return current
