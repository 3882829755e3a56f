"""Programs that run on a node as children of a call, and end with it."""

import contextlib
import fcntl
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

BOUND_PROGRAM = str(Path(__file__).with_name("bound_program.py"))
_TAIL_LINES = 5
"""Of a log, in an error."""
_END_SECONDS = 1.5
"""How long they may take to end before they are killed. A cancelled call has two seconds."""


class ChildProgram:
    """A program and everything that it starts, in its own process group; killed when this process
    ends, for whatever reason."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        told: bytes = b"",
        reports: bool = False,
        log: Path | None = None,
    ) -> None:
        """`told`: what it reads from its standard input; secrets go this way. `reports`: it writes
        to the descriptor $SKYWARD_READY when it is ready; see await_ready() and report(). `log`: a
        file for its output, else it goes where this process writes. It can import what this one
        can."""
        self.name = name
        self._log = log
        path = os.pathsep.join(entry for entry in sys.path if entry)
        self._ready, writes = os.pipe() if reports else (-1, -1)
        bound = [sys.executable, "-P", BOUND_PROGRAM, str(os.getpid()), *command]
        with contextlib.ExitStack() as failed, contextlib.ExitStack() as opened:
            if reports:
                failed.callback(os.close, self._ready)
                opened.callback(os.close, writes)
            output = opened.enter_context(log.open("wb")) if log is not None else None
            self.process = subprocess.Popen(
                bound,
                env={
                    **os.environ,
                    "PYTHONPATH": path,
                    "SKYWARD_READY": str(writes),
                    **(environment or {}),
                },
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                pass_fds=[writes] if reports else [],
                process_group=0,
            )
            failed.pop_all()
        try:
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.write(told)  # type: ignore[union-attr]
                self.process.stdin.close()  # type: ignore[union-attr]
        except BaseException:  # a cancelled call
            self.kill()
            with contextlib.suppress(OSError):
                self.process.stdin.close()  # type: ignore[union-attr]
            if reports:
                os.close(self._ready)
            raise

    def await_ready(self, seconds: float) -> None:
        """Waits until it reports that it is ready. TimeoutError: not in time. RuntimeError: it
        ended."""
        poll = select.poll()
        poll.register(self._ready, select.POLLIN)
        is_late = not poll.poll(seconds * 1000)
        is_there = not is_late and bool(os.read(self._ready, 1))
        os.close(self._ready)
        if is_late:
            raise TimeoutError(f"{self.name} is not ready after {seconds:g} s")
        if not is_there:
            raise RuntimeError(self.how_it_ended())

    def report(self) -> bytes:
        """All that it writes there, when it has closed that descriptor or ended."""
        with open(self._ready, "rb") as ready:
            return ready.read()

    def how_it_ended(self) -> str:
        """Waits for the end, and describes it."""
        code = self.process.wait()
        how = f"signal {-code}" if code < 0 else f"status {code}"
        return f"{self.name} ended ({how}){self.tail() or '; what it wrote last says why'}"

    def tail(self) -> str:
        """The last lines of its log, as the end of a sentence."""
        if self._log is None:
            return ""
        lines = self._log.read_text(errors="replace").strip().splitlines()[-_TAIL_LINES:]
        return "; it wrote last:\n" + "\n".join(f"  {line}" for line in lines) if lines else ""

    def ask_to_end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """With what it has started and left in its group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def hold(processes: Sequence[ChildProgram], ready: Any) -> Generator[Any, None, None]:
    """Yields `ready`, and then waits for the first process to end, which is an error. Ends all of
    them when it is cancelled."""
    try:
        yield ready
        raise RuntimeError(_await_first(processes).how_it_ended())
    finally:
        end(processes)


def wait_here() -> Generator[None, None, None]:
    """Yields once, and then waits until it is cancelled."""
    yield
    select.poll().poll()


@contextlib.contextmanager
def private_folder(prefix: str) -> Iterator[Path]:
    """A folder for this user alone, with a short name, since Unix sockets in it need one. What
    killed processes left of such folders goes, too."""
    for left in Path("/tmp").glob(f"{prefix}*"):
        if (lock := _locked(left)) is not None:
            shutil.rmtree(left, ignore_errors=True)
            os.close(lock)
    # Until it is locked, it has a name that the loop above does not match, in any process.
    made = Path(tempfile.mkdtemp(prefix=f".{prefix}", dir="/tmp"))
    lock = _locked(made)
    folder = made.with_name(made.name.removeprefix("."))
    try:
        yield made.rename(folder)
    finally:
        for one in (made, folder):
            shutil.rmtree(one, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def _locked(folder: Path) -> int | None:
    """The folder, open and locked; None when it is somebody else's, or in use."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        if os.fstat(descriptor).st_uid == os.geteuid():
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
    except OSError:
        pass
    os.close(descriptor)
    return None


def end(processes: Sequence[ChildProgram]) -> None:
    """Ends them one after another, in the order given: each may need the later ones to shut down
    cleanly. Kills what does not end in time."""
    end_at = time.monotonic() + _END_SECONDS
    for process in processes:
        process.ask_to_end()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.process.wait(max(0.0, end_at - time.monotonic()))
    for process in processes:
        process.kill()


def _await_first(processes: Sequence[ChildProgram]) -> ChildProgram:
    with contextlib.ExitStack() as stack:
        poll = select.poll()
        by_descriptor = {}
        for process in processes:
            descriptor = os.pidfd_open(process.process.pid)
            stack.callback(os.close, descriptor)
            poll.register(descriptor, select.POLLIN)
            by_descriptor[descriptor] = process
        return by_descriptor[poll.poll()[0][0]]
