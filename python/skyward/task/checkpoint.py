"""Where a function keeps what it needs to continue after a restart."""

import atexit
import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

_folder: Path | None = None
_own: tuple[int, Path] | None = None
"""The process that made it, and its temporary folder."""


def checkpoint_dir() -> Path:
    """Inside a function of ``@sky.distributed.torch(max_restarts=…)``: the folder for its
    checkpoints. It exists, is empty at the first start, and has the same files on every node at
    each restart, on the replacement of a lost node as well.

        last = sky.checkpoint_dir() / "last.pt"
        epoch, state = torch.load(last) if last.exists() else (0, None)

    At a restart, every node gets the latest version of every file. To survive the loss of a node, a
    file must exist on another one, too: let one worker of each node save, not only rank 0. Write to
    a name that ends in ``.tmp`` and rename it: such files and folders are left out, and a
    checkpoint is then whole or not there. The folder belongs to one call and is removed when the
    call is over.

    Anywhere else it is a temporary folder of this process, which removes it at its end."""
    global _own
    if _folder is not None:
        return _folder
    if _own is None or _own[0] != os.getpid():  # a forked child has its own
        _own = os.getpid(), Path(tempfile.mkdtemp(prefix="checkpoints-"))
        atexit.register(_remove, *_own)
    _own[1].mkdir(mode=0o700, exist_ok=True)  # the function may have removed it
    return _own[1]


def _remove(process: int, folder: Path) -> None:
    if process == os.getpid():
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def kept_in(folder: Path) -> Iterator[None]:
    global _folder
    before, _folder = _folder, folder
    try:
        yield
    finally:
        _folder = before
