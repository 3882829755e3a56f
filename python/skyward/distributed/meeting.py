"""Where the workers of a distributed call find each other before the framework does.

Worker 0 listens at the pool's meeting point (``head_addr:head_port``) until every worker has said
who it is, then tells all of them what each has brought along. Frameworks wait long and complain in
riddles when a worker is missing or in another call; here the missing ones are named. The port is
free again when ``meet`` returns, for the framework to use.

One line of JSON goes each way. A worker comes as often as it needs: nobody may listen yet, or
somebody else still does."""

import contextlib
import errno
import gc
import json
import socket
import time
from dataclasses import dataclass, field
from typing import Any

from skyward.exceptions import ConfigurationError, TimeoutError
from skyward.task.instance_info import InstanceInfo

_RETRY_SECONDS = 0.02
_HELLO_SECONDS = 5.0
"""How long one side waits for the other's line, once it is connected."""
_PORT_SECONDS = 20.0
"""How long worker 0 waits for the port at which they meet."""
_LONGEST_LINE = 64 << 10


@dataclass
class Guests:
    """The workers that have connected to worker 0."""

    seats: dict[int, Any]
    """What each worker brought, by rank."""
    sockets: dict[int, socket.socket] = field(default_factory=dict)

    def close(self) -> None:
        for guest in self.sockets.values():
            guest.close()


def meet(info: InstanceInfo, call: str, timeout: float, brought: Any = None) -> list[Any]:
    """Waits until all workers of the pool are in this call; what each brought, by rank.

    TimeoutError: some did not come in `timeout` seconds. ConfigurationError: one is in another
    call."""
    if info.total_workers == 1:
        return [brought]
    end = time.monotonic() + timeout
    if info.global_worker_index == 0:
        return _host(info, call, timeout, end, brought)
    return _visit(info, call, timeout, end, brought)


def require_network(info: InstanceInfo, call: str) -> None:
    """ConfigurationError where the workers can never meet."""
    if info.total_nodes > 1 and info.network.get("missing"):
        raise ConfigurationError(
            f"{call}: the {info.total_nodes} nodes of this pool cannot reach each other, since"
            f" {info.network['missing']} gives them no network of their own. Use one node, or a"
            " provider whose nodes share a network, as AWS, SSH and the local one do"
        )


def can_listen_at(host: str) -> bool:
    """False where no network interface of this machine has the address: a router has it, say."""
    with socket.socket(_family(host), socket.SOCK_STREAM) as probe:
        try:
            probe.bind((host, 0))
        except OSError as error:
            return error.errno != errno.EADDRNOTAVAIL
    return True


