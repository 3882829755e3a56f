"""Where the workers of a distributed call find each other before the framework does.

Worker 0 listens at the pool's meeting point (``head_addr:head_port``) until every worker has said
who it is, then tells all of them what each has brought along. Frameworks wait long and complain in
riddles when a worker is missing or in another call; here the missing ones are named. The port is
free again when ``meet`` returns, for the framework to use. The agent's program does it
(skyward/mpi/meeting.h)."""

import errno
import fcntl
import gc
import socket
import struct
from dataclasses import asdict, replace
from typing import Any

from skyward.distributed.agent_program import ask
from skyward.exceptions import ConfigurationError, TimeoutError
from skyward.task.instance_info import InstanceInfo

_PORT_SECONDS = 20.0
"""How long worker 0 waits for the port at which they meet."""
_SIOCGIFADDR = 0x8915


def meet(info: InstanceInfo, call: str, timeout: float, brought: Any = None) -> list[Any]:
    """Waits until all workers of the pool are in this call; what each brought, by rank.

    TimeoutError: some did not come in `timeout` seconds. ConfigurationError: one is in another
    call."""
    if info.total_workers == 1:
        return [brought]
    if info.global_worker_index == 0:
        gc.collect()  # what an earlier call left in a cycle of references listens until then
    order = {
        "place": described(info),
        "call": call,
        "timeout": timeout,
        "brought": brought,
        "port_timeout": _PORT_SECONDS,
    }
    answer, _ = ask("meet", order)
    return list(answer["all"])


def described(info: InstanceInfo) -> dict[str, Any]:
    """The place in the pool for the agent's program, which knows no names of hosts."""
    return asdict(replace(info, head_addr=_address_of(info.head_addr)))


def _address_of(host: str) -> str:
    """The address to listen at or to connect to; on the machine that takes this for its own name,
    each of its own."""
    return "0.0.0.0" if _is_own_name(host) else _resolved(host)


def _resolved(host: str) -> str:
    try:
        return str(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0])
    except OSError:
        return host


def _is_own_name(host: str) -> bool:
    """True where this machine resolves the name to loopback, as Debian's do with their own
    (127.0.1.1). Other machines resolve it to another address, at which it must listen."""
    is_meant = host == "localhost" or host.startswith("127.")
    return not is_meant and _resolved(host).startswith("127.")


def require_network(info: InstanceInfo, call: str) -> None:
    """ConfigurationError where the workers can never meet."""
    if info.total_nodes > 1 and info.network.get("missing"):
        raise ConfigurationError(
            f"{call}: the {info.total_nodes} nodes of this pool cannot reach each other, since"
            f" {info.network['missing']} gives them no network of their own. Use one node, or a"
            " provider whose nodes share a network, such as AWS, SSH or the local one"
        )


def interface_of(host: str) -> str | None:
    """The network interface of this machine that has the address as its first one, which is the one
    that gloo takes; None: there is none. Several hosts never meet on a loopback interface, whatever
    one of them takes its own name for: Debian's is 127.0.1.1."""
    if host.startswith("127."):
        return "lo"
    try:
        found = socket.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_STREAM)
    except OSError:
        return None
    addresses = {str(place[0]) for *_, place in found}
    for _, name in socket.if_nameindex():
        own = _first_address(name)
        if own in addresses and not own.startswith("127."):
            return name
    return None


def _first_address(interface: str) -> str:
    """IPv4; "" where it has none."""
    request = struct.pack("256s", interface.encode())
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        try:
            answer = fcntl.ioctl(asked, _SIOCGIFADDR, request)
        except OSError:
            return ""
    return socket.inet_ntoa(answer[20:24])


def can_listen_at(host: str) -> bool:
    """False where no network interface of this machine has the address: a router has it, say; or
    where only this machine takes the name for its loopback address."""
    if _is_own_name(host):
        return False
    with socket.socket(_family(host), socket.SOCK_STREAM) as probe:
        try:
            probe.bind((host, 0))
        except OSError as error:
            return error.errno != errno.EADDRNOTAVAIL
    return True


def free_port(host: str, first: int = 0) -> int:
    """A port of this machine that nothing listens at, as ``bound_socket`` finds it."""
    with bound_socket(host, first) as found:
        return int(found.getsockname()[1])


def bound_socket(host: str, first: int = 0) -> socket.socket:
    """A socket at a port that nothing else has: one of the hundred from `first` on if it can be,
    where a firewall between the nodes may have been opened, else any. It is at this address alone,
    or at all of them where a router has this one."""
    if not can_listen_at(host):
        return bound_socket("", first)
    for port in (*range(first, min(first + 100, 65536) if first else 0), 0):
        found = socket.socket(_family(host), socket.SOCK_STREAM)
        try:
            found.bind((host, port))
        except OSError:
            found.close()
            continue
        return found
    raise TimeoutError(f"no port of {host} is free")


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
