"""Puts a framework's session around a function.

The function that a decorator returns travels by value, its session by name: a node looks it up in
its own package, and imports the framework only when the call begins."""

import contextlib
from collections.abc import Callable, Generator, Iterator, Mapping
from functools import wraps
from importlib import import_module
from typing import Any

from skyward.call.function import ComputeFunction, is_generator
from skyward.call.text import name_of
from skyward.distributed.elastic import as_started, place, share_checkpoints, started
from skyward.distributed.meeting import require_network
from skyward.exceptions import ConfigurationError
from skyward.task.instance_info import place_in_pool

MEETING_SECONDS = 300.0
"""How long workers wait for each other at the start of a call, unless the decorator says."""

_SESSIONS = {
    "torch": "torch_session",
    "transformers": "torch_session",
    "jax": "jax_session",
    "tensorflow": "tensorflow_session",
    "keras": "keras_session",
}


def decorator(
    framework: str,
    backend: Any,
    backends: tuple[str, ...],
    timeout: float,
    max_restarts: int = 0,
) -> Any:
    """What ``@distributed.NAME(…)`` evaluates to. `backend` is the function itself where the
    decorator stands bare: ``@distributed.torch``."""
    bare = callable(backend) or isinstance(backend, ComputeFunction)
    chosen = None if bare else backend
    if chosen is not None and chosen not in backends:
        known = ", ".join(repr(name) for name in backends)
        raise ConfigurationError(
            f"distributed.{framework}(backend={chosen!r}): choose one of {known}, or None"
            if backends
            else f"distributed.{framework}() takes no {chosen!r}; it stands above a function"
        )
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 < timeout < 1e9:
        raise ConfigurationError(
            f"distributed.{framework}(timeout={timeout!r}): a positive number of seconds is"
            " expected"
        )
    if isinstance(max_restarts, bool) or not isinstance(max_restarts, int) or max_restarts < 0:
        raise ConfigurationError(
            f"distributed.{framework}(max_restarts={max_restarts!r}): a number from 0 on is"
            " expected"
        )

    def decorate(target: Any) -> Any:
        return _surrounded(target, framework, chosen, float(timeout), max_restarts)

    return decorate(backend) if bare else decorate


def _surrounded(
    target: Any, framework: str, backend: str | None, timeout: float, max_restarts: int
) -> Any:
    if isinstance(target, ComputeFunction):
        inner = _surrounded(target.local, framework, backend, timeout, max_restarts)
        return ComputeFunction(inner, target._timeout, target._retries)
    if not callable(target):
        raise TypeError(
            f"@distributed.{framework} needs a function, not {type(target).__name__};"
            f" options go in parentheses: @distributed.{framework}(timeout=60)"
        )
    name = name_of(target)
    call: Callable[..., Any]
    if is_generator(target):
        if max_restarts:
            raise ConfigurationError(
                f"distributed.{framework}(max_restarts={max_restarts}): {name} is a generator,"
                " which cannot start again after its first item; return a value instead"
            )

        @wraps(target)
        def call(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            with session(framework, backend, timeout, name):
                return (yield from target(*args, **kwargs))

    else:

        @wraps(target)
        def call(*args: Any, **kwargs: Any) -> Any:
            start = kwargs.pop("_skyward_start", None)
            with session(framework, backend, timeout, name, start):
                return target(*args, **kwargs)

    call.__skyward_distributed__ = framework  # type: ignore[attr-defined]
    if max_restarts:  # see skyward/pool/restarts.py
        call.__skyward_restarts__ = max_restarts  # type: ignore[attr-defined]
        call.__skyward_place__ = place  # type: ignore[attr-defined]
    return call


@contextlib.contextmanager
def session(
    framework: str,
    backend: str | None,
    timeout: float,
    name: str,
    start: Mapping[str, Any] | None = None,
) -> Iterator[None]:
    """The framework, connected over all workers, for the length of the block; nothing outside a
    pool. `start`: of an elastic call, which start it is."""
    info = place_in_pool()
    if info is None:
        yield
        return
    require_network(info, f"{name}() of {framework}")
    module = import_module(f"skyward.distributed.{_SESSIONS[framework]}")
    if start is None:
        with module.session(info, backend, timeout, name):
            yield
        return
    info = as_started(info, start)
    with started(info, start), module.session(info, backend, timeout, name):
        if start["restart"]:
            share_checkpoints(info)
        yield
