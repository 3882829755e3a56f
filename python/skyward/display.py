"""What a pool shows while it works: "log" lines, a "spinner", or "quiet"."""

import os
import sys
from typing import Any, Protocol

from skyward.events import SkywardEvent

MODES = ("log", "spinner", "quiet")


class Display(Protocol):
    def __call__(self, event: SkywardEvent) -> None: ...
    def close(self) -> None: ...


def make_display(mode: str) -> Display | None:
    """The display of a mode; None shows nothing. Progress goes to stderr: stdout belongs to the program's data."""
    if mode == "quiet":
        return None
    return _CoreDisplay(mode)