def free_port(host: str, first: int = 0) -> int:
    """A port of this machine that nothing listens at: one of the hundred from `first` on if it can
    be, where a firewall between the nodes may have been opened, else any."""
    if not can_listen_at(host):
        return free_port("", first)
    for port in (*range(first, min(first + 100, 65536) if first else 0), 0):
        with socket.socket(_family(host), socket.SOCK_STREAM) as probe:
            try:
                probe.bind((host, port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise TimeoutError(f"no port of {host} is free")


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _host(info: InstanceInfo, call: str, timeout: float, end: float, brought: Any) -> list[Any]:
    with _listener(info, end) as listener:
        guests = Guests({0: brought})
        try:
            problem = _welcome(info, call, timeout, end, listener, guests)
            answer = problem or {"all": _by_rank(guests)}
            _tell_all(guests, answer)
        finally:
            guests.close()
    return _all_of(answer)


def _listener(info: InstanceInfo, end: float) -> socket.socket:
    """At the meeting point itself where that is an address of this machine, else on all of them."""
    end = min(end, time.monotonic() + _PORT_SECONDS)
    while True:
        listener = socket.socket(_family(info.head_addr), socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            try:
                listener.bind((info.head_addr, info.head_port))
            except OSError as error:
                if error.errno != errno.EADDRNOTAVAIL:  # it is where a router has another
                    raise
                listener.bind(("", info.head_port))
            listener.listen(info.total_workers)
            return listener
        except OSError as error:
            listener.close()
            if time.monotonic() > end:
                raise TimeoutError(
                    f"worker 0 cannot listen at {info.head_addr}:{info.head_port}, where the"
                    f" workers meet: {error.strerror}. Another program on node 0, or a leftover"
                    " of an earlier call, uses that port"
                ) from error
            gc.collect()  # what an earlier call left in a cycle of references listens until then
            time.sleep(_RETRY_SECONDS)


def _welcome(
    info: InstanceInfo,
    call: str,
    timeout: float,
    end: float,
    listener: socket.socket,
    guests: Guests,
) -> dict[str, Any] | None:
    """Until all are here. Returns what to tell them when they cannot begin."""
    while len(guests.seats) < info.total_workers:
        heard = _hear(listener, end)
        if heard is None and time.monotonic() < end:
            continue  # a stranger, or a lost connection: a worker connects again
        if heard is None:
            missing = sorted(set(range(info.total_workers)) - guests.seats.keys())
            text = (
                f"{call}: {_workers(missing)} of {info.total_workers} did not arrive at"
                f" {info.head_addr}:{info.head_port} in {timeout:g} s. A distributed function runs"
                " on every worker at the same time: send it with `@`, and nothing else beside it"
            )
            return {"missing": text}
        guest, said = heard
        if said.get("job") != info.job_id or said.get("of") != info.total_workers:
            guest.close()  # of another pool
            continue
        rank = int(said["rank"])
        if said.get("call") != call:
            guests.sockets[rank] = guest
            text = (
                f"worker 0 is in {call}, but worker {rank} is in {said.get('call')}: two"
                " distributed calls at the same time block each other; send one after the other"
            )
            return {"mixed": text}
        old = guests.sockets.pop(rank, None)
        if old is not None:
            old.close()
        guests.sockets[rank] = guest
        guests.seats[rank] = said.get("brought")
    return None


def _hear(listener: socket.socket, end: float) -> tuple[socket.socket, dict[str, Any]] | None:
    """The next connection and its message; None for a foreign message, or no connection in time."""
    listener.settimeout(max(0.001, end - time.monotonic()))
    try:
        guest, _ = listener.accept()
    except OSError:
        return None
    guest.settimeout(max(0.001, min(_HELLO_SECONDS, end - time.monotonic())))
    try:
        return guest, _read_line(guest)
    except (OSError, ValueError):
        guest.close()
        return None


def _tell_all(guests: Guests, answer: dict[str, Any]) -> None:
    line = json.dumps(answer).encode() + b"\n"
    for guest in guests.sockets.values():
        with contextlib.suppress(OSError):
            guest.settimeout(_HELLO_SECONDS)
            guest.sendall(line)
    for guest in guests.sockets.values():
        # The side that closes first keeps the port busy for a while: let that be the guest.
        with contextlib.suppress(OSError, ValueError):
            guest.recv(1)


def _visit(info: InstanceInfo, call: str, timeout: float, end: float, brought: Any) -> list[Any]:
    hello = {
        "job": info.job_id,
        "of": info.total_workers,
        "call": call,
        "rank": info.global_worker_index,
        "brought": brought,
    }
    line = json.dumps(hello).encode() + b"\n"
    while True:
        left = end - time.monotonic()
        # A little longer than worker 0 waits: its answer says who is missing.
        if left < -1.0:
            raise TimeoutError(
                f"{call}: worker 0 was not at {info.head_addr}:{info.head_port} in {timeout:g} s."
                " A distributed function runs on every worker at the same time: send it with `@`"
            )
        try:
            with socket.create_connection((info.head_addr, info.head_port), left + 1.5) as host:
                if host.getsockname() == host.getpeername():  # connected to itself
                    continue
                host.sendall(line)
                answer = _read_line(host)
        except (OSError, ValueError):  # not listening yet, or another program
            time.sleep(_RETRY_SECONDS)
            continue
        return _all_of(answer)


def _read_line(connection: socket.socket) -> dict[str, Any]:
    data = b""
    while not data.endswith(b"\n"):
        piece = connection.recv(_LONGEST_LINE)
        data += piece
        if not piece or len(data) > _LONGEST_LINE:
            raise ValueError("no line of ours")
    said = json.loads(data)
    if not isinstance(said, dict):
        raise ValueError("no line of ours")
    return said


def _all_of(answer: dict[str, Any]) -> list[Any]:
    if "missing" in answer:
        raise TimeoutError(answer["missing"])
    if "mixed" in answer:
        raise ConfigurationError(answer["mixed"])
    return list(answer["all"])


def _by_rank(guests: Guests) -> list[Any]:
    return [guests.seats[rank] for rank in sorted(guests.seats)]


def _workers(ranks: list[int]) -> str:
    shown = ", ".join(map(str, ranks[:8])) + (" …" if len(ranks) > 8 else "")
    return f"worker{'s' if len(ranks) > 1 else ''} {shown}"
