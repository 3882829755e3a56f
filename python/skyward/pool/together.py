"""One run of a call on all workers, none of which can finish without the others.

When one of them fails, the others wait for it in some exchange of their framework, perhaps for a
very long time: they get a moment to notice, and then are stopped. After the loss of a node, they
are stopped at once. What is raised is the failure that tells the most, not that of the lowest rank
or of whoever answers first: a framework lets the others know that a worker failed before that
worker has answered."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from skyward.call.pending import PendingCompute
from skyward.exceptions import CancelledError
from skyward.pool.leave import note_other
from skyward.pool.outcome import answer_of
from skyward.pool.stream import TaskStream
from skyward.transport.remote_error import FAILED_AFTER_ATTRIBUTE

GRACE_SECONDS = 15.0
"""How long the others may continue after one has failed."""
OTHERS_SHOWN = 4
"""Errors of other workers in the notes of the error that is raised."""
_STEP_SECONDS = 0.2
_LOSSES = ("lost", "unreachable")
"""Kinds of errors: the node is gone."""
_DEATHS = ("task", *_LOSSES)
"""... or the worker process."""


def run_once(engine: Any, pending: PendingCompute[Any]) -> tuple[Any, ...]:
    """The answers by rank. `engine`: the OpenPool."""
    call, handles = engine.send_everywhere(pending, together=True)
    if call.is_stream:
        return tuple(TaskStream(handle, pending.name) for handle in handles)
    try:
        outcomes = _wait(handles)
    except BaseException:  # Ctrl-C: nobody will read the answers
        for handle in handles:
            handle.cancel()
        raise
    engine.tell_lines()
    answers: list[Any] = []
    errors: dict[int, Exception] = {}
    for rank, handle in enumerate(handles):
        try:
            answers.append(answer_of(pending.name, handle.task, outcomes[rank]))
        except Exception as error:
            errors[rank] = error
    if errors:
        order = in_order(errors, outcomes)
        raise with_the_others(errors[order[0]], {rank: errors[rank] for rank in order[1:]})
    return tuple(answers)


def await_nodes(engine: Any, pending: PendingCompute[Any]) -> None:
    """Runs `pending` on all workers, and waits until each has answered, in whatever way. A node
    that has died, and is not known to be lost, answers when it has been replaced."""
    handles = engine.send_everywhere(pending)[1]
    try:
        for handle in handles:
            handle.wait()
    except BaseException:  # Ctrl-C
        for handle in handles:
            handle.cancel()
        raise


def in_order(errors: Mapping[int, BaseException], outcomes: Mapping[int, Any]) -> list[int]:
    """The ranks that failed, causes before consequences. `outcomes`: in the order of arrival.

    A worker that died is a cause, unless it aborted itself after another had failed, as frameworks
    do. Then come those that raised something, the first one first. Who ran out of time or was
    stopped had waited for the others."""
    arrival = {rank: float(place) for place, rank in enumerate(outcomes)}
    failed_first = next(
        (rank for rank, outcome in outcomes.items() if outcome.status != "ok"), None
    )
    stopped = {rank for rank, error in errors.items() if isinstance(error, CancelledError)}
    ended = [rank for rank in errors.keys() - stopped if outcomes[rank].status != "failed"]
    after: dict[int, Any] = {
        rank: getattr(errors[rank], FAILED_AFTER_ATTRIBUTE, None) for rank in ended
    }
    if None in after.values():  # one failed before the workers were connected: another clock
        after = {rank: outcomes[rank].run_seconds for rank in ended}

    def key(rank: int) -> tuple[int, float]:
        if rank in stopped:  # by us, or with an MPI world that ended
            return 4, arrival[rank]
        if rank in after:
            return 1, after[rank]
        if outcomes[rank].error_kind in _DEATHS:
            aborted = "SIGABRT" in outcomes[rank].error_message and rank != failed_first
            return 2 if aborted else 0, arrival[rank]
        return 3, arrival[rank]

    return sorted(errors, key=key)


def with_the_others(error: BaseException, others: Mapping[int, BaseException]) -> BaseException:
    """The error, with notes of what the other workers raised, by rank."""
    for rank, other in list(others.items())[:OTHERS_SHOWN]:
        note_other(error, f"worker {rank}", other)
    if len(others) > OTHERS_SHOWN:
        error.add_note(f"… and {len(others) - OTHERS_SHOWN} more workers")
    return error


def _wait(handles: Sequence[Any]) -> dict[int, Any]:
    """The outcomes by rank, in the order in which they arrived."""
    outcomes: dict[int, Any] = {}
    deadline: float | None = None
    stopped = False
    while len(outcomes) < len(handles):
        waiting = [rank for rank in range(len(handles)) if rank not in outcomes]
        handles[waiting[0]].wait(_STEP_SECONDS)
        for rank in waiting:
            if handles[rank].done():
                outcome = outcomes[rank] = handles[rank].take()
                if outcome.status == "failed" and outcome.error_kind in _LOSSES:
                    deadline = time.monotonic()
                elif outcome.status != "ok" and deadline is None:
                    deadline = time.monotonic() + GRACE_SECONDS
        if not stopped and deadline is not None and time.monotonic() >= deadline:
            stopped = True
            for rank in waiting:
                handles[rank].cancel()
    return outcomes
