"""Ports of a node, as seen from this machine."""

import os
import shlex
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress

from skyward.engines.relay import CONNECT_SECONDS, READY
from skyward.exceptions import ConnectionError
from skyward.pool.open_pool import OpenPool

_COMMAND_SECONDS = 30.0
"""How long the command that reaches the node may take to connect."""
_NOISE_BYTES = 1 << 20
"""What a login shell may print before the connection stands."""
_MOST_CONNECTIONS = 64
"""At the same time: each is a process, and a login at the node."""
_PAUSE_SECONDS = 0.1
"""After a connection that could not be accepted."""


class Forward:
    """A port of this machine's loopback address that leads to an address of a node.

    Each connection runs the command that reaches the node once more (``ssh host``, ``podman exec``)
    with a relay at its far end; no port of the node is opened for it. `address`: "host:port" to
    connect to. For a node that is a process of this machine it is the node's own. Only this user's
    programs get through, where the kernel says whose a connection is."""

    def __init__(
        self, engine: OpenPool, node: int, relay: Sequence[str], host: str, port: int
    ) -> None:
        """`relay`: the command line of relay.py on the node."""
        command, environment, directory = engine.core.shell_of(node)
        self._node = node
        self._target = f"{host}:{port}"
        self._lock = threading.Lock()
        self._open: set[subprocess.Popen[bytes]] = set()
        self._places = threading.BoundedSemaphore(_MOST_CONNECTIONS)
        self._listener: socket.socket | None = None
        self.problem = ""
        """Why the latest connection failed."""
        if not command:
            self.address = f"{host}:{port}"
            return
        self._command = [*command, "exec " + shlex.join([*relay, host, str(port)])]
        self._environment = {**os.environ, **dict(environment)}
        self._directory = directory or None
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, name="skyward-forward", daemon=True).start()

    def check(self) -> None:
        """Connects once. ConnectionError: nothing answers there."""
        host, _, port = self.address.rpartition(":")
        try:
            if self._listener is None:
                socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
                return
            self._end(self._start())
        except OSError as error:
            raise ConnectionError(
                f"node {self._node} does not answer at {self._target}: {error}"
            ) from error

    def close(self) -> None:
        """Ends the connections and accepts no more."""
        listener, self._listener = self._listener, None
        if listener is None:
            return
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)  # wakes accept()
        listener.close()
        with self._lock:
            running = [*self._open]
        for process in running:
            self._end(process)

    def _accept(self) -> None:
        while (listener := self._listener) is not None:
            self._places.acquire()
            try:
                guest, _ = listener.accept()
            except OSError:
                self._places.release()
                time.sleep(_PAUSE_SECONDS)  # out of descriptors, or closed
                continue
            if _is_another_users(guest):
                guest.close()
                self._places.release()
                continue
            try:
                threading.Thread(target=self._serve, args=(guest,), daemon=True).start()
            except RuntimeError as error:  # no more threads
                self.problem = str(error)
                guest.close()
                self._places.release()

    def _serve(self, guest: socket.socket) -> None:
        try:
            self._connect(guest)
        finally:
            self._places.release()

    def _connect(self, guest: socket.socket) -> None:
        with guest:
            try:
                process = self._start()
            except OSError as error:
                self.problem = str(error)
                return
            with suppress(OSError, ValueError, RuntimeError):  # the last: no more threads
                threading.Thread(target=_send, args=(guest, process), daemon=True).start()
                while data := process.stdout.read1(1 << 16):  # type: ignore[union-attr]
                    guest.sendall(data)
            with suppress(OSError):
                guest.shutdown(socket.SHUT_RDWR)
            self._end(process)

    def _start(self) -> "subprocess.Popen[bytes]":
        """The command, connected. OSError: it does not connect."""
        process = subprocess.Popen(
            self._command,
            env=self._environment,
            cwd=self._directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # a Ctrl-C is not for it
        )
        with self._lock:
            self._open.add(process)
        limit = threading.Timer(_COMMAND_SECONDS, process.kill)
        limit.daemon = True
        try:
            limit.start()
            self._await_relay(process)
            threading.Thread(target=_drop, args=(process,), daemon=True).start()
        except (OSError, RuntimeError) as error:  # the latter: no more threads
            self._end(process)
            raise OSError(str(error)) from error
        finally:
            limit.cancel()
        return process

    def _await_relay(self, process: "subprocess.Popen[bytes]") -> None:
        seen = 0
        while line := process.stdout.readline(_NOISE_BYTES):  # type: ignore[union-attr]
            if line.endswith(READY):
                return
            seen += len(line)
            if seen > _NOISE_BYTES:
                raise OSError("the node's shell never stops printing")
        errors = process.stderr
        assert errors is not None
        words = errors.read(_NOISE_BYTES).decode(errors="replace")
        last = words.strip().rpartition("\n")[2]
        raise OSError(last or f"the command {self._command[0]} exited without any output")

    def _end(self, process: "subprocess.Popen[bytes]") -> None:
        with self._lock:
            if process not in self._open:
                return
            self._open.discard(process)
        with suppress(OSError, ValueError):
            process.stdin.close()  # type: ignore[union-attr]
        with suppress(OSError):
            process.kill()
        process.wait()
        for stream in (process.stdout, process.stderr):
            with suppress(OSError, ValueError):
                stream.close()  # type: ignore[union-attr]


def _is_another_users(guest: socket.socket) -> bool:
    """Whether another user's program has connected, or one that is gone. The kernel's tables of
    connections say whose each is; where there are none, everybody is let through."""
    try:
        (host, theirs), (_, ours) = guest.getpeername(), guest.getsockname()
    except OSError:
        return True  # it has reset the connection
    # Whoever asks for this address by IPv6 is in the other table, under the same digits.
    address = int.from_bytes(socket.inet_aton(host), sys.byteorder)
    local, remote = f"{address:08X}:{theirs:04X}", f":{ours:04X}"
    known = False
    for name in ("tcp", "tcp6"):
        with suppress(OSError), open(f"/proc/net/{name}", encoding="ascii") as table:
            known = True
            for words in map(str.split, table):
                if words[1].endswith(local) and words[2].endswith(remote):
                    is_closed = words[9] == "0"  # then nobody owns it
                    return is_closed or int(words[7]) not in (os.geteuid(), 0)
    return known


def _send(guest: socket.socket, process: "subprocess.Popen[bytes]") -> None:
    with suppress(OSError, ValueError):
        while data := guest.recv(1 << 16):
            process.stdin.write(data)  # type: ignore[union-attr]
            process.stdin.flush()  # type: ignore[union-attr]
        process.stdin.close()  # type: ignore[union-attr]


def _drop(process: "subprocess.Popen[bytes]") -> None:
    """ssh may complain for ever; a full pipe would stop it."""
    with suppress(OSError, ValueError):
        while process.stderr.read1(1 << 16):  # type: ignore[union-attr]
            pass
