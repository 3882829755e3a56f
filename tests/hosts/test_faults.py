"""500 tasks run while something breaks. After each fault: every result is right or clearly failed,
none is delivered twice, nothing hangs, and nothing is left on any host."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from bed import HERE, POLL, Bed, Host, end_with_parent, run, until
from driving import Told, agent_of, begin, finish, nothing_is_left_on

TASKS = 800
NODES = 4
ITEMS = 150  # of each stream; there is one for each node
LEASE_SECONDS = 20  # longer than a silence and what follows it

PROGRAM = f"""
import collections, threading

def wait_to_go():
    while not os.path.exists("/tmp/go"):
        time.sleep(0.01)  # on a worker

@sky.compute
def work(i):
    with open("/tmp/ran", "a") as file:
        file.write(f"{{i}}\\n")
    if i >= 0:
        wait_to_go()
    time.sleep(0.03)  # on a worker
    return i * i

@sky.compute
def count():
    for number in range({ITEMS}):
        time.sleep(0.01)  # on a worker
        if number == 10:
            wait_to_go()
        yield number

def read(numbers, seen, ends):
    try:
        seen.extend(numbers)
        ends.append("whole")
    except sky.SkywardError as error:
        ends.append(type(error).__name__ + ": " + str(error))

answered = collections.Counter()
lost = []
def note(event):
    if isinstance(event, sky.Error) and " was lost: " in event.message:
        lost.append(int(event.message.split()[1]))
began = time.monotonic()
workers = json.loads(os.environ.get("WORKERS", "{{}}"))
with pool({NODES}, concurrency=2, lease={LEASE_SECONDS}, env=workers, on_event=note) as p:
    work(-1) @ p
    tell(ready=time.monotonic() - began)
    began = time.monotonic()
    streams = [count() >> p for _ in range({NODES})]
    items, ends = [[] for _ in streams], [[] for _ in streams]
    readers = [threading.Thread(target=read, args=each) for each in zip(streams, items, ends)]
    for reader in readers:
        reader.start()
    futures = []
    for i in range({TASKS}):
        future = p.submit(work(i))
        future.add_done_callback(lambda _, i=i: answered.update([i]))
        futures.append(future)
    print("GO", flush=True)
    good, wrong, failed = 0, 0, collections.Counter()
    for i, future in enumerate(futures):
        try:
            result = future.result(timeout=100)
            good, wrong = good + (result == i * i), wrong + (result != i * i)
        except Exception as error:
            failed[type(error).__name__ + ": " + str(error)[:200]] += 1
    for reader in readers:
        reader.join(60)
    tell(items=items, ends=[end for each in ends for end in each])
    tell(good=good, wrong=wrong, failed=dict(failed), seconds=time.monotonic() - began,
         answered=len(answered), most=max(answered.values()))
    began = time.monotonic()
tell(closing=time.monotonic() - began)
tell(closed=True, lost=lost)
"""


@pytest.fixture(scope="module")
def hosts(bed: Bed) -> list[Host]:
    return bed.add(*(f"f{i}" for i in range(NODES + 2)))


@pytest.fixture(autouse=True)
def whole_hosts(hosts: list[Host]) -> Iterator[None]:
    """Every test begins and ends with all hosts on, reachable and idle."""
    for host in hosts:
        host.run("rm -f /tmp/ran /tmp/go")
    yield
    for host in hosts:
        host.heal()
        if not host.first:
            host.start()
    nothing_is_left_on(hosts, seconds=LEASE_SECONDS + 40)


def run_while(
    bed: Bed,
    hosts: list[Host],
    folder: Path,
    fault: Callable[[], Any],
    env: Mapping[str, str] | None = None,
    lease: int = LEASE_SECONDS,
) -> Told:
    """The program, with the fault while tasks run."""
    program = PROGRAM.replace(f"lease={LEASE_SECONDS}", f"lease={lease}")
    driver = begin(bed, program, hosts, folder, env=env)
    wait_for_tasks(driver, hosts)
    fault()
    told = finish(driver)
    assert told.code == 0, told.err
    facts = told.facts
    assert facts["closed"], told.err
    assert facts["wrong"] == 0
    assert facts["answered"] == TASKS and facts["most"] == 1, "each was answered once"
    assert facts["good"] + sum(facts["failed"].values()) == TASKS
    assert len(facts["ends"]) == NODES, "each stream has ended"
    for seen in facts["items"]:
        assert seen == list(range(len(seen))), "an item is missing, or came twice"
    for end in facts["ends"]:
        # A stream is not started again elsewhere; its reader gets an error.
        assert end == "whole" or "Lost" in end or "Terminated" in end, end
    return told


def wait_for_tasks(driver: "subprocess.Popen[str]", hosts: list[Host]) -> None:
    """Until all are given to the pool and some have begun. These wait, as do the streams, until
    then, so that most is still to come, however slow this machine is."""
    assert driver.stdout is not None
    seen = []
    for line in driver.stdout:
        seen.append(line)
        if line == "GO\n":
            break
    else:
        raise AssertionError(f"no pool: {''.join(seen)}\n{finish(driver).err}")
    # Streams have the other half of the slots.
    until(lambda: len(ran(hosts)) >= NODES, 20, "tasks run")
    for host in hosts:
        (host.home / "root/tmp/go").touch()


def ran(hosts: list[Host]) -> Counter[int]:
    """How often each task began, on all hosts."""
    counts: Counter[int] = Counter()
    for host in hosts:
        noted = host.home / "root/tmp/ran"
        if noted.exists():
            counts.update(int(line) for line in noted.read_text().splitlines())
    del counts[-1]
    return counts


def all_good_once(told: Told, hosts: list[Host]) -> None:
    assert told.facts["good"] == TASKS, told.facts
    assert told.facts["ends"] == ["whole"] * NODES, told.facts["ends"]
    counts = ran(hosts)
    assert len(counts) == TASKS and set(counts.values()) == {1}, "no task ran twice"
    assert told.facts["lost"] == []


def test_without_a_fault(bed: Bed, hosts: list[Host], tmp_path: Path) -> None:
    all_good_once(run_while(bed, hosts, tmp_path, lambda: None), hosts)


def test_the_agent_is_killed(bed: Bed, hosts: list[Host], tmp_path: Path) -> None:
    told = run_while(bed, hosts, tmp_path, lambda: os.kill(agent_of(hosts[1]), signal.SIGKILL))
    assert told.facts["good"] == TASKS, told.facts
    assert told.facts["lost"] == [1]


def test_the_connection_is_killed(bed: Bed, hosts: list[Host], tmp_path: Path) -> None:
    """sshd's processes of two connections: the agents live on, and nothing runs twice."""

    def kill() -> None:
        for host in hosts[:2]:
            for pid in host.sessions():
                os.kill(pid, signal.SIGKILL)

    all_good_once(run_while(bed, hosts, tmp_path, kill), hosts)


