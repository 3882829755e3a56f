"""The driver is killed, -9, before and after each of its requests, and before, within and after
each write of its ledger, in one whole life of a pool; then one gc runs. And so is a gc that cleans
up after such a driver; then another one runs. Against an emulator that nobody here wrote, as real
processes, beside a pool at work. The sums are kept in docs/leaks.md, which this test holds to what
it counts.

All of them take minutes, so each commit runs a third, always the same; SKYWARD_DEATHS=all runs all,
and 0, 1 or 2 one of the thirds.
"""

import contextlib
import multiprocessing
import os
import select
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from cloud import Cloud, Faults, Request, clouds
from machines import why_not
from programs import ROOT, Told, begin, begin_skyward, finish, hear


def third_of_commit() -> str:
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return str(int(head.stdout or "0", 16) % 3)


LIMIT_SECONDS = 900
THIRD = os.environ.get("SKYWARD_DEATHS") or third_of_commit()
LANES = 6  # clouds side by side: a gc waits between its two looks
FIRST_NETWORK = 80  # 127.80.0.0/16 and on
NO_COMPILER = None if shutil.which("cc") else "needs a C compiler"

pytestmark = pytest.mark.skipif(
    bool(why_not() or NO_COMPILER), reason=str(why_not() or NO_COMPILER)
)

# Two machines, one of which is lost, released and replaced. Each agent is a machine's own.
LIFE = """
import signal, threading

@sky.compute
def square(x):
    return x * x

@sky.compute
def end_one_agent(mark):
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return  # the second try, on another machine
    os.kill(os.getppid(), signal.SIGKILL)

replaced = threading.Event()
def note(event):
    if isinstance(event, sky.InstanceReplaced):
        replaced.set()

with pool(nodes=2, machine="m5.large", on_event=note) as p:
    tell(first=list(square(2) @ p))
    end_one_agent(f"{os.environ['HOME']}/ended-by-{os.getpid()}") >> p
    assert replaced.wait(60)
    tell(second=list(square(3) @ p))
"""
AT_WORK = """
import signal

@sky.compute
def square(x):
    return x * x

signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
with pool(machine="m5.large") as p:
    tell(ready=True)
    signal.sigwait({signal.SIGUSR1})
    tell(answer=square(3) >> p)
"""

GC_COMMAND = ("gc", "--region", "us-east-1", "--json")
BEFORE_REQUEST = "before a request, which nobody hears"
AFTER_REQUEST = "after a request, whose answer nobody hears"
MOMENTS_OF_WRITES = {
    "before": "before a write of the ledger",
    "within": "within a write of the ledger",
    "after": "after a write of the ledger",
}
# Asked by a computer that has not asked within the day: the other lives need not wait for it.
CACHED = {"DescribeInstanceTypes", "GetProducts"}
KINDS = [BEFORE_REQUEST, AFTER_REQUEST, *MOMENTS_OF_WRITES.values()]
DRIVER, GC = "the driver", "`gc`"
THINGS = ["machines", "volumes", "addresses", "keys", "groups", "templates"]
Listing = dict[str, set[str]]


@dataclass(frozen=True)
class Death:
    who: str
    kind: str
    number: int  # of the write, or of the requests with this action, from 1
    action: str = ""  # of the request

    @property
    def variables(self) -> dict[str, str]:
        """For a program that shall die at a write."""
        moments = [moment for moment, kind in MOMENTS_OF_WRITES.items() if kind == self.kind]
        return {"DIE_AT_WRITE": f"{moments[0]} {self.number}"} if moments else {}


@dataclass
class Found:
    """What was there after a death, without what the pool at work has."""

    death: Death
    standing: int = 0  # machines, before the last gc
    left: Counter[str] = field(default_factory=Counter)  # of each kind of things, after it
    touched: int = 0  # things of the pool at work that are gone
    wrong: str = ""


# Two machines stand, and the ledger has their names.
LEFT_FOR_GC = Death(DRIVER, AFTER_REQUEST, 1, "DescribeInstances")


