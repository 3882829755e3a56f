"""The end of a block."""

import sys
from collections.abc import Callable

from skyward.exceptions import MachinesLeftError


def end_block(close: Callable[[], None], error: BaseException | None) -> None:
    """Closes at the end of a block that `error` leaves, if any; then that stays what is raised."""
    try:
        close()
    except MachinesLeftError as left:
        if error is None:
            raise
        error.add_note(f"skyward: {left}")
        print(f"skyward: {left}", file=sys.stderr)  # the error may be caught and forgotten
