"""A place for one act of abuse: programs are started in it and hurt, and everything that they may
leave behind is looked for."""

import os
import random
import resource
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from contextlib import suppress
from pathlib import Path

PATIENCE = 60.0
"""Seconds. Nothing here may take longer, on however busy a machine."""

END_PATIENCE = 75.0
"""Seconds for a program to end: longer than it gives its pools (kProgramEndTimeout), so that one
whose pools do not close says so itself."""

MARK = "SKYWARD_ABUSE"
"""An environment variable that all processes of an act inherit."""

PRELUDE = """
import faulthandler, os, random, signal, sys, threading, time

import skyward as sky

faulthandler.enable()  # the stacks of a program that hangs, at the SIGABRT that ends it
# A job in the background of a script ignores SIGINT, and its children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
random = random.Random({seed})


@sky.compute
def square(x):
    return x * x


def check(pool, count):
    assert list(sky.gather(*[square(i) for i in range(count)]) >> pool) == [
        i * i for i in range(count)
    ]


def say(word):
    print(word, flush=True)

"""


class Skipped(Exception):  # noqa: N818 - it is no error
    """What this machine lacks for an act."""


def wait_until(condition, what, seconds=PATIENCE):
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, f"waited {seconds:.0f} s: {what}"
        threading.Event().wait(0.01)
    return value


class Program:
    """A Python program under test. Its output goes to files, so that it never waits for us."""

    def __init__(self, process, out, err):
        self.process = process
        self.pid = process.pid
        self._out = out
        self._err = err

    @property
    def out(self):
        return self._out.read_text()

    @property
    def err(self):
        return self._err.read_text()

    def wait_for(self, word):
        """Until the program has said the word, or has ended."""
        wait_until(
            lambda: word in self.out.split() or self.process.poll() is not None,
            f"the program to say {word!r}",
        )

    def signal(self, number):
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)  # not reaped: the number is still its own

    def wait(self, seconds=END_PATIENCE):
        """The exit status; fails when the program does not end, or ends in a crash."""
        try:
            status = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            threads = self._threads() + self._stacks()
            self.signal(signal.SIGABRT)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(10)
            raise AssertionError(
                f"the program did not end within {seconds:.0f} s; its threads: {threads}"
            ) from None
        crashes = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE)
        assert -status not in crashes, f"the program crashed: {signal.Signals(-status).name}"
        assert "terminate called" not in self.err
        return status

    def _threads(self):
        """What each thread waits for in the kernel, and what it is called."""
        found = []
        for task in sorted(Path(f"/proc/{self.pid}/task").glob("*")):
            with suppress(OSError):
                words = [(task / what).read_text().split()[0] for what in ("comm", "wchan")]
                found.append(":".join(words))
        return " ".join(found)

    def _stacks(self):
        """The C++ stacks of all threads, where there is a debugger."""
        if not shutil.which("gdb"):
            return ""
        command = ["gdb", "-p", str(self.pid), "-batch", "-ex", "thread apply all bt 30"]
        with suppress(subprocess.TimeoutExpired):
            return "\n" + subprocess.run(command, capture_output=True, text=True, timeout=60).stdout
        return ""

    def expect_success(self):
        """The program has ended well, and its last line says how."""
        status = self.wait()
        assert status == 0, f"exit status {status}"
        assert "survived" in self.out or "refused" in self.out, "it never came to its end"


class Bed:
    """One act's directory, its randomness and its programs."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.root = Path(tempfile.mkdtemp(prefix="abuse-"))
        self.mark = secrets.token_hex(8)
        self.programs = []

    def start(self, text, *, before=(), setup=None, environment=None, limits=()):
        """Runs the program after the prelude. `before`: words in front of its command. `setup`:
        called in the child before it. `limits`: (resource, number) of the child."""
        number = len(self.programs)
        script = self.root / f"program-{number}.py"
        prelude = PRELUDE.format(seed=self.random.randrange(1 << 30))
        script.write_text(prelude + textwrap.dedent(text))
        out, err = self.root / f"out-{number}", self.root / f"err-{number}"

        def prepare():
            for what, limit in limits:
                resource.setrlimit(what, (limit, limit))
            # Under nohup they are ignored, a program inherits that, and its pools leave it so.
            for number in (signal.SIGHUP, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            if setup:
                setup()

        with out.open("wb") as to_out, err.open("wb") as to_err:
            process = subprocess.Popen(
                [*before, sys.executable, str(script)],
                stdin=subprocess.DEVNULL,
                stdout=to_out,
                stderr=to_err,
                env=self.environment() | (environment or {}),
                preexec_fn=prepare,
                start_new_session=True,
            )
        program = Program(process, out, err)
        self.programs.append(program)
        return program

    def environment(self):
        temporary = self.root / "tmp"
        temporary.mkdir(exist_ok=True)
        # Pools would keep their files there, not below TMPDIR.
        inherited = {name: os.environ[name] for name in os.environ if name != "XDG_RUNTIME_DIR"}
        return inherited | {
            MARK: self.mark,
            "TMPDIR": str(temporary),
            "XDG_STATE_HOME": str(self.root / "state"),
            "XDG_CACHE_HOME": str(self.root / "cache"),
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def processes(self):
        """{pid: command line} of what the act has started and is still alive."""
        mark = f"{MARK}={self.mark}".encode()
        found = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            with suppress(OSError):
                if mark not in (entry / "environ").read_bytes().split(b"\0"):
                    continue
                if (entry / "stat").read_text().rpartition(")")[2].split()[0] != "Z":
                    words = (entry / "cmdline").read_bytes().split(b"\0")
                    found[int(entry.name)] = b" ".join(words).decode(errors="replace")[:200]
        return found

    def expect_nothing_left(self):
        """No process, and no file but the lock of a killed program's pool, which the next pool
        removes."""
        wait_until(lambda: not self.processes(), "all processes to end")
        if any(path.name == "lock" for path in self.files_left()):
            self.start(
                """
                with sky.ComputePool(display="quiet") as pool:
                    check(pool, 1)
                say("survived")
                """
            ).expect_success()
            wait_until(lambda: not self.processes(), "the next pool's processes to end")
        assert not self.files_left(), f"files left: {self.files_left()[:5]}"

    def files_left(self):
        left = [path for path in (self.root / "tmp").rglob("*") if not path.is_dir()]
        # Locks without a pool are empty and stay: removing one would let two programs hold it.
        return [path for path in left if path.stat().st_size > 0]

    def close(self):
        """Ends what an act that failed has left, by its mark, and removes its directory."""
        for pid in self.processes():
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        for program in self.programs:
            program.signal(signal.SIGKILL)
            program.process.wait()
        shutil.rmtree(self.root, ignore_errors=True)
