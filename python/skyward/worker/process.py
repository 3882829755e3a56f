"""The process: its environment, its streams, its end."""

import atexit
import faulthandler
import gc
import importlib.util
import mmap
import os
import signal
import socket
import sys
import types

from . import results
from .loop import Worker
from .output import flush_all, send_lines
from .protocol import BELL, CANCEL_PIPE, HEAD, HELLO, OK, SHARED, SOCKET
from .result_memory import MOST_BYTES


def check_python(wanted):
    have = f"{sys.version_info.major}.{sys.version_info.minor}"
    if wanted and wanted != have:
        sys.stderr.write(
            f"skyward: the worker runs Python {have} ({sys.executable}) but the driver runs Python "
            f"{wanted}; pickled code needs the same minor version. Set Image(python={wanted!r}) or "
            f"run the driver with Python {have}.\n"
        )
        sys.exit(1)


THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)


def divide_processors(slots):
    """Libraries that calculate with threads use this slot's share of the processors: each would use
    all of them. What the user has set stays."""
    if slots <= 1:
        return
    share = str(max(1, int(os.environ["SKYWARD_CPUS"]) // slots))
    for name in THREAD_VARIABLES:
        os.environ.setdefault(name, share)


def take_key(key):
    """The driver's key of multiprocessing: proxies of its managers connect with it."""
    if not key:
        return
    from multiprocessing import process

    process.current_process().authkey = bytes.fromhex(key)


def prepare_modules():
    """The driver's import path, and a clean __main__ for pickled functions."""
    extra = os.environ.pop("SKYWARD_SYS_PATH", "")
    entries = [
        os.fsdecode(bytes.fromhex(entry[1:])) if entry.startswith("%") else entry
        for entry in extra.split(os.pathsep)
    ]
    sys.path[:0] = [entry for entry in entries if entry and entry not in sys.path]
    sys.modules["__main__"] = types.ModuleType("__main__")


def import_for_calls():
    """What takes long to import and is needed only by calls."""
    import cloudpickle  # noqa: F401

    from . import by_value, sources  # noqa: F401  # classes refer to it; functions have sources
    from .sentinels import keep_sentinels

    keep_sentinels()


def offer_programs():
    """Tasks find the programs of their own environment first, as where it has been activated."""
    if sys.prefix == sys.base_prefix:
        return
    programs = os.path.join(sys.prefix, "bin")
    others = [folder for folder in os.get_exec_path() if folder != programs]
    os.environ["PATH"] = os.pathsep.join([programs, *others])
    os.environ["VIRTUAL_ENV"] = sys.prefix


ENDING_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


def leave_to_driver(number, frame):
    """A signal to all processes of a service is for the driver, which ends the tasks in order."""


def handle_ending_signals():
    """The agent of a local node has them ignored. A handler does the same, but not for the programs
    that tasks start, nor for the children that they fork."""
    for number in ENDING_SIGNALS:
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, leave_to_driver)
            signal.siginterrupt(number, False)  # system calls of C code go on
    os.register_at_fork(after_in_child=restore_ending_signals)


def restore_ending_signals():
    for number in ENDING_SIGNALS:
        if signal.getsignal(number) is leave_to_driver:
            signal.signal(number, signal.SIG_DFL)


def main():
    check_python(os.environ.pop("SKYWARD_CLIENT_PYTHON", ""))
    prepare_modules()
    offer_programs()
    slots = int(os.environ.pop("SKYWARD_SLOTS", "1"))
    divide_processors(slots)
    memory = int(os.environ.get("SKYWARD_MEMORY", "0"))
    results.memory.limit = min(memory // 8, MOST_BYTES) // slots
    take_key(os.environ.pop("SKYWARD_AUTHKEY", ""))
    if importlib.util.find_spec("cloudpickle") is None:
        import_for_calls()  # raises
    # A crash leaves the Python stack among the task's last lines, also that of a silent function.
    faulthandler.enable(os.dup(2))
    send_lines()
    os.set_inheritable(SOCKET, False)
    os.set_inheritable(CANCEL_PIPE, False)
    os.set_blocking(CANCEL_PIPE, False)
    os.set_inheritable(BELL, False)
    os.set_blocking(BELL, False)
    sock = socket.socket(fileno=SOCKET)
    sock.setblocking(True)
    with open(SHARED, "rb+", buffering=0) as file:
        shared = mmap.mmap(file.fileno(), 0)
    worker = sys.modules["_skyward_worker"].worker = Worker(sock, shared)
    os.environ.pop("SKYWARD_MARK", None)
    signal.signal(signal.SIGINT, worker.on_interrupt)
    signal.signal(signal.SIGURG, worker.on_interrupt)
    handle_ending_signals()
    text = f"python {sys.version.split()[0]}".encode()
    sock.sendall(HEAD.pack(12 + len(text), HELLO, OK, 0, 0) + text)
    import_for_calls()  # while the pool opens
    gc.freeze()
    if sys.modules["_skyward_worker"].collects:
        gc.enable()
    worker.loop()
    atexit._run_exitfuncs()
    flush_all()
    # Leaving the pool waits for this process: do not wait for threads or finalizers.
    os._exit(0)
