"""What a distributed call that can start again needs on its nodes besides its function."""

from collections.abc import Callable
from typing import NamedTuple

STARTS_ATTRIBUTE = "__skyward_starts__"
"""Of a function: its Starts."""
START_ARGUMENT = "_skyward_start"
"""By which the function is told which start of the call this is: its "id", "restart", and "of" how
many."""


class Starts(NamedTuple):
    """For skyward.pool.restarts: functions that run on the nodes between the starts and after the
    last one."""

    renew: Callable[[], None]
    """Ends the worker's process after the call; another one takes its place."""
    discard: Callable[[str], None]
    """Removes the files of the call with this id."""
    restarts: int
    """How often the call may start again when it fails or a node is lost. At least 1."""
