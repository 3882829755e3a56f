"""What a pool shows while it works: "log" lines, a "spinner", or "quiet".

The text is made by the engine's own renderers; here is what they must be told: the terminal, the
time, and when to draw again. Everything goes to stderr: stdout belongs to the program's data."""

import builtins
import contextlib
import errno
import logging
import os
import select
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, TextIO

from skyward.callback import BUSY_SECONDS, print_under_running_cell
from skyward.events import InfraCreating, PoolStopped, SkywardEvent, fields_of_event

_WIPE = "\r\x1b[K"  # what the spinner's line begins with
_SIGNS = "×·…✓✗�⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"  # of the renderers, where they are not told to use ASCII
_GONE = (errno.EBADF, errno.EPIPE, errno.EIO, errno.ECONNRESET)
"""Nobody will see what is written there. Other errors pass."""
_PIECE = 2000  # characters, which fit into the buffer of a stream
_VARIABLES = ("NO_COLOR", "FORCE_COLOR", "TERM", "LC_ALL", "LC_CTYPE", "LANG")


class Display:
    """Draws events on stderr, in lines or with a spinner. Thread-safe."""

    def __init__(self, mode: str) -> None:
        from skyward import _core

        self._stream: Any = _screen.real(sys.stderr)
        is_tty = _is_terminal(self._stream)
        terminal = _core.Terminal(is_tty, *map(os.environ.get, _VARIABLES))
        self._plain = not _can_write(self._stream, _SIGNS)
        look = (self._width(), terminal.wants_color(), self._plain or terminal.wants_ascii())
        self._pool = ""
        self._missing = 0  # lines that could not be written
        self._why = ""  # ... and why; empty: the last write was good
        self._closed = threading.Event()
        self._count: Callable[[], tuple[int, int, int]] = _nothing
        self._spinner: Any = None
        has_prompt = hasattr(sys, "ps1")  # Python's own, which a moving line would overwrite
        if mode == "spinner" and terminal.can_redraw() and not has_prompt:
            self._core: Any = _core.SpinnerDisplay(*look)
            self._spinner = self._core
        else:
            self._core = _core.LogDisplay(*look)
        _screen.add(self)
        threading.Thread(target=self._draw, name="skyward-display", daemon=True).start()

    @property
    def redraws(self) -> bool:
        """Whether it keeps a line at the bottom."""
        return self._spinner is not None

    def __call__(self, event: SkywardEvent) -> None:
        with _screen.lock:
            if isinstance(event, InfraCreating):
                self._pool = event.pool
            if _screen.is_shared:
                self._core.set_label(self._pool)
            if self.redraws or isinstance(event, PoolStopped):
                self._core.set_width(self._width())
            if not self.redraws:
                self._core.set_utc_offset(time.localtime().tm_gmtoff)
            self._write(self._core.render(*fields_of_event(event), _wall_us()))

    def count_tasks(self, count: Callable[[], tuple[int, int, int]]) -> None:
        """`count` tells how many tasks are done, how many run, and how many wait for a slot."""
        self._count = count
        if self._closed.is_set():  # by the end of the pool, meanwhile
            self._count = _nothing

    def ended_by(self, error: BaseException) -> None:
        """The pool ends before its program wanted it to."""
        if _screen.lock.acquire(timeout=BUSY_SECONDS):  # else nobody reads what it writes
            try:
                self._core.set_ended_by(type(error).__name__)
            finally:
                _screen.lock.release()

    def close(self) -> None:
        """Leaves the terminal as it was."""
        self._closed.set()
        self._count = _nothing  # what it counts with holds the pool, and what that has stored
        if _screen.lock.acquire(timeout=BUSY_SECONDS):
            try:
                _screen.remove(self)
            finally:
                _screen.lock.release()
        else:  # nobody reads what somebody writes: it is removed when somebody does
            with contextlib.suppress(RuntimeError):  # the program ends
                threading.Thread(
                    target=_screen.remove, args=(self,), name="skyward-screen", daemon=True
                ).start()

    def _draw(self) -> None:
        print_under_running_cell()
        while not self._closed.wait(self._core.frame_seconds):
            # Without the screen: counting waits for threads that may print, in a `__del__`.
            tasks = self._count() if self.redraws else ()
            with _screen.lock:
                if not self._closed.is_set():
                    if self._spinner is not None:
                        self._spinner.set_tasks(*tasks)
                        self._spinner.set_width(self._width())
                    self._write(self._core.tick(_wall_us()))

    def _width(self) -> int:
        try:
            columns = os.get_terminal_size(self._stream.fileno()).columns
        except (AttributeError, OSError, ValueError):  # it is none, or closed
            columns = 0
        return columns or shutil.get_terminal_size().columns

    def _write(self, text: str) -> None:
        if not text or self._stream is None:
            return
        lines = text.count("\n")
        if self._why and not _takes_more(self._stream):
            self._missing += lines
            return
        if self._missing:
            text = f"\nskyward: up to {self._missing} lines missing above: {self._why}\n{text}"
        if self._plain:
            encoding = getattr(self._stream, "encoding", None) or "ascii"
            text = text.encode(encoding, "replace").decode(encoding)
        try:
            if self.redraws:
                above, _, line = text.rpartition(_WIPE)
                if line.endswith("\n"):
                    above, line = above + line, ""
                _screen.show(self, above.replace(_WIPE, ""), line)
            else:
                _screen.write(self._stream, text)
            self._missing, self._why = 0, ""
        except ValueError:  # stderr is closed: there is nobody to show anything to
            self._stream = None
        except OSError as error:
            if error.errno in _GONE:
                self._stream = None
            self._missing += lines
            self._why = str(error.strerror)


