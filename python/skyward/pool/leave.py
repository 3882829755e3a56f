"""The end of a block."""

import sys
from collections.abc import Callable

from skyward.exceptions import MachinesLeftError


def end_block(close: Callable[[], None], error: BaseException | None) -> None:
    """Closes at the end of a block. If `error` ends the block, that error is raised, whatever the
    closing raises about machines left."""
    try:
        close()
    except MachinesLeftError as left:
        if error is None:
            raise
        report(left, error)


def report(left: MachinesLeftError, error: BaseException) -> None:
    """Of machines that may still run, with the error that is raised instead. It may be caught and
    forgotten."""
    error.add_note(f"skyward: {left}")
    print(f"skyward: {left}", file=sys.stderr)
