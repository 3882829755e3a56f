"""The end of a block, and what is told beside the error that it raises."""

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
    say(left)


def say(left: MachinesLeftError) -> None:
    print(f"skyward: {left}", file=sys.stderr)


def note_other(error: BaseException, who: str, other: BaseException) -> None:
    """Of another failure beside the one that is raised: its type, and its first line."""
    text = str(other).partition("\n")[0]
    error.add_note(f"{who} failed too: {type(other).__name__}: {text}")
