"""Where a function keeps what it needs to continue after a restart."""

import atexit
import contextlib
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

_folder: Path | None = None
_temporary: dict[int, Path] = {}  # by the process that made it: a fork has its own
_making = threading.Lock()


def checkpoint_dir() -> Path:
    """Inside a function of ``@sky.distributed.torch(max_restarts=…)``: the folder for its
    checkpoints. It exists, is empty at the first start, and has the same files on every node at
    each restart, on the replacement of a lost node as well.

        last = sky.checkpoint_dir() / "last.pt"
        epoch, state = torch.load(last) if last.exists() else (0, None)

    At a restart, every node gets the latest version of every file. To survive the loss of a node, a
    file must exist on another one, too: let one worker of each node save, not only rank 0. Write to
    a name that ends in ``.tmp`` and rename it: such files and folders are not copied, so that no
    node ever sees half a checkpoint. The folder belongs to one call and is removed when the
    call is over, unless its last restart failed before it could use the checkpoints.

    Anywhere else it is a temporary folder of this process, the same at each call, and removed when
    the process exits."""
    if _folder is not None:
        return _folder
    process = os.getpid()
    with _making:
        if process not in _temporary:
            _temporary[process] = Path(tempfile.mkdtemp(prefix="checkpoints-"))
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
