"""What a pool shows while it works: "log" lines, a "spinner", or "quiet".

The text is made by the engine's own renderers; here is what they must be told: the terminal, the
time, and when to draw again. Everything goes to stderr: stdout belongs to the program's data."""

import os
import shutil
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from skyward.events import SkywardEvent, fields_of_event

MODES = ("log", "spinner", "quiet")


class Display:
    """Draws events on stderr, in lines or with a spinner. Thread-safe."""

    def __init__(self, mode: str) -> None:
        from skyward import _core

        self._stream = sys.stderr
        is_tty = self._stream is not None and self._stream.isatty()
        variables = (os.environ.get(name) for name in ("NO_COLOR", "FORCE_COLOR", "TERM"))
        terminal = _core.Terminal(is_tty, *variables)
        width = shutil.get_terminal_size().columns
        look = (width, terminal.wants_color(), time.localtime().tm_gmtoff)
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._count: Callable[[], tuple[int, int, int]] = lambda: (0, 0, 0)
        self._spinner: Any = None
        if mode == "spinner" and terminal.can_redraw():
            self._core: Any = _core.SpinnerDisplay(*look, True)
            self._spinner = self._core
        else:
            self._core = _core.LogDisplay(*look)
        threading.Thread(target=self._draw, name="skyward-display", daemon=True).start()

    def __call__(self, event: SkywardEvent) -> None:
        with self._lock:
            self._write(self._core.render(*fields_of_event(event), _wall_us()))

    def count_tasks(self, count: Callable[[], tuple[int, int, int]]) -> None:
        """`count` tells how many tasks are done, how many run, and how many wait for a slot."""
        self._count = count

    def close(self) -> None:
        """Leaves the terminal as it was."""
        self._closed.set()
        with self._lock:
            if self._spinner is not None:
                self._write(self._spinner.clear())

    def _draw(self) -> None:
        while not self._closed.wait(self._core.frame_seconds):
            with self._lock:
                if not self._closed.is_set():
                    if self._spinner is not None:
                        self._spinner.set_tasks(*self._count())
                    self._write(self._core.tick(_wall_us()))

    def _write(self, text: str) -> None:
        if not text or self._stream is None:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except UnicodeEncodeError:  # a terminal that has no such letters
            plain = text.encode(self._stream.encoding or "ascii", "replace")
            self._stream.write(plain.decode(self._stream.encoding or "ascii"))
            self._stream.flush()
        except (OSError, ValueError):  # stderr is closed: there is nobody to show anything to
            self._stream = None


def make_display(mode: str) -> Display | None:
    """The display of a mode; None shows nothing."""
    return None if mode == "quiet" else Display(mode)


def _wall_us() -> int:
    return time.time_ns() // 1000
