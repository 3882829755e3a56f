"""Where a function keeps what it needs to continue after a restart."""

import atexit
import contextlib
import functools
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from skyward.task.instance_info import instance_info

_folder: Path | None = None
_of_call: Path | None = None  # of the call that runs in this worker process
_temporary: dict[int, Path] = {}  # by the process that made it: a fork has its own
_making = threading.Lock()
os.register_at_fork(after_in_child=_making._at_fork_reinit)  # type: ignore[attr-defined]


def checkpoint_dir() -> Path:
    """Inside a function of ``@sky.distributed.torch(max_restarts=…)``: the folder for its
    checkpoints. It exists, is empty at the first start, and has the same files on every node at
    each restart, on the replacement of a lost node as well.

        last = sky.checkpoint_dir() / "last.pt"
        epoch, state = torch.load(last) if last.exists() else (0, None)

    At a restart, every node gets the latest version of every file, and of every symbolic link
    to a folder beside it. To survive the loss of a node, a file must exist on another, too: let one
    worker of each node save, not only rank 0. Write to a name that ends in ``.tmp`` and rename it:
    such files and folders are not copied, so that no node ever sees half a checkpoint. The folder
    belongs to one call and is removed when the call is over, unless its last restart failed before
    it could use the checkpoints.

    In any other task it is a folder of that call alone: empty at first, the same in all threads of
    the call, and removed when the call ends. Elsewhere it is a temporary folder of this process,
    the same at each call, and removed when the process exits."""
    if _folder is not None:
        return _folder
    process = sys.modules.get("_skyward_worker")
    worker = getattr(process, "worker", None)
    if worker is not None and not worker.forked:
        # A call that is cancelled, and cleans up, is still that call.
        if _of_call is not None or worker.running or worker.stream or worker.interrupted:
            return _of_this_call(worker)
    with _making:
        return _of_this_process(node_folder() if process is not None else None)


def node_folder() -> Path:
    """Where the checkpoints of this node are: below the folder in which each of its processes
    starts, which goes with the pool. Functions may change the working directory."""
    start = getattr(sys.modules.get("_skyward_worker"), "folder", None)
    return Path(start or os.getcwd(), "checkpoints")


def _of_this_call(worker: Any) -> Path:
    global _of_call
    place = instance_info()
    folder = node_folder() / f"worker-{place.worker}-slot-{place.slot}"
    left = None
    with _making:
        if _of_call is None:
            if folder.exists():  # of a process of this slot that was killed
                left = Path(tempfile.mkdtemp(prefix="killed-", dir=folder.parent))
                folder.rename(left / folder.name)
            worker.endings.append(functools.partial(_end_call, folder))
            _of_call = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if left is not None:
        shutil.rmtree(left, ignore_errors=True)
    return folder


def _end_call(folder: Path) -> None:
    global _of_call
    _of_call = None
    shutil.rmtree(folder, ignore_errors=True)


def _of_this_process(above: Path | None) -> Path:
    process = os.getpid()
    if process not in _temporary:
        if above is not None:
            above.mkdir(parents=True, exist_ok=True)
        _temporary[process] = Path(tempfile.mkdtemp(prefix="checkpoints-", dir=above))
        atexit.register(_remove_temporary, process)
    _temporary[process].mkdir(mode=0o700, exist_ok=True)
    return _temporary[process]


def _remove_temporary(process: int) -> None:
    if process == os.getpid():
        shutil.rmtree(_temporary[process], ignore_errors=True)


@contextlib.contextmanager
def kept_in(folder: Path) -> Iterator[None]:
    global _folder
    before, _folder = _folder, folder
    try:
        yield
    finally:
        _folder = before
