"""Says which parameter was meant where a constructor is given one that it does not have."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type)

OF_POOLS = {"nodes", "concurrency", "accelerator", "image", "budget", "display", "spot", "pip"}
"""What people give to providers."""


def suggesting(init: F) -> F:
    """For an ``__init__``: an unknown parameter raises an error that names the nearest one."""
    code = init.__code__
    known = set(code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount])

    @wraps(init)
    def checked(self: Any, *args: Any, **named: Any) -> None:
        if not named.keys() <= known:
            wrong = next(name for name in named if name not in known)
            raise TypeError(_text(type(self).__name__, wrong, known))
        init(self, *args, **named)

    return cast("F", checked)


def suggesting_class(cls: C) -> C:
    """The same for a dataclass."""
    cls.__init__ = suggesting(cls.__init__)  # type: ignore[misc]
    return cls


def _text(owner: str, wrong: str, known: set[str]) -> str:
    from difflib import get_close_matches

    text = f"{owner}() got an unexpected keyword argument {wrong!r}"
    if near := get_close_matches(wrong, sorted(known), 1):
        return f"{text}. Did you mean {near[0]}?"
    if wrong in OF_POOLS:
        return f"{text}. It is a parameter of the pool: ComputePool(provider={owner}(…), {wrong}=…)"
    return text
