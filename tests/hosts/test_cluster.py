"""Nodes find each other: the head's address and port, and everybody's address, hold across hosts
that share nothing but a network."""

from pathlib import Path

import pytest
from bed import Bed, Host
from driving import drive, nothing_is_left_on

NODES = 3


@pytest.fixture(scope="module")
def hosts(bed: Bed) -> list[Host]:
    return bed.add(*(f"c{i}" for i in range(NODES)))


def test_all_meet_at_the_head(bed: Bed, hosts: list[Host], tmp_path: Path) -> None:
    """What a framework's rendezvous does: the head listens, the others dial it and say their rank;
    then everybody dials everybody."""
    told = drive(
        bed,
        f"""
        @sky.compute
        def meet():
            import contextlib, socket
            info = sky.instance_info()

            def dial(address, port):
                deadline = time.monotonic() + 30
                while True:
                    with contextlib.suppress(OSError):
                        return socket.create_connection((address, port), timeout=5)
                    assert time.monotonic() < deadline, (address, port)

            if not info.is_head:
                with dial(info.head_addr, info.head_port) as line:
                    line.sendall(bytes([info.node]))
                    return list(line.recv(16)), line.getsockname()[0]
            with socket.create_server((info.head_addr, info.head_port)) as server:
                server.settimeout(30)
                lines, ranks, places = [], [info.node], [info.head_addr]
                while len(lines) < info.total_nodes - 1:
                    line, place = server.accept()
                    lines.append(line)
                    ranks += line.recv(1)
                    places.append(place[0])
                for line in lines:
                    line.sendall(bytes(sorted(ranks)))
                    line.close()
                return sorted(ranks), info.head_addr

        @sky.compute
        def peers():
            info = sky.instance_info()
            return [peer["private_ip"] for peer in info.peers], info.head_addr

        with pool({NODES}) as p:
            tell(peers=peers() @ p, first=meet() @ p, again=meet() @ p)
        """,
        hosts,
        tmp_path,
    )
    addresses = [host.address for host in hosts]
    assert told.facts["peers"] == [[addresses, addresses[0]]] * NODES
    for meeting in ("first", "again"):
        assert [ranks for ranks, _ in told.facts[meeting]] == [[0, 1, 2]] * NODES
        assert [place for _, place in told.facts[meeting]] == addresses
    nothing_is_left_on(hosts)
