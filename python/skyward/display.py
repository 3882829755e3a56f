"""What a pool shows while it works: "log" lines, a "spinner", or "quiet"."""

from typing import Any

from skyward.events import SkywardEvent, fields_of_event

MODES = ("log", "spinner", "quiet")


class Display:
    """Draws events on stderr, by the engine's own renderer: stdout is for the program's data."""

    def __init__(self, mode: str) -> None:
        from skyward import _core

        self._core: Any = _core.Display(mode)

    def __call__(self, event: SkywardEvent) -> None:
        name, fields = fields_of_event(event)
        self._core.show(name, fields)

    def close(self) -> None:
        """Leaves the terminal as it was."""
        self._core.close()


def make_display(mode: str) -> Display | None:
    """The display of a mode; None shows nothing."""
    return None if mode == "quiet" else Display(mode)