def test_a_host_dies(bed: Bed, hosts: list[Host], tmp_path: Path) -> None:
    told = run_while(bed, hosts, tmp_path, hosts[2].kill)
    assert told.facts["good"] == TASKS, told.facts
    assert told.facts["lost"] == [2]


def test_a_host_loses_power_and_boots_again(bed: Bed, hosts: list[Host], tmp_path: Path) -> None:
    """The wire is dead first, so that no goodbye gets out; then another life answers there."""

    def reboot() -> None:
        hosts[0].cut()
        hosts[0].kill()
        hosts[0].start()
        hosts[0].heal()

    told = run_while(bed, hosts, tmp_path, reboot)
    assert told.facts["good"] == TASKS, told.facts
    assert told.facts["lost"] == [0]


def test_the_driver_is_killed(bed: Bed, hosts: list[Host], tmp_path: Path) -> None:
    driver = begin(bed, PROGRAM, hosts, tmp_path)
    wait_for_tasks(driver, hosts)
    assert sum(len(host.processes()) for host in hosts) > NODES
    driver.send_signal(signal.SIGKILL)
    driver.communicate(timeout=10)
    nothing_is_left_on(hosts, seconds=2 * LEASE_SECONDS + 10)


def test_a_link_is_down_for_five_seconds(bed: Bed, hosts: list[Host], tmp_path: Path) -> None:
    def pause() -> None:
        hosts[0].cut()
        hosts[1].cut_answers()
        wait_seconds(5)
        hosts[0].heal()
        hosts[1].heal()

    all_good_once(run_while(bed, hosts, tmp_path, pause), hosts)


def test_the_drivers_computer_has_no_network(bed: Bed, hosts: list[Host], tmp_path: Path) -> None:
    """For longer than a silent node is waited for: no node is at fault, and none is lost."""

    def pause() -> None:
        bed.unplug_desk()
        try:
            wait_seconds(22)
        finally:
            bed.plug_desk_in()

    told = run_while(bed, hosts, tmp_path, pause, lease=45)
    all_good_once(told, hosts)
    assert told.facts["seconds"] > 22


def test_a_router_has_no_way_to_one_host(bed: Bed, hosts: list[Host], tmp_path: Path) -> None:
    """ssh says what it says without a network: "Network is unreachable"."""
    told = run_while(bed, hosts, tmp_path, hosts[2].lose_way)
    assert told.facts["good"] == TASKS, told.facts
    assert told.facts["lost"] == [2]
    assert told.facts["seconds"] < 40, told.facts


def test_a_host_refuses_connections_for_a_second(
    bed: Bed, hosts: list[Host], tmp_path: Path
) -> None:
    """As when its sshd restarts: the agent and its tasks keep running."""

    def refuse() -> None:
        hosts[1].refuse()
        for pid in hosts[1].sessions():
            os.kill(pid, signal.SIGKILL)
        wait_seconds(1)
        hosts[1].heal()

    all_good_once(run_while(bed, hosts, tmp_path, refuse), hosts)


