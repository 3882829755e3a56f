"""A distributed call, which is tried again on all workers together: `retries` when it failed, and
restarts, as torchrun's elastic runs have them. Each restart begins in new worker processes, as
torchrun's do: a device or a framework may be unusable in the old ones. A retry does not."""

import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import uuid4

from skyward.call.pending import PendingCompute
from skyward.call.starts import START_ARGUMENT, STARTS_ATTRIBUTE, Starts
from skyward.exceptions import (
    ConfigurationError,
    ConnectionLostError,
    ExecutionError,
    InstanceTerminatedError,
    PreemptionError,
)
from skyward.pool.together import await_nodes, run_once
from skyward.transport.remote_error import UNDELIVERED_ATTRIBUTE


def run_together(engine: Any, pending: PendingCompute[Any]) -> tuple[Any, ...]:
    """The answers by rank. `engine`: the OpenPool."""
    starts = getattr(pending.fn, STARTS_ATTRIBUTE, None)
    once = replace(pending, retries=0)
    if starts is not None:
        if pending.retries:
            raise ConfigurationError(
                f"{pending.name}() has max_restarts={starts.restarts} and"
                f" retries={pending.retries}: both start it again on all workers; give one of them"
            )
        return _Elastic(engine, once, starts).run()
    for _ in range(pending.retries):
        try:
            return run_once(engine, once)
        except ExecutionError as error:
            if getattr(error, UNDELIVERED_ATTRIBUTE, False):
                raise
            # The failure may be the first sign of a loss, which would end the next run, too.
            await_nodes(engine, PendingCompute(int, name=f"{pending.name}: retry"))
            if not engine.core.is_active:
                raise
    return run_once(engine, once)


class _Elastic:
    def __init__(self, engine: Any, pending: PendingCompute[Any], starts: Starts) -> None:
        self._engine = engine
        self._pending = pending
        self._starts = starts
        self._id = uuid4().hex

    def run(self) -> tuple[Any, ...]:
        try:
            return self._run()
        finally:
            with contextlib.suppress(Exception):  # the pool may be closed: the nodes are gone
                self._send_to_nodes(self._starts.discard, self._id)

    def _run(self) -> tuple[Any, ...]:
        name, restarts = self._pending.name, self._starts.restarts
        for number in range(restarts + 1):
            start = {"id": self._id, "restart": number, "of": restarts}
            kwargs = {**self._pending.kwargs, START_ARGUMENT: start}
            try:
                return run_once(self._engine, replace(self._pending, kwargs=kwargs))
            except ExecutionError as error:
                # With a traceback, the function has raised it, about something of its own.
                lost = isinstance(error, (InstanceTerminatedError, ConnectionLostError))
                lost = lost and not error.remote_traceback
                if not self._engine.core.is_active or (lost and not error.instance_id):
                    raise  # there is nothing to start on
                if getattr(error, UNDELIVERED_ATTRIBUTE, False):
                    raise  # the function has ended
                if number == restarts and not lost:
                    raise
                if number == restarts:
                    text = (
                        f"{name}(): a node was lost while it ran on all workers, and all"
                        f" {restarts} restarts are used up. Allow more with max_restarts="
                    )
                    if isinstance(error, PreemptionError):
                        raise PreemptionError("", text, restarts + 1) from error
                    raise InstanceTerminatedError("", text) from error
                why = "a node was lost" if lost else f"{type(error).__name__}: {error}"
                self._engine.tell(
                    f"{name}() stopped: {why.partition(chr(10))[0]}; it starts again on all workers"
                    f" (restart {number + 1} of {restarts})"
                )
                await_nodes(self._engine, self._beside(self._starts.renew))
                if not self._engine.core.is_active:
                    raise
        raise AssertionError("the last start returns or raises")

    def _send_to_nodes(self, function: Callable[..., Any], *args: Any) -> None:
        """To the first worker of each node."""
        call = self._beside(function, *args)
        for node in range(self._engine.core.instance_count):
            self._engine.send_to(call, node, 0)

    def _beside(self, function: Callable[..., Any], *args: Any) -> PendingCompute[Any]:
        return PendingCompute(function, args, name=f"{self._pending.name}: {function.__name__}")
