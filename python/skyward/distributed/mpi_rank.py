"""One rank of an MPI world: a process that runs the function once and hands its result to the
program of the world, by the Unix socket $SKYWARD_MPI_SOCKET.

Started by MPI's daemon on the node, as a script."""

import array
import atexit
import ctypes
import os
import pickle
import signal
import socket
import struct
import sys
import time
import traceback
from typing import Any

_HEAD = struct.Struct("<Q")
_ANSWER = struct.Struct("<QII")
"""Its length, whether it is an error, and the rank; see skyward/mpi/world.h."""
_PR_SET_PDEATHSIG = 1
_END_SECONDS = 5
"""How long a rank may take to end when every rank has handed over its result."""


def main() -> None:
    # With the daemon, however that ends.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    with socket.socket(socket.AF_UNIX) as worker:
        worker.connect(os.environ.pop("SKYWARD_MPI_SOCKET"))
        told = pickle.loads(_receive(worker))
        _adopt(told)
        from skyward.worker.output import flush_all, send_lines
        from skyward.worker.sentinels import keep_sentinels

        keep_sentinels()
        send_lines()
        atexit.register(_limit_end)  # so it comes after all that the function registers
        answer, rank, code = _run(told)
        worker.sendall(_ANSWER.pack(len(answer), code, rank) + answer)
    if code:
        flush_all()
        if (mpi := sys.modules.get("mpi4py.MPI")) is not None:
            mpi.COMM_WORLD.Abort(code)  # the other ranks may wait for this one
        os.kill(os.getpid(), signal.SIGKILL)  # MPICH may wait for ever for one that just exits


def _limit_end() -> None:
    """Makes SIGALRM end this rank if MPI_Finalize, which mpi4py calls after this, does not return.

    That of MPICH before 4.2 can hang where UCX connects the nodes by TCP: a rank waits there for
    another to acknowledge what it sent, but that one waits for the launcher
    (pmodels/mpich, pull request 6596)."""
    from mpi4py import MPI

    if MPI.Is_finalized() or not _may_hang(MPI.Get_library_version()):
        return
    # Until then others may compute, for as long as they like, and need the cores.
    all_have_answered = MPI.COMM_WORLD.Ibarrier()
    while not all_have_answered.Test():
        time.sleep(0.01)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(_END_SECONDS)


def _may_hang(library: str) -> bool:
    """Of an MPI that calls itself "MPICH Version:\t4.0.2…"."""
    words = library.split()
    if words[:2] != ["MPICH", "Version:"]:
        return False
    major, _, rest = words[2].partition(".")
    return (int(major), int(rest.partition(".")[0])) < (4, 2)


def _receive(worker: socket.socket) -> bytes:
    """The call. The worker's output and error streams come with it."""
    streams = array.array("i")
    data, ancillary, *_ = worker.recvmsg(_HEAD.size, socket.CMSG_SPACE(2 * streams.itemsize))
    for _, _, passed in ancillary:
        streams.frombytes(passed)
    for target, descriptor in enumerate(streams, 1):
        os.dup2(descriptor, target)
        os.close(descriptor)
    (size,) = _HEAD.unpack(data)
    parts = bytearray()
    while len(parts) < size:
        piece = worker.recv(min(size - len(parts), 1 << 20))
        if not piece:
            sys.exit("the worker has ended")
        parts += piece
    return bytes(parts)


def _adopt(told: dict[str, Any]) -> None:
    """Takes on the worker's variables and its import path, and the MPI that started it."""
    own = tuple(os.environ["SKYWARD_MPI_OWN"].split())  # the names that MPI's variables begin with
    kept = {name: text for name, text in os.environ.items() if name.startswith(own)}
    os.environ.clear()
    os.environ.update({**told["environment"], **kept})
    os.environ["MPI4PY_MPIABI"] = os.environ["SKYWARD_MPI_KIND"]  # of mpi4py's wheels
    sys.path[:] = told["path"]
    os.chdir(told["folder"])


def _run(told: dict[str, Any]) -> tuple[bytes, int, int]:
    """The pickled answer, the rank, and the exit code."""
    from skyward.worker.by_value import AnswerPickler, dumps

    try:
        from mpi4py import MPI

        world = MPI.COMM_WORLD
        if world.Get_size() != int(os.environ["SKYWARD_MPI_SIZE"]):
            raise RuntimeError(
                f"the MPI world has {world.Get_size()} ranks instead of"
                f" {os.environ['SKYWARD_MPI_SIZE']}: mpi4py uses"
                f" {MPI.Get_library_version().splitlines()[0]!r}, and"
                f" {os.environ['SKYWARD_MPI_LAUNCHER']} started it"
            )
        function, args, kwargs = pickle.loads(told["call"])
        result = function(*args, **kwargs)
        return dumps(result, pickler=AnswerPickler), world.Get_rank(), 0
    except BaseException as error:
        text = traceback.format_exc()
        try:
            data = dumps(error, pickler=AnswerPickler)
            pickle.loads(data)
        except Exception:  # one that cannot travel
            data = b""
        return pickle.dumps((f"{type(error).__name__}: {error}", text, data)), 0, 1


if __name__ == "__main__":
    main()
