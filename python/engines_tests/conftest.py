"""Tests with the real engines, on nodes of this machine: `./dev engines`."""

import os
import shutil
import socket
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest


@pytest.fixture(params=["openmpi", "mpich"])
def kind(request):
    daemon = {"openmpi": "orted", "mpich": "hydra_pmi_proxy"}[request.param]
    if not shutil.which(daemon):
        pytest.skip(f"{request.param} is not installed (Debian: openmpi-bin, mpich)")
    return request.param


def await_true(condition: Callable[[], object], seconds: float, what: str) -> None:
    """Returns when `condition()` is true; fails with `what` after so many seconds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        threading.Event().wait(0.05)


def engine_processes() -> set[int]:
    """The processes of engines below this one."""
    found = set()
    for pid in descendants():
        try:
            line = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if any(word in line for word in (b"/engines/", b"ray", b"gcs_server", b"spawn_main")):
            found.add(pid)
    return found


def listening_addresses(pids: set[int]) -> set[str]:
    """The local addresses, as /proc has them, at which these processes listen."""
    sockets = set()
    for pid in pids:
        descriptors: list[Path] = []
        with suppress(OSError):  # it has just ended
            descriptors += Path(f"/proc/{pid}/fd").iterdir()
        for descriptor in descriptors:
            with suppress(OSError):
                sockets.add(os.readlink(descriptor))
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
                found.add(fields[1].partition(":")[0])
    return found


def descendants() -> set[int]:
    """The processes below this one."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(fields[1])
    found = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {os.getpid()}


def stranger_is_refused(host: str, port: int) -> None:
    """Without a certificate of the block nobody gets past the handshake."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        pytest.raises(ssl.SSLError),
        socket.create_connection((host, port), 10) as plain,
        context.wrap_socket(plain) as line,
    ):
        line.recv(1)  # the server's verdict on the missing certificate


@pytest.fixture(autouse=True)
def nothing_is_left():
    """No process that a test started outlives it."""
    yield
    await_true(lambda: not engine_processes(), 20, "processes of the test are left")
