"""A cloud takes a machine back, and says so before: the function hears of it, no new task goes
there, and another machine takes the rank before the first one is gone."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from bed import HERE, Bed, Host, end_with_parent
from driving import RUN, begin, finish, nothing_is_left_on

PROGRAM = """
import socket, threading

@sky.compute
def train():
    told = threading.Event()
    left = []
    def warned(seconds_left):
        left.append(seconds_left)
        told.set()
    sky.on_preemption(warned)
    if sky.instance_info().node == 1:
        told.wait(60)
    return socket.gethostname(), left

@sky.compute
def where():
    return socket.gethostname(), sky.instance_info().node

events, told = [], threading.Event()
def note(event):
    if isinstance(event, sky.InstancePreempted):
        events.append(["preempted", event.node, event.seconds_left, event.reason])
        told.set()
    if isinstance(event, sky.InstanceReplaced):
        events.append(["replaced", event.node])

with pool(2, provider={"preemption": "ec2"}, on_event=note) as p:
    future = p.submit(where())
    future.result()
    print("GO", flush=True)
    tell(trained=train() @ p)
    told.wait(10)
    tell(later=[where() >> p for _ in range(20)])
    tell(ranks=where() @ p, events=events)
"""


@pytest.fixture(scope="module")
def hosts(bed: Bed) -> list[Host]:
    made = bed.add("p0", "p1", "p2")
    bed.in_namespace("p1", "ip", "addr", "add", "169.254.169.254/32", "dev", "lo")
    return made


@pytest.fixture
def metadata(bed: Bed, hosts: list[Host], tmp_path: Path) -> "Iterator[subprocess.Popen[str]]":
    """The service inside p1; the others have none, and their questions vanish in the router."""
    service = subprocess.Popen(
        ["nsenter", f"--net=/run/netns/{bed.namespace('p1')}", sys.executable]
        + [str(HERE / "fake_metadata.py"), str(tmp_path / "notice")],
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=end_with_parent,
    )
    assert service.stdout is not None and service.stdout.readline() == "ready\n"
    yield service
    service.kill()
    service.communicate(timeout=10)


def test_the_notice_is_used(
    bed: Bed, hosts: list[Host], tmp_path: Path, metadata: "subprocess.Popen[str]"
) -> None:
    driver = begin(bed, PROGRAM, hosts, tmp_path)
    assert driver.stdout is not None
    for line in driver.stdout:
        if line == "GO\n":
            break
    (tmp_path / "notice").touch()
    told = finish(driver)
    assert told.code == 0, told.err
    facts = told.facts
    (first, nothing), (second, left) = facts["trained"]
    assert [first, nothing, second] == ["p0", [], "p1"]
    assert len(left) == 1 and 60 < left[0] <= 120
    preempted, replaced = facts["events"]
    assert preempted[:2] == ["preempted", 1] and 60 < preempted[2] <= 120
    assert preempted[3] == "EC2 will terminate this machine"
    assert replaced == ["replaced", 1]
    assert all(host != "p1" for host, _ in facts["later"]), "no new task went there"
    assert facts["ranks"] == [["p0", 0], ["p2", 1]]
    nothing_is_left_on(hosts)
    metadata.kill()
    assert "GET 200" in metadata.communicate(timeout=10)[0]


SAVES = """
import pathlib, signal, sys

def save(*_):
    pathlib.Path("out/model").write_text("saved")
    sys.exit()

signal.signal(signal.SIGTERM, save)
print("GO", flush=True)
signal.pause()
"""


def test_a_run_brings_back_what_its_command_saves_at_the_notice(
    bed: Bed, hosts: list[Host], tmp_path: Path, metadata: "subprocess.Popen[str]"
) -> None:
    (tmp_path / "saves.py").write_text(SAVES)
    driver = begin(
        bed,
        RUN
        + """
os.environ["SKYWARD_SSH_PREEMPTION"] = "ec2"
done = run("--output", "out", "saves.py", stdout=None)
tell(code=done.returncode, err=done.stderr, model=open("out/model").read())
""",
        [hosts[1]],
        tmp_path,
    )
    assert driver.stdout is not None
    for line in driver.stdout:
        if line == "GO\n":
            break
    (tmp_path / "notice").touch()
    told = finish(driver)
    assert told.code == 0, told.err
    assert (told.facts["code"], told.facts["model"]) == (124, "saved"), told.facts
    assert "EC2 will terminate this machine" in told.facts["err"]
    assert "asking the command to end" in told.facts["err"]
    assert "no replacement for node 0" not in told.facts["err"], "it would come for nothing"
    nothing_is_left_on(hosts)


SLOW = """
import threading

class Slow:
    mount_path = "/slow"
    def install_commands(self):
        return []
    def mount_commands(self):
        start = "setsid -f python3 /opt/slow_store.py /slow /tmp/stored 8 >/tmp/slow.log 2>&1"
        return [start, "until grep -q ' /slow ' /proc/mounts; do sleep 0.1; done"]

replaced = threading.Event()
def note(event):
    if isinstance(event, sky.InstanceReplaced):
        replaced.set()

with pool(1, provider={"preemption": "ec2"}, volume=[Slow()], on_event=note) as p:
    print("GO", flush=True)
    assert replaced.wait(60)
    print("REPLACED", flush=True)
"""


def test_what_was_written_is_in_the_store_before_the_machine_is_replaced(
    bed: Bed, hosts: list[Host], tmp_path: Path, metadata: "subprocess.Popen[str]"
) -> None:
    for host in hosts[1:]:
        host.write("/opt/slow_store.py", (HERE / "slow_store.py").read_text())
    driver = begin(bed, SLOW, hosts[1:], tmp_path)
    assert driver.stdout is not None
    stored = {}
    for line in driver.stdout:
        if line == "GO\n":
            (tmp_path / "notice").touch()
        if line == "REPLACED\n":
            stored = {host.name: host.run("cat /tmp/stored").stdout for host in hosts[1:]}
    told = finish(driver)
    assert told.code == 0, told.err
    assert stored == {"p1": "stored", "p2": ""}
    nothing_is_left_on(hosts)
