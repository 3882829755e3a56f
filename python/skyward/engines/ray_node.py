"""Ray's processes on one node: the call that holds them."""

import os
import socket
import sys
import time
from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from skyward.engines.certificates import Identity
from skyward.engines.survey import look
from skyward.task.processes import ChildProgram, end, hold, private_folder

STARTED = "Ray runtime started"
_POLL_SECONDS = 0.05
_STORE_SHARE = 0.3
"""Of a node's memory, for Ray's objects: Ray's own default."""
_QUIET_FORKS = {"GRPC_ENABLE_FORK_SUPPORT": "0"}
"""Ray's proxy forks, and executes another program at once, while its threads are in gRPC. The
handlers that gRPC would run in the child abort it every few times (ray-project/ray#63202)."""


@dataclass(frozen=True)
class RayPlace:
    """A node's part in the cluster."""

    address: str
    """Of this node."""
    head: str
    """"host:port" of the cluster's head."""
    client_port: int
    """Of the head, for Ray clients."""
    identity: Identity
    token: str

    def __repr__(self) -> str:
        return f"RayPlace({self.address})"


def serve(place: RayPlace, seconds: float) -> Generator[str, None, None]:
    """Holds this node's raylet, and on node 0 the head, too."""
    with private_folder("sky-ray-") as folder:
        yield from _serve(place, folder, seconds)


def _serve(place: RayPlace, folder: Path, seconds: float) -> Generator[str, None, None]:
    started: list[ChildProgram] = []
    try:
        here = look(())
        command = [sys.executable, "-P", "-m", "ray.scripts.scripts", "start", "--block"]
        command += [f"--node-ip-address={place.address}", f"--temp-dir={folder}"]
        command += [f"--num-cpus={here.cpus}", f"--num-gpus={here.accelerators}"]
        command += ["--min-worker-port=0", "--max-worker-port=0"]
        command += ["--dashboard-agent-listen-port=0", "--disable-usage-stats"]
        if here.memory:
            command += [f"--memory={int(here.memory * (1 - _STORE_SHARE))}"]
            command += [f"--object-store-memory={int(here.memory * _STORE_SHARE)}"]
        if here.node == 0:
            command += ["--head", f"--port={place.head.rpartition(':')[2]}"]
            command += [f"--ray-client-server-port={place.client_port}"]
            command += ["--include-dashboard=false", "--no-monitor"]
        else:
            command += [f"--address={place.head}"]
        name = "the head of Ray" if here.node == 0 else f"Ray on node {here.node}"
        log = folder / "start.log"
        environment = {**secured(place, folder), **_QUIET_FORKS}
        started.append(ChildProgram(name, command, environment, log=log))
        _await_start(started[0], log, place if here.node == 0 else None, seconds)
        yield from hold(started, place.address)
    finally:
        end(started)


def secured(place: RayPlace, folder: Path) -> dict[str, str]:
    """Variables that make Ray connect with TLS and the token; the files that they name are in
    `folder`, for this user alone."""
    identity = place.identity
    texts = {
        "RAY_TLS_CA_CERT": identity.authority,
        "RAY_TLS_SERVER_CERT": identity.certificate,
        "RAY_TLS_SERVER_KEY": identity.key,
        "RAY_AUTH_TOKEN_PATH": place.token,
    }
    variables = {"RAY_USE_TLS": "1", "RAY_AUTH_MODE": "token"}
    for name, text in texts.items():
        path = folder / name.lower()
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text)
        variables[name] = str(path)
    return variables


def _await_start(process: ChildProgram, log: Path, head: RayPlace | None, seconds: float) -> None:
    """Waits until Ray says that it runs, and until clients can connect to the head."""
    limit = time.monotonic() + seconds
    while STARTED not in log.read_text(errors="replace") or not _answers(head):
        if process.process.poll() is not None:
            raise RuntimeError(process.how_it_ended())
        if time.monotonic() > limit:
            raise TimeoutError(f"{process.name} is not ready after {seconds:g} s{process.tail()}")
        time.sleep(_POLL_SECONDS)


def _answers(head: RayPlace | None) -> bool:
    if head is None:
        return True
    with suppress(OSError):
        socket.create_connection((head.address, head.client_port), 1).close()
        return True
    return False
