"""Puts a framework's session around a function.

The function that a decorator returns travels by value, its session by name: a node looks it up in
its own package, and imports the framework only when the call begins."""

import contextlib
import secrets
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from functools import wraps
from importlib import import_module
from typing import Any

from skyward.call.function import ComputeFunction, is_generator, refuse_async
from skyward.call.limits import seconds_to_wait
from skyward.call.starts import START_ARGUMENT, STARTS_ATTRIBUTE, Starts
from skyward.call.text import name_of
from skyward.distributed.elastic import (
    discard,
    renew,
    share_checkpoints,
    started,
)
from skyward.distributed.environment import meeting_place
from skyward.distributed.meeting import require_network
from skyward.distributed.mpi_world import World, run
from skyward.exceptions import ConfigurationError
from skyward.task.instance_info import place_in_pool

MEETING_SECONDS = 300.0
"""How long workers wait for each other at the start of a call, unless the decorator says."""

MAX_RANKS_PER_NODE = 1024

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
            else f"distributed.{framework}() takes no {chosen!r}; write it above a function"
        )
    seconds = seconds_to_wait(f"distributed.{framework}: timeout", timeout)
    if isinstance(max_restarts, bool) or not isinstance(max_restarts, int) or max_restarts < 0:
        raise ConfigurationError(
            f"distributed.{framework}(max_restarts={max_restarts!r}): a number of 0 or more is"
            " expected"
        )

    def decorate(target: Any) -> Any:
        return _surrounded(target, framework, chosen, seconds, max_restarts)

    return decorate(backend) if bare else decorate


def mpi_decorator(
    target: Any, ranks_per_node: int, implementation: str | None, timeout: float
) -> Any:
    """What ``@distributed.mpi(…)`` evaluates to; `target` is the function where it stands bare."""
    if target is not None and not callable(target) and not isinstance(target, ComputeFunction):
        raise TypeError(f"@distributed.mpi needs a function, not {type(target).__name__}")
    seconds = seconds_to_wait("distributed.mpi: timeout", timeout)
    if type(ranks_per_node) is not int or not 1 <= ranks_per_node <= MAX_RANKS_PER_NODE:
        raise ConfigurationError(
            f"distributed.mpi(ranks_per_node={ranks_per_node!r}): a number from 1 to"
            f" {MAX_RANKS_PER_NODE} is expected"
        )
    if implementation not in (None, "openmpi", "mpich"):
        raise ConfigurationError(
            f"distributed.mpi(implementation={implementation!r}): choose one of 'openmpi',"
            " 'mpich', or None"
        )
    world = World(ranks_per_node, implementation, secrets.token_bytes(32))

    def decorate(target: Any) -> Any:
        return _in_world(target, world, seconds)

    return decorate if target is None else decorate(target)


def _in_world(target: Any, world: World, timeout: float) -> Any:
    if isinstance(target, ComputeFunction):
        return target.with_function(_in_world(target.local, world, timeout))
    refuse_async("@distributed.mpi", target)
    if is_generator(target):
        raise ConfigurationError(
            f"distributed.mpi: {name_of(target)} is a generator, but a rank returns its result at"
            " its end; return a list instead"
        )
    name = name_of(target)

    @wraps(target)
    def call(*args: Any, **kwargs: Any) -> Any:
        info = place_in_pool()
        if info is None:
            return target(*args, **kwargs)
        require_network(info, f"{name}() of mpi")
        return run(info, world, timeout, name, (target, args, kwargs))

    call.__skyward_distributed__ = "mpi"  # type: ignore[attr-defined]
    return call


def _surrounded(
    target: Any, framework: str, backend: str | None, timeout: float, max_restarts: int
) -> Any:
    if isinstance(target, ComputeFunction):
        inner = _surrounded(target.local, framework, backend, timeout, max_restarts)
        return target.with_function(inner)
    if not callable(target):
        raise TypeError(
            f"@distributed.{framework} needs a function, not {type(target).__name__};"
            f" pass options in parentheses: @distributed.{framework}(timeout=60)"
        )
    refuse_async(f"@distributed.{framework}", target)
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
            start = kwargs.pop(START_ARGUMENT, None)
            with session(framework, backend, timeout, name, start):
                return target(*args, **kwargs)

    call.__skyward_distributed__ = framework  # type: ignore[attr-defined]
    if max_restarts:
        setattr(call, STARTS_ATTRIBUTE, Starts(renew, discard, max_restarts))
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
    info = meeting_place(info)
    module = import_module(f"skyward.distributed.{_SESSIONS[framework]}")
    if start is None:
        with module.session(info, backend, timeout, name), failure_timed():
            yield
        return
    with started(start), module.session(info, backend, timeout, name):
        if start["restart"]:
            share_checkpoints(info)
        with failure_timed():
            yield


@contextlib.contextmanager
def failure_timed() -> Iterator[None]:
    """Notes on an exception when it was raised, before the session ends: that breaks the others'
    connections, and they may answer sooner. The worker reports it (skyward/worker/failures.py)."""
    start = time.monotonic()
    try:
        yield
    except BaseException as error:
        with contextlib.suppress(Exception):  # its class is read-only
            error.__skyward_failed_after__ = time.monotonic() - start  # type: ignore[attr-defined]
        raise