def _put(stream: Any, text: str) -> None:
    """Writes all of it, also where another program has made the terminal or pipe non-blocking."""
    _flush(stream)
    for begin in range(0, len(text), _PIECE):
        with contextlib.suppress(BlockingIOError):  # it is in the stream's buffer, which was empty
            stream.write(text[begin : begin + _PIECE])
        _flush(stream)


def _flush(stream: Any) -> None:
    end = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            stream.flush()
            return
        except BlockingIOError:
            left = end - time.monotonic()
            if left <= 0:
                raise
            _takes_more(stream, left)


def _takes_more(stream: Any, seconds: float = 0) -> bool:
    poll = select.poll()
    try:
        poll.register(stream, select.POLLOUT)
    except (TypeError, OSError, ValueError):  # not a file, or closed: writing will tell
        return True
    return bool(poll.poll(seconds * 1000))


def _is_terminal(stream: Any) -> bool:
    """Whatever a program uses instead of stderr may be closed, or only write."""
    try:
        return bool(stream.isatty())
    except (AttributeError, OSError, ValueError):
        return False


def _nothing() -> tuple[int, int, int]:
    return 0, 0, 0


class _Screen:
    """The terminal, which all displays and the program itself write to: the spinners' lines stand
    at the bottom, one for each pool, and what anybody prints goes above them."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.is_shared = False  # there are lines of several pools on it
        self._displays: list[Display] = []
        self._lines: dict[Display, str] = {}  # of those that redraw
        self._drawn = 0
        self._stream: Any = None  # that the lines stand on
        self._is_midline = False  # somebody has begun a line and not ended it
        self._questions = 0  # calls of input() that wait: no lines are drawn
        self._input: Callable[..., str] = input  # the one that asks such questions
        os.register_at_fork(after_in_child=self._forget)

    def add(self, display: Display) -> None:
        with self.lock:
            self._displays.append(display)
            self.is_shared = self.is_shared or len(self._displays) > 1
            if display.redraws and not self._lines:
                self._stream, self._is_midline = display._stream, False
                sys.stdout, sys.stderr = map(self._above, (sys.stdout, sys.stderr))
                _replace_in_logs(sys.stdout, sys.stderr)
                self._input = builtins.input = partial(self._ask, input)
            if display.redraws:
                self._lines[display] = ""

    def remove(self, display: Display) -> None:
        with self.lock:
            if display in self._displays:
                self._displays.remove(display)
            self.is_shared = self.is_shared and bool(self._displays)
            if self._lines.pop(display, None) is None:
                return
            try:
                self._erase()
                self._draw()
            except (OSError, ValueError):  # the terminal is gone
                pass
            if not self._lines:
                self._leave()

    def _leave(self) -> None:
        sys.stdout, sys.stderr = map(self.real, (sys.stdout, sys.stderr))
        for handler in _log_handlers():
            if isinstance(handler.stream, _Above):
                handler.stream = self.real(handler.stream)
        if isinstance(self._input, partial) and builtins.input is self._input:
            (builtins.input,) = self._input.args

    def _ask(self, read: Callable[..., str], *prompt: object) -> str:
        """`read` is input(), which writes to a terminal without sys.stdout."""
        with self.lock:
            with contextlib.suppress(OSError, ValueError):  # the terminal is gone
                self._erase()
            self._is_midline = True
            self._questions += 1
        try:
            answer = read(*prompt)
        finally:
            with self.lock:
                self._questions -= 1
        self._is_midline = False
        return answer

    def show(self, display: Display, above: str, line: str) -> None:
        """`above` in whole lines, or none; `line` replaces the display's own."""
        with self.lock:
            if display in self._lines:
                self._lines[display] = line
            self._erase()
            if above:
                _put(self._stream, ("\n" if self._is_midline else "") + above)
                self._is_midline = False
            self._draw()

    def write(self, stream: Any, text: str) -> int:
        """What goes above the lines."""
        # Whoever has the lock may wait for a lock of `logging` that the caller has, in a `__del__`.
        if not self.lock.acquire(timeout=BUSY_SECONDS):
            _put(stream, text)
            return len(text)
        try:
            self._erase()
            _put(stream, text)
            if text:
                self._is_midline = not text.endswith("\n")
            return len(text)
        finally:
            self.lock.release()

    def _forget(self) -> None:
        """In a forked child: the lines are its parent's, and so was the lock."""
        self.lock = threading.RLock()
        self._displays, self._lines, self._drawn = [], {}, 0
        self._questions = 0
        self._leave()

    @staticmethod
    def real(stream: Any) -> Any:
        """The stream itself, where the program has one of ours."""
        return stream.stream if isinstance(stream, _Above) else stream

    def _above(self, stream: Any) -> Any:
        try:
            is_tty = stream.isatty()
        except (AttributeError, ValueError):  # there is none, or it is closed
            is_tty = False
        return _Above(self.real(stream), self) if is_tty else stream

    def _erase(self) -> None:
        if self._drawn:
            _put(self._stream, _WIPE + "\x1b[A\x1b[K" * (self._drawn - 1))
        self._drawn = 0

    def _draw(self) -> None:
        lines = [line for line in self._lines.values() if line]
        if self._is_midline or self._questions or not lines:
            return
        _put(self._stream, _WIPE + "\n".join(lines))
        self._drawn = len(lines)


class _Above:
    """A standard stream whose text goes above the spinner's line."""

    def __init__(self, stream: TextIO, screen: _Screen) -> None:
        self.stream = stream
        self._screen = screen

    def write(self, text: str) -> int:
        return self._screen.write(self.stream, text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def _log_handlers() -> Iterator[Any]:
    """All that write to streams, of whatever logger."""
    for reference in list(getattr(logging, "_handlerList", ())):
        if isinstance(handler := reference(), logging.StreamHandler):
            yield handler


def _replace_in_logs(*streams: Any) -> None:
    """Handlers that were made before write to these streams."""
    for handler in _log_handlers():
        for stream in streams:
            if isinstance(stream, _Above) and handler.stream is stream.stream:
                handler.stream = stream


def _can_write(stream: Any, text: str) -> bool:
    try:
        text.encode(getattr(stream, "encoding", None) or "ascii")
    except UnicodeEncodeError:
        return False
    return True


def _wall_us() -> int:
    return time.time_ns() // 1000


_screen = _Screen()
