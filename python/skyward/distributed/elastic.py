"""What a start of an elastic call is, on its workers: where the nodes are now, and the checkpoints
of the starts before it."""

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from skyward.distributed.environment import own_address, variables
from skyward.task import checkpoint
from skyward.task.instance_info import InstanceInfo, instance_info

_PIECE_BYTES = 16 << 20
"""Of a file, at a time."""
_FOLDER = "checkpoints"


def place() -> dict[str, Any]:
    """What a node says about itself before each start."""
    info = instance_info()
    return {"node": info.node, "address": own_address(info), "port": info.head_port}


def as_started(info: InstanceInfo, start: Mapping[str, Any]) -> InstanceInfo:
    """The worker's place with the addresses that the nodes have now."""
    places = start["places"]
    peers = [{"node": at["node"], "private_ip": at["address"]} for at in places]
    head = places[0]
    address = head["address"] if info.head_addr else ""
    return replace(info, head_addr=address, head_port=head["port"], peers=peers)


@contextlib.contextmanager
def started(info: InstanceInfo, start: Mapping[str, Any]) -> Iterator[None]:
    """Sets what the function can ask about the start: its variables, as torchrun names them, its
    place, and the folder of its checkpoints. When it ends well, the folder goes."""
    folder = Path(os.getcwd(), _FOLDER, start["id"])
    folder.mkdir(parents=True, exist_ok=True)
    told = {
        "COMPUTE_POOL": json.dumps(asdict(info)),
        "TORCHELASTIC_RESTART_COUNT": str(start["restart"]),
        "TORCHELASTIC_MAX_RESTARTS": str(start["of"]),
        "TORCHELASTIC_RUN_ID": start["id"],
    }
    with variables(told), checkpoint.kept_in(folder):
        yield
    shutil.rmtree(folder, ignore_errors=True)


def share_checkpoints(info: InstanceInfo) -> None:
    """Gives every node the files of the one that wrote last. All workers call it, with
    torch.distributed initialised."""
    import torch.distributed as dist

    folder = checkpoint.checkpoint_dir()
    writes = info.worker == 0
    group = dist.new_group(backend="gloo")
    try:
        lists: list[Any] = [None] * info.total_workers
        dist.all_gather_object(lists, _files(folder) if writes else {}, group=group)
        source = max(range(len(lists)), key=lambda rank: _age(lists[rank]))
        for name, (_, digest) in sorted(lists[source].items()):
            if all(name in files and files[name][1] == digest for files in _writers(lists, info)):
                continue
            has = writes and lists[info.global_worker_index].get(name, (0, ""))[1] == digest
            _copy(dist, group, folder / name, source, info, writes and not has)
        if writes:
            for name in lists[info.global_worker_index].keys() - lists[source].keys():
                (folder / name).unlink(missing_ok=True)
        dist.barrier(group=group)
    finally:
        dist.destroy_process_group(group)


def _writers(lists: list[Any], info: InstanceInfo) -> list[Any]:
    """One worker of each node has its files."""
    return lists[:: info.workers_per_node]


def _files(folder: Path) -> dict[str, tuple[int, str]]:
    """Name → (time of the last change, digest). What is still being written ends in .tmp."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix != ".tmp":
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            found[str(path.relative_to(folder))] = (path.stat().st_mtime_ns, digest)
    return found


def _age(files: Mapping[str, tuple[int, str]]) -> int:
    return max((changed for changed, _ in files.values()), default=0)


def _copy(dist: Any, group: Any, path: Path, source: int, info: InstanceInfo, writes: bool) -> None:
    """Sends a file from one worker to all; those that lack it write it."""
    is_source = info.global_worker_index == source
    with contextlib.ExitStack() as opened:
        file = opened.enter_context(path.open("rb")) if is_source else None
        part = path.with_name(path.name + ".tmp")
        if writes:
            part.parent.mkdir(parents=True, exist_ok=True)
        target = opened.enter_context(part.open("wb")) if writes else None
        piece: list[Any] = [b"start"]
        while piece[0]:
            piece = [file.read(_PIECE_BYTES) if file is not None else None]
            dist.broadcast_object_list(piece, src=source, group=group)
            if target is not None:
                target.write(piece[0])
    if writes:
        part.replace(path)
