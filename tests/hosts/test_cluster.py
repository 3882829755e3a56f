"""Nodes find each other: the head's address and port, and everybody's address, hold across hosts
that share nothing but a network."""

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from bed import Bed, Host
from driving import drive, nothing_is_left_on

NODES = 3


MEET = """
def meet():
    # What a framework's rendezvous does: the head listens, the others dial it and say their rank.
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
"""


@pytest.fixture(scope="module")
def hosts(bed: Bed) -> list[Host]:
    return bed.add(*(f"c{i}" for i in range(NODES)))


def test_all_meet_at_the_head(bed: Bed, hosts: list[Host], tmp_path: Path) -> None:
    told = drive(
        bed,
        MEET
        + dedent(f"""
        meet = sky.compute(meet)

        @sky.compute
        def peers():
            info = sky.instance_info()
            return [peer["private_ip"] for peer in info.peers], info.head_addr

        with pool({NODES}) as p:
            tell(peers=peers() @ p, first=meet() @ p, again=meet() @ p)
        """),
        hosts,
        tmp_path,
    )
    addresses = [host.address for host in hosts]
    assert told.facts["peers"] == [[addresses, addresses[0]]] * NODES
    for meeting in ("first", "again"):
        assert [ranks for ranks, _ in told.facts[meeting]] == [[0, 1, 2]] * NODES
        assert [place for _, place in told.facts[meeting]] == addresses
    nothing_is_left_on(hosts)


def test_they_meet_where_the_replacement_of_the_head_is(
    bed: Bed, hosts: list[Host], tmp_path: Path
) -> None:
    """A distributed call that loses a node ends at once; the next one starts when all are there."""
    told = drive(
        bed,
        MEET
        + dedent("""
        def wait(victim):
            import signal, threading
            if sky.instance_info().node == victim:
                os.kill(os.getppid(), signal.SIGKILL)
            threading.Event().wait(600)

        for function in (meet, wait):
            function.__skyward_distributed__ = "test"
        meet, wait = sky.compute(meet), sky.compute(wait)
        facts = {}
        with pool(2) as p:
            facts["before"] = meet() @ p
            for victim in (0, 1):
                begin = time.monotonic()
                try:
                    wait(victim) @ p
                except sky.ExecutionError as error:
                    facts[f"error {victim}"] = [type(error).__name__, str(error)]
                facts[f"seconds {victim}"] = time.monotonic() - begin
                facts[f"after {victim}"] = meet() @ p
        tell(**facts)
        """),
        hosts,
        tmp_path,
    )
    heads = []
    for meeting in ("before", "after 0", "after 1"):
        (ranks, head), (same, other) = told.facts[meeting]
        assert ranks == same == [0, 1]
        assert {head, other} <= {host.address for host in hosts} and head != other
        heads.append(head)
    assert heads[1] != heads[0], "the test needs a replacement at another address"
    for victim in (0, 1):
        kind, text = told.facts[f"error {victim}"]
        assert kind == "InstanceTerminatedError"
        assert f"node {victim} was lost, and the call needs all nodes" in text
        assert told.facts[f"seconds {victim}"] < 30, told.facts
    nothing_is_left_on(hosts)


FRAMEWORKS = Path(__file__).resolve().parents[2] / ".venv-frameworks/bin/python"
SEEN_AT = "/opt/frameworks"


def packages_with_torch() -> str:
    """The directory of an environment for frameworks of this very Python; skips without one."""
    if not FRAMEWORKS.exists():
        pytest.skip("needs torch for the hosts: `./dev frameworks` makes an environment with it")
    asked = (
        "import sys, torch, pathlib;"
        "print(sys.version_info[:2], pathlib.Path(torch.__file__).parents[1])"
    )
    done = subprocess.run(
        [FRAMEWORKS, "-c", asked], capture_output=True, text=True, timeout=120, check=False
    )
    version, _, place = done.stdout.strip().rpartition(" ")
    if done.returncode != 0:
        pytest.skip(f"the environment for frameworks has no torch: {done.stderr[-200:]}")
    if version != str(tuple(sys.version_info[:2])):
        pytest.skip(f"torch is there for Python {version}, the tests run {sys.version_info[:2]}")
    return place


def test_torch_trains_over_three_hosts(bed: Bed, tmp_path: Path) -> None:
    """DistributedDataParallel by gloo: each rank sees other data, all end with the same weights."""
    trainers = bed.add(*(f"t{i}" for i in range(NODES)), shared={packages_with_torch(): SEEN_AT})
    told = drive(
        bed,
        f"""
        @sky.compute
        @sky.distributed.torch(backend="gloo", timeout=90)
        def train():
            import socket
            import torch
            import torch.distributed as dist
            from torch.nn.parallel import DistributedDataParallel

            info = sky.instance_info()
            rank = dist.get_rank()
            torch.manual_seed(rank)
            model = DistributedDataParallel(torch.nn.Linear(4, 1))
            steps = torch.optim.SGD(model.parameters(), lr=0.1)
            for _ in range(5):
                steps.zero_grad()
                model(torch.randn(8, 4)).pow(2).mean().backward()
                steps.step()
            total = torch.tensor([float(rank)])
            dist.all_reduce(total)
            weights = [round(float(w), 6) for p in model.parameters() for w in p.flatten()]
            return rank, dist.get_world_size(), total.item(), weights, socket.gethostname()

        @sky.compute
        def look_there():
            sys.path.append("{SEEN_AT}")

        with pool({NODES}) as p:
            look_there() @ p  # a worker stays the same process
            tell(trained=train() @ p)
        """,
        trainers,
        tmp_path,
        limit=300,
    )
    trained = told.facts["trained"]
    assert [rank for rank, *_ in trained] == [0, 1, 2]
    assert {(world, total) for _, world, total, *_ in trained} == {(3, 3.0)}
    assert len({tuple(weights) for *_, weights, _ in trained}) == 1
    assert len({name for *_, name in trained}) == NODES
    nothing_is_left_on(trainers)