def kill(program: "subprocess.Popen[str]") -> None:
    """Returns when nothing of it runs any more."""
    handle = os.pidfd_open(program.pid)
    try:
        os.kill(program.pid, signal.SIGKILL)
        assert select.select([handle], [], [], 10)[0], "a killed program is alive"
    finally:
        os.close(handle)


class Lane:
    """A computer with a cloud of its own."""

    def __init__(self, cloud: Cloud, directory: Path, library: Path) -> None:
        cloud.machines.running = True
        self.cloud = cloud
        self.home = directory
        self.library = library
        self.writes = directory / "writes"
        self.client = cloud.client("ec2")
        self.at_work: Listing = {}

    @contextlib.contextmanager
    def pool_at_work(self) -> Iterator[None]:
        driver = begin(self.cloud, self.home, AT_WORK)
        heard = hear(driver, "ready")
        try:
            self.at_work = self.list_all()
            assert [len(self.at_work[kind]) for kind in THINGS] == [1, 1, 0, 0, 1, 0], self.at_work
            yield
            driver.send_signal(signal.SIGUSR1)
        except BaseException:
            driver.kill()
            raise
        told = finish(driver, heard.out)
        assert told.code == 0 and told.facts["answer"] == 9, told.err
        assert not any(self.list_all().values())

    def list_all(self) -> Listing:
        """By the emulator's own answers."""
        ec2: Any = self.client
        reservations = ec2.describe_instances()["Reservations"]
        machines = [machine for one in reservations for machine in one["Instances"]]
        groups = ec2.describe_security_groups()["SecurityGroups"]
        templates = ec2.describe_launch_templates()["LaunchTemplates"]
        return {
            "machines": {
                one["InstanceId"]
                for one in machines
                if one["State"]["Name"] not in ("shutting-down", "terminated")
            },
            "volumes": {one["VolumeId"] for one in ec2.describe_volumes()["Volumes"]},
            "addresses": {one["PublicIp"] for one in ec2.describe_addresses()["Addresses"]},
            "keys": {one["KeyName"] for one in ec2.describe_key_pairs()["KeyPairs"]},
            "groups": {one["GroupId"] for one in groups if one["GroupName"] != "default"},
            "templates": {one["LaunchTemplateId"] for one in templates},
        }

    def live(self, death: Death | None, more: dict[str, str]) -> "subprocess.Popen[str]":
        """Begins a pool's life."""
        if death is None or death.action in CACHED:
            shutil.rmtree(self.cloud.cache)
        return begin(self.cloud, self.home, LIFE, more)

    def gc(self, more: dict[str, str]) -> "subprocess.Popen[str]":
        return begin_skyward(self.cloud, self.home, *GC_COMMAND, env=more)

    def run(self, who: str, death: Death | None) -> tuple[Told, list[str]]:
        """A program until its death, or to its end: what it told, and its requests."""
        program: subprocess.Popen[str] | None = None
        asked: list[str] = []

        def is_now(kind: str) -> bool:
            now = (kind, asked[-1], asked.count(asked[-1]))
            return death is not None and now == (death.kind, death.action, death.number)

        def refuse(request: Request) -> tuple[str, int] | None:
            asked.append(request.action)
            if not is_now(BEFORE_REQUEST) or program is None:
                return None
            kill(program)
            return "Unavailable", 503

        def after(request: Request) -> None:
            if is_now(AFTER_REQUEST) and program is not None:
                kill(program)

        self.cloud.faults = Faults(refuse=refuse, after=after)
        variables = {"LD_PRELOAD": str(self.library), "WRITES_DONE": str(self.writes)}
        variables |= death.variables if death else {}
        self.writes.unlink(missing_ok=True)
        program = self.live(death, variables) if who == DRIVER else self.gc(variables)
        told = finish(program)
        self.cloud.faults = Faults()
        return told, asked

    def record(self, who: str) -> list[Death]:
        """All deaths that it has room for."""
        told, asked = self.run(who, None)
        assert told.code == 0, told.err
        assert self.list_all() == self.at_work
        deaths = [
            Death(who, kind, number, action)
            for kind in (BEFORE_REQUEST, AFTER_REQUEST)
            for action, times in Counter(asked).items()
            for number in range(1, times + 1)
        ]
        for kind in MOMENTS_OF_WRITES.values():
            deaths += [Death(who, kind, number + 1) for number in range(self.writes.stat().st_size)]
        return deaths

    def leave_something(self) -> None:
        """A driver's death, for a gc. Its machines need not run anything."""
        self.cloud.machines.running = False
        told, _ = self.run(DRIVER, LEFT_FOR_GC)
        self.cloud.machines.running = True
        assert told.code == -signal.SIGKILL, told.err
        assert len(self.list_all()["machines"] - self.at_work["machines"]) == 2

    def die(self, death: Death) -> Found:
        found = Found(death)
        if death.who == GC:
            self.leave_something()
        told, _ = self.run(death.who, death)
        if told.code != -signal.SIGKILL:
            found.wrong = f"{death.who} ended with {told.code}: {told.out}{told.err}"
        found.standing = len(self.list_all()["machines"] - self.at_work["machines"])
        told, _ = self.run(GC, None)
        if told.code != 0:
            found.wrong = f"the last gc ended with {told.code}: {told.out}{told.err}"
        there = self.list_all()
        for kind in THINGS:
            found.left[kind] = len(there[kind] - self.at_work[kind])
            found.touched += len(self.at_work[kind] - there[kind])
        return found


