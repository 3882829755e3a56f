"""One start of an elastic call, as its workers see it, and the checkpoints of the starts before."""

import contextlib
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from skyward.distributed.environment import variables
from skyward.task import checkpoint
from skyward.task.instance_info import InstanceInfo

_PIECE_BYTES = 16 << 20
"""Of a file, at a time."""

_LINK = "link:"
"""Begins what stands in place of a digest for a link, before its target."""


def renew() -> None:
    """Ends this worker's process after the call. The agent starts another one."""
    sys.modules["_skyward_worker"].worker.ends = True


def discard(identity: str) -> None:
    """Removes the checkpoints of a call from this node, unless its last start did not get so far
    that it could use them. The driver says when: as long as a worker may fail, the others need what
    it has saved."""
    folder = folder_of(identity)
    if not _unused(folder).exists():
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def started(start: Mapping[str, Any]) -> Iterator[None]:
    """Sets what the function can ask about the start: its variables, as torchrun names them, and
    the folder of its checkpoints. If the workers cannot connect or share them, they are kept."""
    folder = folder_of(start["id"])
    folder.mkdir(parents=True, exist_ok=True)
    if start["restart"]:
        _unused(folder).touch()
    told = {
        "TORCHELASTIC_RESTART_COUNT": str(start["restart"]),
        "TORCHELASTIC_MAX_RESTARTS": str(start["of"]),
        "TORCHELASTIC_RUN_ID": start["id"],
    }
    try:
        with variables(told), checkpoint.kept_in(folder):
            yield
    except Exception as error:
        if _unused(folder).exists():
            with contextlib.suppress(Exception):  # its class is read-only
                error.add_note(
                    "the checkpoints of this call stay on the nodes until the pool closes, here in"
                    f" {folder}; inside the pool's block, another call can read them"
                )
        raise


def _unused(folder: Path) -> Path:
    """A file that is there while the checkpoints have not reached the function of a restart."""
    return folder.with_name(f"{folder.name}.unused")


def folder_of(identity: str) -> Path:
    """For the checkpoints of a call."""
    return checkpoint.node_folder() / identity


def share_checkpoints(info: InstanceInfo) -> None:
    """Gives every node the latest version of each file that one of them has. All workers call it,
    with torch.distributed initialised."""
    folder = checkpoint.checkpoint_dir()
    _share(info, folder)
    _unused(folder).unlink(missing_ok=True)


def _share(info: InstanceInfo, folder: Path) -> None:
    import torch.distributed as dist

    writes = info.worker == 0
    group = dist.new_group(backend="gloo")
    try:
        mine = json.dumps(_files(folder) if writes else {}).encode()
        lists = [_checked(json.loads(text)) for text in _gather(dist, group, mine)]
        for name, source in sources(lists):
            changed, digest = lists[source][name]
            if all(name in files and files[name][1] == digest for files in _writers(lists, info)):
                continue
            has = writes and lists[info.global_worker_index].get(name, (0, ""))[1] == digest
            is_link = digest.startswith(_LINK)
            if not is_link:
                _copy(dist, group, _place(folder, name), source, info, writes and not has)
            elif writes and not has:
                _link(_place(folder, name), digest.removeprefix(_LINK))
            if writes:  # a copy is no newer than what it was made from
                os.utime(folder / name, ns=(changed, changed), follow_symlinks=not is_link)
        dist.barrier(group=group)
    finally:
        dist.destroy_process_group(group)


def sources(lists: Sequence[Mapping[str, tuple[int, str]]]) -> list[tuple[str, int]]:
    """Each file by name, and the worker that all get it from: who has changed it last. `lists`: of
    each worker, its files: name → (time of the last change, digest). Of files below what is a link
    by now there is nothing to get."""

    def changed(rank: int, name: str) -> int:
        return lists[rank][name][0] if name in lists[rank] else -1

    names: set[str] = set().union(*lists)
    latest = {
        name: max(range(len(lists)), key=lambda rank: changed(rank, name)) for name in sorted(names)
    }
    links = {name for name, rank in latest.items() if lists[rank][name][1].startswith(_LINK)}
    return [
        (name, rank)
        for name, rank in latest.items()
        if links.isdisjoint(map(str, PurePosixPath(name).parents))
    ]


