"""What this process listens at."""

import os
import socket
from contextlib import suppress
from pathlib import Path

LISTENS = "0A"


def listening() -> set[str]:
    """The addresses of its TCP sockets that listen."""
    own = set()
    for entry in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            own.add(os.readlink(f"/proc/self/fd/{entry}"))
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/self/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, *rest = line.split()
            if state == LISTENS and f"socket:[{rest[5]}]" in own:
                found.add(_address(local.partition(":")[0]))
    return found


def _address(digits: str) -> str:
    """Words of 32 bits, as this machine stores them: x86 and ARM, the lowest byte first. An IPv6
    socket may stand for an IPv4 address."""
    words = [bytes.fromhex(digits[at : at + 8])[::-1] for at in range(0, len(digits), 8)]
    family = socket.AF_INET if len(words) == 1 else socket.AF_INET6
    return socket.inet_ntop(family, b"".join(words)).removeprefix("::ffff:")