def record(cloud: Cloud, directory: Path, library: Path) -> list[Death]:
    lane = Lane(cloud, directory, library)
    with lane.pool_at_work():
        # gc's first: a pool of which the ledger does not know all stays there for half an hour, and
        # each is a request more.
        lane.leave_something()
        return lane.record(GC) + lane.record(DRIVER)


def go_through(number: int, deaths: list[Death], directory: Path, library: Path) -> list[Found]:
    """In a process of its own, as the emulator is."""
    home = directory / f"lane-{number}"
    home.mkdir()
    with clouds(home / "machines", FIRST_NETWORK + number) as cloud:
        lane = Lane(cloud, home, library)
        with lane.pool_at_work():
            return [lane.die(death) for death in deaths]


def row_of(who: str, kind: str, deaths: list[Death], all_found: list[Found]) -> str:
    """The beginning of a row of the page, or all of it if all deaths were tried."""
    there = sum((death.who, death.kind) == (who, kind) for death in deaths)
    begin = f"\n| {who}, {kind} | {there} |"
    found = [one for one in all_found if (one.death.who, one.death.kind) == (who, kind)]
    if len(found) != there:
        return begin
    counts = [sum(one.standing for one in found)]
    counts += [sum(one.left[thing] for one in found) for thing in THINGS]
    counts.append(sum(one.touched for one in found))
    return f"{begin} " + " | ".join(map(str, counts)) + " |\n"


@pytest.mark.timeout(LIMIT_SECONDS)
def test_no_death_leaves_anything_behind_gc(cloud: Cloud, tmp_path: Path) -> None:
    library = tmp_path / "dying.so"
    source = Path(__file__).with_name("dying_at_writes.c")
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"], check=True
    )
    deaths = record(cloud, tmp_path, library)
    now = deaths if THIRD == "all" else deaths[int(THIRD) :: 3]
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(LANES, mp_context=spawn) as lanes:
        parts = [
            lanes.submit(go_through, number, now[number::LANES], tmp_path, library)
            for number in range(LANES)
        ]
        found = [one for part in parts for one in part.result()]
    rows = [row_of(who, kind, deaths, found) for who in (DRIVER, GC) for kind in KINDS]
    print("\n".join(rows))
    assert [one for one in found if one.wrong] == []
    assert [one for one in found if one.touched or one.left.total()] == []
    assert len(found) == len(now) and len(deaths) > 100
    assert sum(one.standing for one in found) > len(found) // 4, "deaths that mean nothing"
    page = (ROOT / "docs/leaks.md").read_text()
    for row in rows:
        assert row in page, f"docs/leaks.md does not have this row:\n{row}"
