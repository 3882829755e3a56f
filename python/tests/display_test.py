"""The displays on a terminal: who writes above whom."""

import builtins
import contextlib
import io
import logging
import os
import pty
import re
import select
import signal
import subprocess
import sys
import threading
import time

from skyward import events
from skyward.pool import display

WIPE = "\r\x1b[K"


class Terminal(io.StringIO):
    """A terminal that keeps what is written to it."""

    encoding = "utf-8"

    def isatty(self):
        return True

    def fileno(self):
        raise io.UnsupportedOperation


class Ascii(Terminal):
    encoding = "ascii"


def on(monkeypatch, terminal):
    """Called by the test itself: between set-up and test, pytest puts streams of its own there."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setattr(sys, "stderr", terminal)
    now = display._wall_us()
    monkeypatch.setattr(display, "_wall_us", lambda: now)
    # Frames are drawn when a test says so.
    monkeypatch.setattr(display.Display, "_draw", lambda self: None)
    return terminal


def screen_of(written):
    """What stands on the terminal at the end."""
    lines, row = [""], 0
    rest = written
    while rest:
        if rest.startswith("\x1b[K"):
            lines[row], rest = "", rest[3:]
        elif rest.startswith("\x1b[A"):
            row, rest = row - 1, rest[3:]
        elif rest[0] == "\n":
            row, rest = row + 1, rest[1:]
            lines += [""] * (row == len(lines))
        else:
            lines[row] += rest[0].replace("\r", "")
            rest = rest[1:]
    return lines


def test_what_the_program_prints_stands_above_the_spinner(monkeypatch):
    terminal = on(monkeypatch, Terminal())
    spinner = display.Display("spinner")
    spinner(events.InfraCreating("1a2b3c4d"))
    print("from the program")
    spinner(events.PoolStarted())
    assert screen_of(terminal.getvalue()) == ["from the program", "⠋ running · 0:00"]
    print("half", end="")
    spinner(events.Metrics("i", 0, 1, 1, 1, 1))
    assert screen_of(terminal.getvalue())[-1] == "half", "its line is not written over"
    print(" a line")
    spinner(events.PoolStopping())
    assert screen_of(terminal.getvalue())[1:] == ["half a line", "⠋ closing · cpu 1% · 0:00"]
    spinner.close()
    assert sys.stdout is terminal and sys.stderr is terminal
    assert screen_of(terminal.getvalue()) == ["from the program", "half a line", ""]


def test_what_the_program_logs_stands_above_the_spinner(monkeypatch):
    terminal = on(monkeypatch, Terminal())
    handler = logging.StreamHandler(terminal)  # of before
    logger = logging.getLogger("display_test")
    monkeypatch.setattr(logger, "handlers", [handler])
    monkeypatch.setattr(logger, "propagate", False)
    spinner = display.Display("spinner")
    spinner(events.PoolStarted())
    logger.warning("careful")
    spinner(events.PoolStopping())
    assert screen_of(terminal.getvalue()) == ["careful", "⠋ closing · 0:00"]
    spinner.close()
    assert handler.stream is terminal


def test_nothing_moves_while_the_program_asks(monkeypatch):
    terminal = on(monkeypatch, Terminal())

    def ask(prompt):
        """Of the interpreter, which writes without sys.stdout."""
        terminal.write(prompt)
        spinner(events.Metrics("i", 0, 1, 1, 1, 1))
        terminal.write("yes\n")
        return "yes"

    monkeypatch.setattr(builtins, "input", ask)
    spinner = display.Display("spinner")
    spinner(events.PoolStarted())
    assert input("go on? ") == "yes"
    spinner(events.PoolStopping())
    assert screen_of(terminal.getvalue()) == ["go on? yes", "⠋ closing · cpu 1% · 0:00"]
    spinner.close()
    assert input is ask


def test_there_is_no_spinner_at_the_interpreters_prompt(monkeypatch):
    terminal = on(monkeypatch, Terminal())
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    shown = display.Display("spinner")
    shown(events.Error("it is cold", None))
    shown.close()
    assert not shown.redraws
    assert terminal.getvalue().endswith("ERROR   it is cold\n")


def test_two_spinners_have_two_lines(monkeypatch):
    terminal = on(monkeypatch, Terminal())
    first, second = display.Display("spinner"), display.Display("spinner")
    first(events.InfraCreating("11111111"))
    second(events.InfraCreating("22222222"))
    second(events.PoolStarted())
    first(events.LogLine(0, "i-0", "hello", 0))
    assert screen_of(terminal.getvalue()) == [
        "[11111111 node 0] hello",
        "⠋ 11111111 opening · 0:00",
        "⠋ 22222222 running · 0:00",
    ]
    first(events.PoolStopped("p", 0.5, 1, []))
    first.close()
    assert screen_of(terminal.getvalue())[1:] == [
        "✓ 11111111: 0 tasks in 1.0 s · 0 nodes · set-up 0.50 s",
        "⠋ 22222222 running · 0:00",
    ]
    second.close()
    assert sys.stdout is terminal


def test_lines_of_two_pools_can_be_told_apart(monkeypatch):
    terminal = on(monkeypatch, Terminal())
    first, second = display.Display("log"), display.Display("log")
    for one, pool in ((first, "11111111"), (second, "22222222")):
        one(events.InfraCreating(pool))
        one(events.LogLine(0, "i-0", f"hello of {pool}", 0))
    first.close()
    second.close()
    lines = terminal.getvalue().splitlines()
    assert "11111111 node 0" in lines[1] and "22222222 node 0" in lines[3]
    alone = display.Display("log")
    alone(events.InfraCreating("33333333"))
    alone.close()
    assert "pool     INFO    opening 33333333" in terminal.getvalue()


def test_the_clock_follows_summer_time(monkeypatch):
    terminal = on(monkeypatch, Terminal())
    shown = display.Display("log")
    for hours in (1, 2):
        zone = time.struct_time((0,) * 9, {"tm_zone": "", "tm_gmtoff": hours * 3600})
        monkeypatch.setattr(time, "localtime", lambda *_, zone=zone: zone)
        shown(events.LogLine(0, "i-0", "hello", 12 * 3600))
    shown.close()
    assert [line[:8] for line in terminal.getvalue().splitlines()] == ["13:00:00", "14:00:00"]


def test_an_interrupted_pool_ends_without_a_check_mark(monkeypatch):
    terminal = on(monkeypatch, Terminal())
    spinner = display.Display("spinner")
    spinner(events.PoolStarted())
    spinner.ended_by(KeyboardInterrupt())
    spinner(events.PoolStopped("p", 0.5, 1, []))
    spinner.close()
    assert "✗ ended by KeyboardInterrupt: 0 tasks" in terminal.getvalue()
    assert "✓" not in terminal.getvalue()


def test_a_terminal_of_plain_letters_gets_plain_letters(monkeypatch):
    terminal = on(monkeypatch, Ascii())
    spinner = display.Display("spinner")
    spinner(events.InstanceLaunching(2, "t3.small", "AWS"))
    spinner(events.LogLine(0, "i-0", "größer", 0))
    spinner.close()
    assert "- launching 2 x t3.small - 0/2 nodes - 0:00" in terminal.getvalue()
    assert "gr??er" in terminal.getvalue()
    assert terminal.getvalue().isascii()


def test_text_that_is_not_utf8_is_shown_as_an_escape(monkeypatch):
    terminal = on(monkeypatch, Terminal())
    shown = display.Display("log")
    shown(events.Error("cannot parse caf\udce9", None))
    shown.close()
    assert "cannot parse caf\\udce9\n" in terminal.getvalue()


def test_a_locale_without_utf8_gets_plain_letters(monkeypatch):
    """Python writes UTF-8 where LANG=C, which such a terminal does not show."""
    terminal = on(monkeypatch, Terminal())
    monkeypatch.setenv("LC_ALL", "")
    monkeypatch.setenv("LC_CTYPE", "C.UTF-8")  # as Python sets it
    monkeypatch.setenv("LANG", "C")
    spinner = display.Display("spinner")
    spinner(events.InstanceLaunching(2, "t3.small", "AWS"))
    spinner(events.PoolStopped("p", 0.5, 1, []))
    spinner.close()
    assert "ok 0 tasks in 1.0 s - 0 nodes - set-up 0.50 s\n" in terminal.getvalue()
    assert terminal.getvalue().isascii()


def test_a_stream_that_only_writes_is_enough(monkeypatch):
    class Tee:
        def __init__(self):
            self.text = ""

        def write(self, text):
            self.text += text

        def flush(self):
            pass

    tee = Tee()
    on(monkeypatch, tee)
    shown = display.Display("log")
    shown(events.Error(message="it is cold", instance_id=None))
    shown.close()
    assert "it is cold" in tee.text


class Pipe(io.TextIOWrapper):
    """Like stderr where it is a full pipe that another program has made non-blocking."""

    def __init__(self):
        self.read_end, write_end = os.pipe()
        for end in (self.read_end, write_end):
            os.set_blocking(end, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(write_end, b"." * 4096)
        super().__init__(open(write_end, "wb"), encoding="utf-8", line_buffering=True)
        self.is_full = threading.Event()

    def flush(self):
        try:
            super().flush()
        except BlockingIOError:
            self.is_full.set()
            raise

    def read(self):
        """What it holds."""
        found = b""
        with contextlib.suppress(BlockingIOError):
            while piece := os.read(self.read_end, 65536):
                found += piece
        return found.decode().lstrip(".")

    def close(self):
        if self.closed:
            return
        with contextlib.suppress(BlockingIOError):
            super().close()
        os.close(self.read_end)


def test_a_pipe_that_does_not_block_gets_everything(monkeypatch):
    with Pipe() as pipe, monkeypatch.context() as patch:
        on(patch, pipe)
        patch.setattr(display, "BUSY_SECONDS", 60)
        shown = display.Display("log")
        texts = []

        def read():
            pipe.is_full.wait(60)
            while not texts or "the end" not in texts[-1]:
                select.select([pipe.read_end], [], [], 60)
                texts.append(pipe.read())

        reader = threading.Thread(target=read)
        reader.start()
        shown(events.LogLine(0, "i-0", "ö" * 300_000, 0))
        shown(events.LogLine(0, "i-0", "the end", 0))
        reader.join(60)
        shown.close()
        assert "".join(texts).count("ö") == 300_000
        assert "missing" not in "".join(texts)


def test_what_could_not_be_written_is_counted_and_does_not_end_the_display(monkeypatch):
    with Pipe() as pipe, monkeypatch.context() as patch:
        on(patch, pipe)
        patch.setattr(display, "BUSY_SECONDS", 0.01)
        shown = display.Display("log")
        for number in range(3):
            shown(events.Error(f"error {number}", None))
        pipe.read()
        shown(events.Error("the last one", None))
        shown.close()
        text = pipe.read()
        assert "up to 3 lines missing above: write could not complete without blocking\n" in text
        assert text.endswith("the last one\n")


def test_others_may_print_while_a_spinner_counts_tasks(monkeypatch):
    """Counting waits for locks, and whoever holds one may print when garbage is collected."""
    draw = display.Display._draw
    terminal = on(monkeypatch, Terminal())
    spinner = display.Display("spinner")
    printed, waited = threading.Event(), []

    def other_thread():
        print("from a __del__")
        printed.set()

    def count():
        if waited:
            spinner._closed.set()  # no more frames
        else:
            threading.Thread(target=other_thread, daemon=True).start()
            waited.append(printed.wait(60))
        return 1, 2, 3

    spinner(events.PoolStarted())
    spinner.count_tasks(count)
    draw(spinner)
    spinner.close()
    assert waited == [True]
    assert "1 done, 2 running" in terminal.getvalue()


PROGRAM = """
import os, signal, sys, time
import skyward as sky

