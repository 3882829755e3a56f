"""A distributed call, which is tried again on all workers together: `retries` when it failed, and
restarts, as torchrun's elastic runs have them, also when a node was lost.

Before each start every node is asked where it is, since a replacement has another address, and all
workers are told. After a failure that left workers stopped or dead, and before each further start,
all worker processes are replaced, as torchrun does: a device or a framework may be unusable in the
ones that there were."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import uuid4

from skyward.call.pending import PendingCompute
from skyward.call.starts import START_ARGUMENT, STARTS_ATTRIBUTE, Starts
from skyward.exceptions import ExecutionError, InstanceTerminatedError
from skyward.pool.outcome import answer_of
from skyward.pool.together import Run, run_once

_TIDY_SECONDS = 10.0
"""How long what follows a call may take: nobody waits for its answer."""


def run_together(engine: Any, pending: PendingCompute[Any]) -> tuple[Any, ...]:
    """The answers by rank. `engine`: the OpenPool. Each start waits until all nodes are there."""
    starts: Starts = getattr(pending.fn, STARTS_ATTRIBUTE, Starts())
    call = _Call(engine, replace(pending, retries=0), starts)
    tries = starts.restarts or pending.retries
    for number in range(tries + 1):
        run, lost = call.run(number)
        if run.error is None:
            call.discard_files()
            return run.answers
        if not engine.core.is_active:
            raise run.error
        last = number == tries or not (lost or isinstance(run.error, ExecutionError))
        if run.was_cut or not last:
            call.renew_workers()
        if last:
            call.discard_files()
            if lost:
                raise _lost_error(pending, starts) from run.error
            raise run.error
        if starts.restarts:
            call.tell_restart(number + 1, run.error, lost)
    raise AssertionError("the last start returns or raises")


class _Call:
    def __init__(self, engine: Any, pending: PendingCompute[Any], starts: Starts) -> None:
        self._engine = engine
        self._pending = pending
        self._starts = starts
        self._id = uuid4().hex

    def run(self, number: int) -> tuple[Run, bool]:
        """How the start ended, and whether a node was lost meanwhile."""
        start, losses = self._start(number)

        def is_lost() -> bool:
            return bool(self._engine.losses != losses)

        pending = self._pending
        if start:
            pending = replace(pending, kwargs={**pending.kwargs, START_ARGUMENT: start})
        run = run_once(self._engine, pending, is_lost)
        return run, is_lost()

    def _start(self, number: int) -> tuple[dict[str, Any], int]:
        """What the workers are told, and how many nodes had been lost before."""
        engine, restarts = self._engine, self._starts.restarts
        start: dict[str, Any] = {}
        if restarts:
            start = {"id": self._id, "restart": number, "of": restarts}
        while True:
            losses: int = engine.losses
            if self._starts.place is not None and (engine.core.instance_count > 1 or restarts):
                start["places"] = self._ask_nodes(self._starts.place)
            if engine.losses == losses:
                return start, losses

    def _ask_nodes(self, place: Callable[[], Any]) -> list[Any]:
        handles = self._send_to_nodes(place)
        try:
            for handle in handles:
                handle.wait()
        except BaseException:  # Ctrl-C
            for handle in handles:
                handle.cancel()
            raise
        return [answer_of(self._pending.name, handle.task, handle.take()) for handle in handles]

    def renew_workers(self) -> None:
        if self._starts.renew is not None:
            _tidy(self._engine.send_everywhere(self._beside(self._starts.renew))[1])

    def discard_files(self) -> None:
        if self._starts.discard is not None:
            _tidy(self._send_to_nodes(self._starts.discard, self._id))

    def tell_restart(self, number: int, error: BaseException, lost: bool) -> None:
        why = "a node was lost" if lost else f"{type(error).__name__}: {error}"
        self._engine.tell(
            f"{self._pending.name}() stopped: {why.partition(chr(10))[0]}; it starts again on all"
            f" workers (restart {number} of {self._starts.restarts})"
        )

    def _send_to_nodes(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        """To the first worker of each node, by node."""
        call, nodes = self._beside(function, *args), range(self._engine.core.instance_count)
        return [self._engine.send_to(call, node, 0) for node in nodes]

    def _beside(self, function: Callable[..., Any], *args: Any) -> PendingCompute[Any]:
        """A call on behalf of this one, with its name in messages."""
        return PendingCompute(function, args, name=self._pending.name)


def _tidy(handles: list[Any]) -> None:
    """Waits for what nobody needs an answer of. A node may be gone for long."""
    deadline = time.monotonic() + _TIDY_SECONDS
    for handle in handles:
        handle.wait(max(0.0, deadline - time.monotonic()))
        handle.cancel()  # nothing, if it is done


def _lost_error(pending: PendingCompute[Any], starts: Starts) -> InstanceTerminatedError:
    text = f"{pending.name}(): a node was lost while it ran on all workers"
    if starts.restarts:
        text += f", and all {starts.restarts} restarts are used up. Give it more with max_restarts="
    elif pending.retries:
        text += f", also in the last of {pending.retries} retries. Give it more with retries="
    else:
        text += ". @sky.compute(retries=1) runs it again, from its beginning"
    return InstanceTerminatedError("", text)
