"""Pools on doubles with real machines behind them, by the real programs: a whole life, and what is
left when the driver is killed, and when the reaper is killed with it."""

import contextlib
import json
import os
import select
import signal
import subprocess
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from machines_behind import MachinesBehind, why_not
from running_double import ROOT, Double, running

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

SKYWARD = os.environ.get("SKYWARD_CLI", str(ROOT / "build/release/bin/skyward"))
PYTHON = os.environ.get("SKYWARD_TEST_PYTHON", str(ROOT / ".venv/bin/python"))
LIMIT_SECONDS = 50.0
QUICK = {"boot": 1, "address_lag": 0.1, "ending": 0.5}
CLOUDS = {
    "digitalocean": "DigitalOcean()",
    "runpod": "RunPod()",
    "vast": "VastAI(trust='community')",
    "verda": "Verda()",
}
PROVIDERS = {
    "digitalocean": "digital_ocean",
    "runpod": "runpod",
    "vast": "vastai",
    "verda": "verda",
}
# Tests run side by side in processes gw0, gw1, …: the machines of each have addresses of their own.
NETWORK = 91 + int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))

START = """\
import json, os, sys, threading
import skyward as sky

def tell(**facts):
    print("FACTS " + json.dumps(facts), flush=True)

@sky.compute
def square(x):
    return x * x
"""