def test_a_link_is_down_for_ever(bed: Bed, hosts: list[Host], tmp_path: Path) -> None:
    told = run_while(bed, hosts, tmp_path, hosts[3].cut)
    assert told.facts["good"] == TASKS, told.facts
    assert told.facts["lost"] == [3]
    # 3 s until the silence is noticed and 12 s of trying; a silent machine holds up the end little.
    assert told.facts["seconds"] < 40, told.facts
    assert told.facts["closing"] < 20, told.facts


def test_answers_vanish(bed: Bed, hosts: list[Host], tmp_path: Path) -> None:
    """A half-open connection: what is sent arrives, and nothing comes back, for ever."""
    told = run_while(bed, hosts, tmp_path, hosts[3].cut_answers)
    assert told.facts["good"] == TASKS, told.facts
    assert told.facts["lost"] == [3]
    assert told.facts["seconds"] < 60


def test_a_slow_line_that_loses_packets(bed: Bed, hosts: list[Host], tmp_path: Path) -> None:
    """100 ms each way between the desk and all hosts, and 2 % of all packets lost."""
    if not Path("/dev/net/tun").exists():
        pytest.skip("this machine has no /dev/net/tun")
    devices = ["p-desk", *(f"p-{host.name}" for host in hosts)]
    line = subprocess.Popen(
        ["nsenter", f"--net=/run/netns/{bed.namespace('r')}", sys.executable]
        + [str(HERE / "slow_line.py"), "100", "2", *devices],
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=end_with_parent,
    )
    try:
        assert line.stdout is not None and line.stdout.readline() == "ready\n"
        all_good_once(run_while(bed, hosts, tmp_path, lambda: None), hosts)
    finally:
        line.kill()
        line.wait(10)
        for device in devices:
            bed.router("rule", "del", "iif", device, "lookup", "77", "priority", "50")


def test_a_disk_is_full(bed: Bed, hosts: list[Host], tmp_path: Path) -> None:
    """First under a running pool, then before a pool: a clear error that names the place."""
    host = hosts[0]
    host.run("mkdir -p $HOME/.cache && mount -t tmpfs -o size=24m full $HOME/.cache")
    fill = "dd if=/dev/zero of=$HOME/.cache/filler bs=64k; cat $HOME/.cache/filler >/dev/null"
    try:
        told = run_while(bed, hosts, tmp_path, lambda: host.run(fill))
        assert told.facts["good"] == TASKS, told.facts
        host.run("rm -rf $HOME/.cache/skyward; " + fill)
        told = finish(begin(bed, PROGRAM, [host, *hosts[1:NODES]], tmp_path))
        assert told.code != 0
        assert "No space left on device" in told.err, told.err
        assert host.name in told.err or host.address in told.err or "node 0" in told.err
    finally:
        nothing_is_left_on(hosts)
        host.run("umount $HOME/.cache")


def test_a_home_is_mounted_noexec(bed: Bed, hosts: list[Host], tmp_path: Path) -> None:
    host = hosts[0]
    host.run("mkdir -p $HOME/.cache && mount -t tmpfs -o noexec home $HOME/.cache")
    try:
        told = finish(begin(bed, PROGRAM, [host, *hosts[1:NODES]], tmp_path))
        assert told.code != 0
        assert "may be mounted noexec; set XDG_CACHE_HOME" in told.err, told.err
    finally:
        nothing_is_left_on(hosts)
        host.run("umount $HOME/.cache")


def test_clocks_jump(bed: Bed, hosts: list[Host], tmp_path: Path) -> None:
    """The wall clocks of the driver and of the functions on all nodes go ten days ahead, then a
    year back. (The agents read this machine's, which nobody may set, and stamp lines with it.)"""
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    library, jump = tmp_path / "clock.so", tmp_path / "jump"
    run("cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(HERE / "jumping_clock.c"))
    there = {"LD_PRELOAD": "/tmp/clock.so", "JUMPING_CLOCK": "/tmp/jump"}
    preloading = {
        "LD_PRELOAD": str(library),
        "JUMPING_CLOCK": str(jump),
        "WORKERS": json.dumps(there),
    }
    clocks = [jump, *(host.home / "root/tmp/jump" for host in hosts)]
    for host in hosts:
        shutil.copy(library, host.home / "root/tmp/clock.so")

    def jumps() -> None:
        assert sum(map(preloaded, hosts)) == 2 * NODES, "the functions see it"
        for seconds in (10 * 86400, -365 * 86400, 0):
            for clock in clocks:
                clock.write_text(str(seconds))
            wait_seconds(0.5)

    for clock in clocks:
        clock.write_text("0")
    all_good_once(run_while(bed, hosts, tmp_path, jumps, env=preloading), hosts)


def preloaded(host: Host) -> int:
    """How many of the host's worker processes have the jumping clock."""
    return sum(
        "/tmp/clock.so" in Path(f"/proc/{pid}/maps").read_text()
        for pid, line in host.processes().items()
        if "/skyward/worker/" in line
    )


def wait_seconds(seconds: float) -> None:
    """For faults that last."""
    POLL.wait(seconds)


def test_until_fails_in_time() -> None:
    with pytest.raises(AssertionError, match="never true"):
        until(lambda: False, 0.1, "never true")
