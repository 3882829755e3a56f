"""Whose output is seen: decorators for functions that run on many workers at once.

    @sky.compute
    @sky.stdout(only="head")
    def train(): ...

The output of the other workers is dropped where it is written. The decorators may stand above or
below ``@compute``."""

import os
from collections.abc import Callable
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from functools import wraps
from typing import Any, Literal, TypeVar, overload

from skyward.cluster import InstanceInfo, instance_info
from skyward.exceptions import ConfigurationError, ConfigurationTypeError
from skyward.function import ComputeFunction

F = TypeVar("F", bound=Callable[..., Any])
Only = Literal["head"] | Callable[[InstanceInfo], bool]
"""Workers whose output is kept: the first one, or those for which the function is true."""


def is_head(info: InstanceInfo | None = None) -> bool:
    """True on the first worker of a pool, and outside of one."""
    info = instance_info() if info is None else info
    return info is None or info.is_head


@overload
def stdout(fn: F, /) -> F: ...
@overload
def stdout(*, only: Only = "head") -> Callable[[F], F]: ...
def stdout(fn: Any = None, /, *, only: Only = "head") -> Any:
    """Keeps what the function prints only on some workers."""
    quieted = _quieted(only, (redirect_stdout,))
    return quieted if fn is None else quieted(fn)


@overload
def stderr(fn: F, /) -> F: ...
@overload
def stderr(*, only: Only = "head") -> Callable[[F], F]: ...
def stderr(fn: Any = None, /, *, only: Only = "head") -> Any:
    """Keeps what the function writes to sys.stderr only on some workers."""
    quieted = _quieted(only, (redirect_stderr,))
    return quieted if fn is None else quieted(fn)


def silent(fn: F) -> F:
    """Drops all that the function writes, on every worker."""
    return _quieted(_nobody, (redirect_stdout, redirect_stderr))(fn)


def _nobody(info: InstanceInfo) -> bool:
    return False


def _quieted(only: Only, redirects: tuple[Any, ...]) -> Callable[[F], F]:
    if only != "head" and not callable(only):
        raise ConfigurationError(f"only={only!r}: 'head' or a function of InstanceInfo is expected")

    def decorate(fn: Any) -> Any:
        if isinstance(fn, ComputeFunction):
            return fn.with_function(decorate(fn.local))

        if not callable(fn):
            raise ConfigurationTypeError(
                f"a function is expected, not {fn!r:.80}; options go by keyword: only=…"
            )

        @wraps(fn)
        def quiet(*args: Any, **kwargs: Any) -> Any:
            info = instance_info()
            if info is None or (info.is_head if only == "head" else only(info)):
                return fn(*args, **kwargs)
            with ExitStack() as stack:
                nowhere = stack.enter_context(open(os.devnull, "w"))
                for redirect in redirects:
                    stack.enter_context(redirect(nowhere))
                return fn(*args, **kwargs)

        return quiet

    return decorate