@dataclass
class Computer:
    """A computer of a user of one cloud."""

    cloud: str
    double: Double
    machines: MachinesBehind
    home: Path
    more: dict[str, str] = field(default_factory=dict)  # variables

    def environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT / "build/release/python"),
            "SKYWARD_AGENT": str(ROOT / "build/release/bin/skyward-agent"),
            "AWS_EC2_METADATA_DISABLED": "true",
            "HOME": str(self.home),
            "XDG_STATE_HOME": str(self.home / "state"),
            **self.double.environment,
            **self.more,
        }

    def start(self, *command: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            command,
            env=self.environment(),
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=(self.home / "stderr").open("w"),
            text=True,
        )

    def drive(self, program: str) -> "subprocess.Popen[str]":
        script = self.home / "program.py"
        pool = f"sky.ComputePool(provider=sky.{CLOUDS[self.cloud]}, nodes=2, cpu=1, spot='never')"
        script.write_text(START + textwrap.dedent(program).replace("POOL", pool))
        return self.start(PYTHON, str(script))

    def skyward(self, *arguments: str) -> str:
        return finish(self, self.start(SKYWARD, *arguments))

    def reapers(self) -> list[int]:
        """The reapers of this computer."""
        mark = f"XDG_STATE_HOME={self.home / 'state'}".encode()
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                command = (entry / "cmdline").read_bytes().split(b"\0")
                variables = (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if command[1:2] == [b"reap"] and mark in variables:
                found.append(int(entry.name))
        return found

    def standing(self) -> int:
        return sum(one["ended"] is None for one in self.double.control("GET", "machines"))

    def nothing_is_left(self) -> None:
        assert self.double.leftovers() == []
        assert self.skyward("pool", "list", "--json") == ""


def finish(computer: Computer, program: "subprocess.Popen[str]", heard: str = "") -> str:
    try:
        out, _ = program.communicate(timeout=LIMIT_SECONDS)
    finally:
        program.kill()
    errors = (computer.home / "stderr").read_text()
    assert program.returncode == 0, heard + out + errors
    return heard + out


def hear(computer: Computer, program: "subprocess.Popen[str]", word: str) -> dict[str, Any]:
    """What a driver tells: tell(WORD=…)."""
    assert program.stdout is not None
    for line in program.stdout:
        if line.startswith("FACTS ") and word in (facts := json.loads(line[6:])):
            return dict(facts)
    raise AssertionError((computer.home / "stderr").read_text())


def until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + LIMIT_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, f"not within {LIMIT_SECONDS} s: {what}"
        select.select([], [], [], 0.1)


@pytest.fixture(params=CLOUDS)
def computer(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Computer]:
    cloud = request.param
    with running(cloud) as double:
        double.turn(**QUICK)
        machines = MachinesBehind(double, tmp_path / "machines", NETWORK)
        home = tmp_path / "home"
        home.mkdir()
        with machines:
            here = Computer(cloud, double, machines, home)
            yield here
            until(lambda: here.reapers() == [], "the reaper has gone")
        assert machines.broken == []
        assert double.violations() == []


def test_a_pool_lives_and_leaves_nothing(computer: Computer) -> None:
    program = computer.drive(
        """
        with POOL as pool:
            tell(answer=sorted(sky.gather(*map(square, range(4))) >> pool))
            tell(nodes=len(square(2) @ pool))
            while not os.path.exists("go"):
                threading.Event().wait(0.05)
        """
    )
    assert hear(computer, program, "answer")["answer"] == [0, 1, 4, 9]
    assert hear(computer, program, "nodes")["nodes"] == 2
    assert computer.standing() == 2
    assert len(computer.reapers()) == 1
    (computer.home / "go").touch()
    finish(computer, program)
    computer.nothing_is_left()


WAITING = """
with POOL as pool:
    tell(open=len(square(2) @ pool))
    threading.Event().wait()
"""


def kill(*pids: int) -> None:
    handles = [os.pidfd_open(pid) for pid in pids]
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    for handle in handles:
        assert select.select([handle], [], [], 10)[0], "a killed program is alive"
        os.close(handle)


def test_the_reaper_ends_the_machines_of_a_driver_that_was_killed(computer: Computer) -> None:
    with computer.drive(WAITING) as program:
        hear(computer, program, "open")
        for reaper in computer.reapers():  # as when the service or session of the driver ends
            for asked in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
                os.kill(reaper, asked)
        kill(program.pid)
    assert computer.standing() == 2
    until(lambda: computer.double.leftovers() == [], "nothing is left")
    until(lambda: computer.reapers() == [], "the reaper has gone")
    computer.nothing_is_left()


def test_gc_ends_what_a_driver_and_its_reaper_left(computer: Computer) -> None:
    with computer.drive(WAITING) as program:
        hear(computer, program, "open")
        kill(program.pid, *computer.reapers())
    assert computer.standing() == 2
    told = computer.skyward("gc", "--json")
    rows = [json.loads(line) for line in told.splitlines()]
    assert sum(row["action"] == "removed" and row["kind"] == "instance" for row in rows) == 2, told
    computer.nothing_is_left()


@pytest.mark.parametrize("computer", ["verda"], indirect=True)
def test_a_run_leaves_nothing_even_when_it_is_killed(computer: Computer) -> None:
    provider = ["--provider", PROVIDERS[computer.cloud], "--spot", "never", "--cpu", "1"]
    command = [SKYWARD, "run", *provider, "--no-sync", "--", "sh", "-c"]
    assert finish(computer, computer.start(*command, "echo $HOME")) == "/root\n"
    computer.nothing_is_left()
    with computer.start(*command, "echo ready; exec sleep 600") as program:
        assert program.stdout is not None and program.stdout.readline() == "ready\n"
        kill(program.pid)
    assert computer.standing() == 1
    until(lambda: computer.double.leftovers() == [], "nothing is left")
    until(lambda: computer.reapers() == [], "the reaper has gone")
    computer.nothing_is_left()


@pytest.mark.parametrize("computer", ["runpod", "vast"], indirect=True)
def test_a_machine_ends_itself_with_its_own_key(computer: Computer) -> None:
    with computer.drive(WAITING) as program:
        hear(computer, program, "open")
        kill(program.pid, *computer.reapers())
    for machine in list(computer.machines.running):
        computer.machines.end_itself(machine)
    until(lambda: computer.double.leftovers() == [], "the machines have ended")


def test_what_a_user_asks_first(computer: Computer) -> None:
    checked = computer.skyward("providers", "check", PROVIDERS[computer.cloud])
    assert "MISSING" not in checked


def test_offers_of_all_clouds_are_in_one_list(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        ocean, *others = (stack.enter_context(running(cloud)) for cloud in CLOUDS)
        machines = MachinesBehind(ocean, tmp_path, NETWORK)
        variables = {name: value for one in others for name, value in one.environment.items()}
        computer = Computer("digitalocean", ocean, machines, tmp_path, variables)
        listed = computer.skyward("offers", "list", "--accelerator", "H100", "--json")
        offers = [json.loads(line) for line in listed.splitlines()]
        assert {offer["provider"] for offer in offers} == set(PROVIDERS.values())
        assert {offer["accelerator"] for offer in offers} == {"H100"}
        prices = [offer["price_on_demand"] for offer in offers]
        assert prices == sorted(prices)
        assert "no credentials for AWS: not asked" in (tmp_path / "stderr").read_text()
        computer.skyward("gc")
        assert [one.violations() for one in (ocean, *others)] == [[]] * len(CLOUDS)


CHEAPEST = """
with sky.ComputePool(
    provider=[sky.DigitalOcean(), sky.Verda()],
    selection="cheapest",
    accelerator="H100",
    spot="never",
) as pool:
    tell(provider=pool.provider.name, answer=square(3) >> pool)
"""


def test_a_pool_takes_the_cheapest_cloud_that_has_machines(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    with contextlib.ExitStack() as ends:
        doubles = {name: ends.enter_context(running(name)) for name in ("digitalocean", "verda")}
        for number, (name, double) in enumerate(doubles.items()):
            double.turn(**QUICK)
            behind = MachinesBehind(double, tmp_path / name, NETWORK + 8 * number)
            ends.enter_context(behind)
        here = Computer(
            "verda", doubles["verda"], behind, home, doubles["digitalocean"].environment
        )
        listed = here.skyward("offers", "list", "--accelerator", "H100", "--json")
        offers = [json.loads(line) for line in listed.splitlines()]
        known = [PROVIDERS[name] for name in doubles]
        cheapest = next(offer["provider"] for offer in offers if offer["provider"] in known)
        for expected in (cheapest, next(name for name in known if name != cheapest)):
            program = here.start(PYTHON, "-c", START + CHEAPEST)
            facts = hear(here, program, "provider")
            assert (facts["provider"], facts["answer"]) == (expected, 9)
            finish(here, program)
            doubles[next(n for n in doubles if PROVIDERS[n] == expected)].turn(capacity={"*": 0})
        until(lambda: here.reapers() == [], "the reapers have gone")
        for double in doubles.values():
            assert double.leftovers() == []
            assert double.violations() == []
