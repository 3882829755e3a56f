"""What a distributed call that can start again needs on its nodes besides its function."""

from collections.abc import Callable
from typing import Any, NamedTuple

STARTS_ATTRIBUTE = "__skyward_starts__"
"""Of a function: its Starts."""
START_ARGUMENT = "_skyward_start"
"""By which the function is told where the nodes are, and which start of the call this is."""


class Starts(NamedTuple):
    """Functions that run on the nodes before and after each start, for skyward.pool.restarts."""

    place: Callable[[], dict[str, Any]]
    """What a node says about itself, its address above all: a replacement has another one."""
    renew: Callable[[], None]
    """Ends the worker's process; another one takes its place."""
    discard: Callable[[str], None]
    """Removes the files of the call with this id."""
    restarts: int
    """How often the call may start again when it fails or a node is lost. At least 1."""
