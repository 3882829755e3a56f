"""One rank of an MPI world: a process that runs the function once and hands its result to the
worker, by the Unix socket $SKYWARD_MPI_SOCKET.

Started by MPI's daemon on the node, as a script."""

import array
import ctypes
import os
import pickle
import signal
import socket
import struct
import sys
import traceback
from typing import Any

_HEAD = struct.Struct("<Q")
_PR_SET_PDEATHSIG = 1
# Set by MPI's launcher for this process; all else is as in the worker.
_LAUNCHERS = ("OMPI_", "OPAL_", "ORTE_", "PMI", "HYD", "MPI", "FI_", "SKYWARD_MPI")


def main() -> None:
    # With the daemon, however that ends.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    with socket.socket(socket.AF_UNIX) as worker:
        worker.connect(os.environ["SKYWARD_MPI_SOCKET"])
        told = pickle.loads(_receive(worker))
        _adopt(told)
        answer, code = _run(told)
        worker.sendall(_HEAD.pack(len(answer)) + answer)
    if code:
        sys.stdout.flush()
        sys.stderr.flush()
        if (mpi := sys.modules.get("mpi4py.MPI")) is not None:
            mpi.COMM_WORLD.Abort(code)  # the other ranks may wait for this one
        os._exit(code)


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
    """Takes on the worker's variables and its import path."""
    kept = {name: text for name, text in os.environ.items() if name.startswith(_LAUNCHERS)}
    os.environ.clear()
    os.environ.update({**told["environment"], **kept})
    sys.path[:] = told["path"]
    os.chdir(told["folder"])


def _run(told: dict[str, Any]) -> tuple[bytes, int]:
    """The pickled answer, and the exit code."""
    import cloudpickle

    try:
        from mpi4py import MPI

        world = MPI.COMM_WORLD
        if world.Get_size() != told["size"]:
            raise RuntimeError(
                f"the MPI world has {world.Get_size()} ranks instead of {told['size']}: mpi4py uses"
                f" {MPI.Get_library_version().splitlines()[0]!r}, and {told['launcher']} started it"
            )
        function, args, kwargs = pickle.loads(told["call"])
        result = function(*args, **kwargs)
        return cloudpickle.dumps(("ok", world.Get_rank(), result), protocol=5), 0
    except BaseException as error:
        text = traceback.format_exc()
        try:
            data = cloudpickle.dumps(error)
            pickle.loads(data)
        except Exception:  # one that cannot travel
            data = b""
        return pickle.dumps(("raised", f"{type(error).__name__}: {error}", (text, data))), 1


if __name__ == "__main__":
    main()
