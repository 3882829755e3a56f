"""A call that all workers run together, and none can finish without the others.

When one of them fails, the others wait for it in some exchange of their framework, perhaps for a
very long time: they get a moment to notice, and then are stopped. What is raised is the failure
that came first, not that of the lowest rank: the later ones only report that another worker is
gone. Which one answers first says little, since a framework lets the others know that a worker
failed before that worker has answered."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from skyward.call.pending import PendingCompute
from skyward.exceptions import CancelledError, ExecutionError
from skyward.pool.outcome import answer_of
from skyward.pool.stream import Stream

GRACE_SECONDS = 15.0
"""How long the others may continue after one has failed."""
OTHERS_SHOWN = 4
"""Errors of other workers in the notes of the error that is raised."""
_STEP_SECONDS = 0.2
FAILED_AFTER_ATTRIBUTE = "__skyward_failed_after__"
"""Of an exception: when the function raised it, in seconds since all workers were connected. A
framework's session sets it."""

Send = Callable[[PendingCompute[Any]], tuple[Any, list[Any]]]
"""Sends a call to every worker: the call as sent, and its handles in rank order."""


def run_together(
    send: Send, tell_lines: Callable[[], None], pending: PendingCompute[Any]
) -> tuple[Any, ...]:
    """The answers by rank. A retry runs the call on all workers again."""
    for _ in range(pending.retries):
        try:
            return run_once(send, tell_lines, replace(pending, retries=0))
        except ExecutionError:
            continue
    return run_once(send, tell_lines, replace(pending, retries=0))


def run_once(
    send: Send,
    tell_lines: Callable[[], None],
    pending: PendingCompute[Any],
    is_lost: Callable[[], bool] | None = None,
) -> tuple[Any, ...]:
    """The answers by rank. `is_lost`: whether a node was lost, which ends the call at once."""
    call, handles = send(pending)
    if call.is_stream:
        return tuple(Stream(handle, pending.name) for handle in handles)
    try:
        outcomes = _wait(handles, is_lost)
    except BaseException:  # Ctrl-C: nobody will read the answers
        for handle in handles:
            handle.cancel()
        raise
    tell_lines()
    answers: list[Any] = []
    errors: dict[int, BaseException] = {}
    for rank, (handle, outcome) in enumerate(zip(handles, outcomes, strict=True)):
        try:
            answers.append(answer_of(pending.name, handle.task, outcome))
        except BaseException as error:
            errors[rank] = error
    if errors:
        first = min(errors, key=lambda rank: _order(errors[rank], outcomes[rank]))
        raise with_the_others(errors[first], errors)
    return tuple(answers)


def _order(error: BaseException, outcome: Any) -> tuple[bool, bool, float]:
    """The cause comes first: a worker that died, then what was raised first, then those stopped."""
    after = getattr(error, FAILED_AFTER_ATTRIBUTE, outcome.run_seconds)
    return isinstance(error, CancelledError), outcome.status == "raised", after


def _wait(handles: list[Any], is_lost: Callable[[], bool] | None) -> list[Any]:
    outcomes: dict[int, Any] = {}
    deadline: float | None = None
    while len(outcomes) < len(handles):
        if deadline != float("inf") and is_lost is not None and is_lost():
            deadline = time.monotonic()
        waiting = [rank for rank in range(len(handles)) if rank not in outcomes]
        handles[waiting[0]].wait(_STEP_SECONDS)
        for rank in waiting:
            if handles[rank].done():
                outcomes[rank] = handles[rank].take()
                if outcomes[rank].status != "ok" and deadline is None:
                    deadline = time.monotonic() + GRACE_SECONDS
        if deadline is not None and time.monotonic() >= deadline:
            deadline = float("inf")
            for rank in waiting:
                handles[rank].cancel()
    return [outcomes[rank] for rank in range(len(handles))]


def with_the_others(error: BaseException, errors: dict[int, BaseException]) -> BaseException:
    """The error, with notes of what the other workers raised."""
    others = [(rank, other) for rank, other in sorted(errors.items()) if other is not error]
    for rank, other in others[:OTHERS_SHOWN]:
        text = str(other).partition("\n")[0]
        error.add_note(f"worker {rank} failed too: {type(other).__name__}: {text}")
    if len(others) > OTHERS_SHOWN:
        error.add_note(f"… and {len(others) - OTHERS_SHOWN} more workers")
    return error
