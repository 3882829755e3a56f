"""A call on all workers that starts again when one of them fails or a node is lost: what torchrun
calls elastic.

The function says so itself, by attributes that its decorator sets: how often, and what to ask each
node before each start. It is told about the start by an argument of its own."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import uuid4

from skyward.call.pending import PendingCompute
from skyward.exceptions import CancelledError, ExecutionError, InstanceTerminatedError
from skyward.pool.outcome import answer_of
from skyward.pool.together import run_once

RESTARTS_ATTRIBUTE = "__skyward_restarts__"
PLACE_ATTRIBUTE = "__skyward_place__"
"""What a node says about itself, its address above all: a replacement has another one."""
START_ARGUMENT = "_skyward_start"


def run_with_restarts(engine: Any, pending: PendingCompute[Any], restarts: int) -> tuple[Any, ...]:
    """The answers by rank. `engine`: the OpenPool. Each start waits until all nodes are there."""
    place: Callable[[], Any] = getattr(pending.fn, PLACE_ATTRIBUTE)
    identity = uuid4().hex
    for restart in range(restarts + 1):
        places = _ask_nodes(engine, PendingCompute(place, name=pending.name))
        start = {"id": identity, "restart": restart, "of": restarts, "places": places}
        kwargs = {**pending.kwargs, START_ARGUMENT: start}
        before = engine.losses

        def is_lost(before: int = before) -> bool:
            return bool(engine.losses != before)

        again = replace(pending, kwargs=kwargs, retries=0)
        try:
            return run_once(engine.send_everywhere, engine.tell_lines, again, is_lost)
        except (ExecutionError, CancelledError) as error:
            lost = isinstance(error, CancelledError) and is_lost()
            if not engine.core.is_active or (restart == restarts and not lost):
                raise
            if restart == restarts:
                raise InstanceTerminatedError(
                    "",
                    f"{pending.name}(): a node was lost while it ran on all workers, and all"
                    f" {restarts} restarts are used up. Give it more with max_restarts=",
                ) from error
            why = "a node was lost" if lost else f"{type(error).__name__}: {error}"
            engine.tell(
                f"{pending.name}() stopped: {why.partition(chr(10))[0]}; it starts again on all"
                f" workers (restart {restart + 1} of {restarts})"
            )
    raise AssertionError("the last start returns or raises")


def _ask_nodes(engine: Any, call: PendingCompute[Any]) -> list[Any]:
    handles = [engine.send_to(call, node, 0) for node in range(engine.core.instance_count)]
    try:
        for handle in handles:
            handle.wait()
    except BaseException:  # Ctrl-C
        for handle in handles:
            handle.cancel()
        raise
    return [answer_of(call.name, handle.task, handle.take()) for handle in handles]
