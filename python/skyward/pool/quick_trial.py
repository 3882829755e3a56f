"""Whether a large gather() sends its calls in groups: the first ones, which go one by one, show
whether they are quick."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from skyward.call.by_value import plain_dumps
from skyward.call.pending import PendingCompute, recorded
from skyward.pool.drawn_inputs import STEP_SECONDS
from skyward.pool.grouped_calls import GROUPED_BYTES, is_plain
from skyward.transport import serialize

TRIED_CALLS = 512
"""A gather() sends so many first, each by itself; and if they are quick, the others in groups."""
TRIED_SECONDS = 0.05
"""How long no further one of them may end, if the nodes are near."""
TRIPS = 2
"""To a distant node and back that quick calls may take more."""
LONGEST_TRIP_SECONDS = 0.5
MOST_TRIPS = 16
"""That quick calls may take in all: the engine sends a node as many as it has room for."""


def patience(near: float, round_trip: float) -> float:
    """How long to wait for the next answer before calls count as slow: `near` for nearby nodes,
    longer for distant ones."""
    return near + min(TRIPS * round_trip, LONGEST_TRIP_SECONDS)


def are_quick(
    handles: Sequence[Any], clock: Callable[[], float] = time.monotonic
) -> tuple[bool, float]:
    """Whether calls that have just been sent end soon, or one after the other, and how long the
    first answer took. Without any answer, it takes them for slow."""
    sent = clock()
    taken = 0.0
    while not handles[0].wait(STEP_SECONDS) and not any(handle.done() for handle in handles):
        taken = clock() - sent
        if taken >= LONGEST_TRIP_SECONDS:
            return False, taken
    taken = clock() - sent
    limit = patience(TRIED_SECONDS, taken)
    end = clock() + TRIED_SECONDS + MOST_TRIPS * taken
    return all(handle.wait(max(0.0, min(limit, end - clock()))) for handle in handles), taken


def maker_of(
    pool: Any, items: Sequence[PendingCompute[Any]]
) -> Callable[..., PendingCompute[Any]] | None:
    """What makes the calls of a batch, if they can travel in groups: many calls of one function,
    without retries, and with small positional arguments."""
    if len(items) < 2 * TRIED_CALLS or not is_plain(pool, items[0]):
        return None
    fn, name = items[0].fn, items[0].name
    for item in items:
        if item.fn is not fn or item.kwargs or item.timeout is not None or item.retries:
            return None
    beside, buffers = serialize.collector()
    try:
        size = len(plain_dumps(items[0].args, buffer_callback=beside))
    except Exception:  # it needs more than plain pickle
        return None
    if size > GROUPED_BYTES or buffers:
        return None
    return lambda *args: recorded(fn, args, {}, name, None, 0)