def _writers(lists: list[Any], info: InstanceInfo) -> list[Any]:
    """One worker of each node has its files."""
    return lists[:: info.workers_per_node]


def _files(folder: Path) -> dict[str, tuple[int, str]]:
    """Name → (time of the last change, digest). The name of a file or folder that is still being
    written ends in .tmp."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if any(part.endswith(".tmp") for part in name.parts):
            continue
        if path.is_file():
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            found[str(name)] = (path.stat().st_mtime_ns, digest)
        elif path.is_symlink() and path.is_dir():
            target = _target(path)
            if _is_beside(target):
                found[str(name)] = (path.lstat().st_mtime_ns, _LINK + target)
    return found


def _target(link: Path) -> str:
    """Where a link leads. The folder of the checkpoints has another path on each node, so this is a
    relative path."""
    target = os.readlink(link)
    if os.path.isabs(target):
        return os.path.relpath(os.path.realpath(target), os.path.realpath(link.parent))
    return target


def _is_beside(target: str) -> bool:
    """Whether a link leads to a folder in its own folder: so it stays inside, whatever other links
    are there."""
    steps = PurePosixPath(target).parts
    return len(steps) == 1 and steps[0] not in ("..", "/", "//")


def _link(path: Path, target: str) -> None:
    part = path.with_name(path.name + ".tmp")
    part.parent.mkdir(parents=True, exist_ok=True)
    part.unlink(missing_ok=True)
    part.symlink_to(target)
    if path.is_dir() and not path.is_symlink():  # the older version of it
        shutil.rmtree(path)
    part.replace(path)


def _place(folder: Path, name: str) -> Path:
    """Where this file belongs, unless a link of the program's own leads out of the folder there."""
    path = folder / name
    if not path.parent.resolve().is_relative_to(folder.resolve()):
        raise ValueError(f"a link on the way to the checkpoint {name!r} leads out of its folder")
    return path


# Torch's own functions for objects send pickles; these do not: whoever is on the nodes' network may
# pose as one of the workers.


def _gather(dist: Any, group: Any, mine: bytes) -> list[bytes]:
    """What each worker brings, by rank."""
    import torch

    def zeros(count: int, kind: Any) -> Any:
        return torch.zeros(count, dtype=kind, device="cpu")  # the program may have another default

    sizes = [zeros(1, torch.int64) for _ in range(dist.get_world_size(group))]
    dist.all_gather(sizes, torch.tensor([len(mine)], device="cpu"), group=group)
    longest = max(map(int, sizes))
    brought = [zeros(longest, torch.uint8) for _ in sizes]
    padded = torch.frombuffer(bytearray(mine.ljust(longest, b"\0")), dtype=torch.uint8)
    dist.all_gather(brought, padded, group=group)
    return [data.numpy().tobytes()[: int(size)] for data, size in zip(brought, sizes, strict=True)]


def _checked(files: Any) -> dict[str, tuple[int, str]]:
    """What a worker says of its files: all are below the folder."""
    found = {}
    for name, (changed, digest) in files.items():
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or not path.parts:
            raise ValueError(f"{name!r} is not the name of a checkpoint")
        if digest.startswith(_LINK) and not _is_beside(digest.removeprefix(_LINK)):
            raise ValueError(f"the link {name!r} leads out of its folder of checkpoints")
        found[name] = (int(changed), str(digest))
    return found


def _copy(dist: Any, group: Any, path: Path, source: int, info: InstanceInfo, writes: bool) -> None:
    """Sends a file from one worker to all; those that lack it write it."""
    import torch

    is_source = info.global_worker_index == source
    with contextlib.ExitStack() as opened:
        file = opened.enter_context(path.open("rb")) if is_source else None
        part = path.with_name(path.name + ".tmp")
        if writes:
            part.parent.mkdir(parents=True, exist_ok=True)
        target = opened.enter_context(part.open("wb")) if writes else None
        while True:
            own = bytearray(file.read(_PIECE_BYTES) if file is not None else b"")
            size = torch.tensor([len(own)], device="cpu")
            dist.broadcast(size, src=source, group=group)
            if not int(size):
                break
            piece = torch.frombuffer(own or bytearray(int(size)), dtype=torch.uint8)
            dist.broadcast(piece, src=source, group=group)
            if target is not None:
                target.write(piece.numpy())
    if writes:
        part.replace(path)
