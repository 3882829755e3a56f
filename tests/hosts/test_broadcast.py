"""A large argument leaves the driver once, however many nodes need it; the nodes pass it on.

The cables are shaped to 1 Gbit/s where the machine has the cores for it: sixteen hosts and their
cables are one machine here, and each hop costs two seconds of a core for a GiB (decision 0010).
With fewer cores the cables are slower, and the data less, so that the time is the same."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from bed import DESK, Bed, Host, until
from driving import agent_of, begin, drive, finish, nothing_is_left_on

NODES = 16
SPARE = 1
MEGABITS_OF_A_CORE = 100
MEGABITS = min(1000, MEGABITS_OF_A_CORE * (os.cpu_count() or 1))
MEGABYTES = 256 * MEGABITS // 1000
BYTES = MEGABYTES << 20
IDEAL = BYTES * 8 / (MEGABITS * 1e6)


@pytest.fixture(scope="module")
def hosts(bed: Bed) -> list[Host]:
    return bed.add(*(f"b{i}" for i in range(NODES + SPARE)))


@pytest.fixture
def shaped(bed: Bed, hosts: list[Host]) -> Iterator[None]:
    bed.shape(MEGABITS)
    yield
    bed.unshape()


PROGRAM = f"""
import hashlib, pickle

@sky.compute
def size_of(data):
    return len(data)

@sky.compute
def digest_of(data):
    import hashlib
    return hashlib.sha256(data).hexdigest()

def sent():
    with open("/proc/net/dev") as cards:
        return next(int(line.split()[9]) for line in cards if line.split()[0] == "eth0:")

def measured(nodes, times):
    with pool(nodes) as p:
        size_of(b"warm") @ p
        seconds, uploads = [], []
        for _ in range(times):
            data = pickle.PickleBuffer(os.urandom({BYTES}))  # as an array is: not copied by pickle
            before, began = sent(), time.monotonic()
            sizes = size_of(data) @ p
            seconds.append(time.monotonic() - began)
            uploads.append(sent() - before)
            assert list(sizes) == [{BYTES}] * nodes
        before = sent()
        digests = digest_of(data) @ p
        again = sent() - before
        right = list(digests) == [hashlib.sha256(data).hexdigest()] * nodes
    return dict(seconds=seconds, uploads=uploads, right=right, again=again)
"""


@pytest.mark.usefixtures("shaped")
def test_sixteen_nodes_get_it_as_quickly_as_two(
    bed: Bed, hosts: list[Host], tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    drive(bed, "with pool(16) as p: pass", hosts, tmp_path)  # environments are made
    for _ in range(3):  # the machine may be busy with something else
        before = [host.bytes_received() for host in hosts[:NODES]]
        told = drive(
            bed,
            PROGRAM + f"tell(two=measured(2, 3), many=measured({NODES}, 3))",
            hosts,
            tmp_path,
            limit=300,
        )
        two, many = told.facts["two"], told.facts["many"]
        quickest, limit = min(many["seconds"]), 1.25 * IDEAL + 0.1
        most = max(many["uploads"])
        if quickest <= min(limit, 1.2 * min(two["seconds"])) and most <= 1.1 * BYTES:
            break
    for name, value in (
        ("megabits", MEGABITS),
        ("ideal", round(IDEAL, 3)),
        ("two", two["seconds"]),
        ("many", many["seconds"]),
        ("uploads", [round(upload / BYTES, 3) for upload in many["uploads"]]),
    ):
        record_property(name, value)
        print(name, value)
    assert two["right"] and many["right"]
    assert most <= 1.1 * BYTES
    assert quickest <= limit
    assert quickest <= 1.2 * min(two["seconds"])
    # The same bytes again: nobody is sent them.
    assert many["again"] < 0.1 * BYTES
    for host, had in zip(hosts[2:NODES], before[2:], strict=True):
        assert host.bytes_received() - had < 3 * 1.1 * BYTES, host.name
    nothing_is_left_on(hosts)


@pytest.mark.usefixtures("shaped")
def test_a_node_dies_half_way(bed: Bed, hosts: list[Host], tmp_path: Path) -> None:
    """Who read from it goes on from another, the driver sends no more than the rest; the machine
    that takes its place gets everything from a node."""
    driver = begin(
        bed,
        PROGRAM
        + """
        with pool(6) as p:
            size_of(b"warm") @ p
            data = os.urandom(%d)
            before = sent()
            print("GO", flush=True)
            digests = digest_of(data) @ p
            tell(upload=sent() - before,
                 right=list(digests) == [hashlib.sha256(data).hexdigest()] * 6)
        """.replace("\n        ", "\n")
        % BYTES,
        hosts,
        tmp_path,
    )
    assert driver.stdout is not None
    for line in driver.stdout:
        if line == "GO\n":
            break
    victim = hosts[2]
    had = victim.bytes_received()
    until(lambda: victim.bytes_received() - had > BYTES // 3, 60, "nothing came to the victim")
    victim.kill()
    try:
        told = finish(driver)
    finally:
        victim.start()
    assert told.code == 0, told.err
    assert told.facts["right"]
    assert told.facts["upload"] <= 1.2 * BYTES
    nothing_is_left_on(hosts)


STRANGER = """
import socket, ssl, sys
address, port = sys.argv[1], int(sys.argv[2])
context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
try:
    with socket.create_connection((address, port), 10) as line:
        context.wrap_socket(line).recv(1)
    print("let in")
except ssl.SSLError as error:
    print("refused:", error.reason)
except OSError as error:
    print("refused:", error)
"""


def test_strangers_are_refused(bed: Bed, hosts: list[Host], tmp_path: Path) -> None:
    """Whoever does not know the pool's secret gets no further than the greeting."""
    driver = begin(
        bed,
        """
        with pool(3) as p:
            assert list(sky.compute(len)(b"x") @ p) == [1, 1, 1]
            print("GO", flush=True)
            import pathlib
            deadline = time.monotonic() + 60
            while not pathlib.Path("done").exists():
                assert time.monotonic() < deadline
                time.sleep(0.05)  # on a worker
            data = os.urandom(4 << 20)
            tell(sizes=list(sky.compute(len)(data) @ p))
        """,
        hosts,
        tmp_path,
    )
    assert driver.stdout is not None
    for line in driver.stdout:
        if line == "GO\n":
            break
    assert agent_of(hosts[0])
    ports = hosts[0].listening_ports()
    assert len(ports) == 1, ports
    script = tmp_path / "stranger.py"
    script.write_text(STRANGER)
    answer = bed.in_namespace(DESK, "python3", str(script), hosts[0].address, str(ports[0]))
    assert answer.startswith("refused:"), answer
    (tmp_path / "done").touch()
    told = finish(driver)
    assert told.code == 0, told.err
    assert told.facts["sizes"] == [4 << 20] * 3
    nothing_is_left_on(hosts)
