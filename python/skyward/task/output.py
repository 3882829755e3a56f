"""Whose output is shown: decorators for functions that run on many workers at once.

    @sky.compute
    @sky.stdout(only="head")
    def train(): ...

The output of the other workers is dropped where it is written, including that of C libraries and of
programs that the function starts. The decorators may stand above or below ``@compute``."""

import ctypes
import os
import sys
from collections.abc import Callable, Generator
from contextlib import ExitStack
from functools import wraps
from typing import Any, Literal, TypeVar, overload

from skyward.call.function import ComputeFunction, is_generator, refuse_async
from skyward.exceptions import ConfigurationError, ConfigurationTypeError
from skyward.task.instance_info import InstanceInfo, instance_info, place_in_pool

F = TypeVar("F", bound=Callable[..., Any])
Only = Literal["head"] | Callable[[InstanceInfo], bool]
"""Workers whose output is kept: the first one, or those for which the function is true."""


def is_head(info: InstanceInfo | None = None) -> bool:
    """True on the first worker of a pool, and outside of one."""
    return (instance_info() if info is None else info).is_head


@overload
def stdout(fn: F, /) -> F: ...
@overload
def stdout(*, only: Only = "head") -> Callable[[F], F]: ...
def stdout(fn: Any = None, /, *, only: Only = "head") -> Any:
    """Keeps what the function writes to its standard output only on some workers."""
    quieted = _quieted(only, (1,))
    return quieted if fn is None else quieted(fn)


@overload
def stderr(fn: F, /) -> F: ...
@overload
def stderr(*, only: Only = "head") -> Callable[[F], F]: ...
def stderr(fn: Any = None, /, *, only: Only = "head") -> Any:
    """Keeps what the function writes to its standard error only on some workers."""
    quieted = _quieted(only, (2,))
    return quieted if fn is None else quieted(fn)


def silent(fn: F) -> F:
    """Drops everything that the function writes, on every worker."""
    return _quieted(_nobody, (1, 2))(fn)


def _nobody(info: InstanceInfo) -> bool:
    return False


def _quieted(only: Only, descriptors: tuple[int, ...]) -> Callable[[F], F]:
    if only != "head" and not callable(only):
        raise ConfigurationError(f"only={only!r}: 'head' or a function of InstanceInfo is expected")

    def decorate(fn: Any) -> Any:
        if isinstance(fn, ComputeFunction):
            return fn.with_function(decorate(fn.local))

        if not callable(fn):
            raise ConfigurationTypeError(
                f"a function is expected, not {fn!r:.80}; pass options by keyword: only=…"
            )
        refuse_async("stdout, stderr and silent", fn)
        call: Callable[..., Any]
        if is_generator(fn):

            @wraps(fn)
            def call(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
                with hushed(only, descriptors):
                    return (yield from fn(*args, **kwargs))

        else:

            @wraps(fn)
            def call(*args: Any, **kwargs: Any) -> Any:
                with hushed(only, descriptors):
                    return fn(*args, **kwargs)

        return call

    return decorate


def hushed(only: Only, descriptors: tuple[int, ...]) -> ExitStack:
    """A block in which nothing is written to these descriptors, by whatever library or child, on
    workers other than those meant. A worker makes one call at a time, so they are its own."""
    info = place_in_pool()
    if info is None or (info.is_head if only == "head" else only(info)):
        return ExitStack()
    with ExitStack() as stack:
        nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        stack.callback(os.close, nowhere)
        _flush()
        for descriptor in descriptors:
            try:
                kept = os.dup(descriptor)
            except OSError:  # an earlier call closed it: nothing is heard anyway
                continue
            stack.callback(os.close, kept)
            stack.callback(os.dup2, kept, descriptor)
            os.dup2(nowhere, descriptor)
        stack.callback(_flush)
        return stack.pop_all()


def _flush() -> None:
    """Python's buffers and C's."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:  # closed or replaced by the function
            continue
    libc = ctypes.CDLL(None)
    for name in ("stdout", "stderr"):  # a thread that reads another stream holds its lock
        libc.fflush(ctypes.c_void_p.in_dll(libc, name))