@sky.compute
def work(i):
    time.sleep(0.3)  # on a worker
    return i

with sky.ComputePool(display="spinner", collect_metrics=False) as pool:
    print(list(sky.gather(*[work(i) for i in range(4)]) >> pool))
    print("done", file=sys.stderr)
    if "interrupt" in sys.argv:
        os.kill(os.getpid(), signal.SIGINT)
        while True:
            signal.sigtimedwait([], 0.1)  # pause() would miss a signal that comes just before
"""


def run_on_a_terminal(*words):
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "NO_COLOR": "1"}
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *words],
        stdout=theirs, stderr=theirs, env=environment,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as program:  # fmt: skip
        os.close(theirs)
        heard = b""
        while True:
            try:
                heard += os.read(ours, 65536)
            except OSError:  # it has ended
                break
        os.close(ours)
        program.wait(60)
    return heard.decode().replace("\r\n", "\n")


def test_counts_move_while_a_gather_waits():
    heard = run_on_a_terminal()
    assert re.search("[123] done, 1 running", heard), heard
    assert "\n[0, 1, 2, 3]\n" in "\n" + heard.replace(WIPE, "\n")
    assert "✓ 4 tasks" in heard


def test_ctrl_c_is_told_at_the_end():
    heard = run_on_a_terminal("interrupt")
    assert "✗ ended by KeyboardInterrupt: 4 tasks" in heard, heard


def test_a_terminal_that_nobody_reads_does_not_keep_a_pool_open(monkeypatch):
    """A write to it holds the screen until somebody reads."""
    terminal = on(monkeypatch, Terminal())
    monkeypatch.setattr(display, "BUSY_SECONDS", 0.01)
    shown = display.Display("spinner")
    writes, reads = threading.Event(), threading.Event()

    def write():
        with display._screen.lock:
            writes.set()
            reads.wait(60)

    writer = threading.Thread(target=write)
    writer.start()
    writes.wait(60)
    shown.close()
    assert sys.stderr is not terminal
    reads.set()
    writer.join(60)
    for thread in threading.enumerate():
        if thread.name == "skyward-screen":
            thread.join(60)
    assert sys.stderr is terminal
