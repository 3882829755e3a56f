"""The far end of a forwarded connection: ``python relay.py HOST PORT`` copies its input to that
address, and what comes back to its output.

Runs on a node, as a script, below the command that reaches the node. Login shells may print
before it: what counts begins after the line READY."""

import os
import socket
import sys
import threading

READY = b"skyward-relay: connected\n"
CONNECT_SECONDS = 10.0


def main() -> None:
    host, port = sys.argv[1], int(sys.argv[2])
    try:
        line = socket.create_connection((host, port), CONNECT_SECONDS)
    except OSError as error:
        sys.exit(f"nothing answers at {host}:{port} on the node: {error.strerror or error}")
    line.settimeout(None)
    _write(1, READY)
    threading.Thread(target=_send, args=(line,), daemon=True).start()
    while data := line.recv(1 << 16):
        _write(1, data)


def _send(line: socket.socket) -> None:
    try:
        while data := os.read(0, 1 << 16):
            line.sendall(data)
        line.shutdown(socket.SHUT_WR)
    except OSError:  # the other direction ends, too
        os._exit(0)


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


if __name__ == "__main__":
    main()
