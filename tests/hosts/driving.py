"""Programs that open pools, run at the driver's desk of a bed."""

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bed import Bed, Host, end_with_parent, until

LIMIT_SECONDS = 120.0

START = """\
import json, os, sys, time
import skyward as sky
BED = json.loads(os.environ["BED"])

def provider(**changes):
    settings = {"hosts": BED["hosts"], "user": "root", "identity_file": BED["key"],
                "host_keys": BED["known_hosts"], "config": BED["config"]}
    return sky.SSH(**{**settings, **changes})

def tell(**facts):
    print("FACTS " + json.dumps(facts), flush=True)

def pool(nodes, **options):
    changes = options.pop("provider", {})
    options.setdefault("display", "quiet")
    return sky.ComputePool(provider(**changes), nodes=nodes, **options)
"""


Begin = Callable[[str, Path], "subprocess.Popen[str]"]
"""Starts a program in a folder, which is where a suite has its drivers."""


@dataclass
class Told:
    """What a program left: its facts, all that it printed, and how it ended."""

    facts: dict[str, Any]
    out: str
    err: str
    code: int


def begin(
    bed: Bed,
    program: str,
    hosts: Sequence[Host],
    folder: Path,
    env: Mapping[str, str] | None = None,
    known: str | None = None,
) -> "subprocess.Popen[str]":
    """Starts a program at the desk. Its ssh knows the keys of all hosts, or `known` lines."""
    (folder / "ssh_config").write_text("")  # whatever this machine's user has set for ssh
    known_hosts = folder / "known_hosts"
    known_hosts.write_text(bed.known_hosts() if known is None else known)
    told = {
        "hosts": [host.address for host in hosts],
        "key": str(bed.key),
        "known_hosts": str(known_hosts),
        "config": str(folder / "ssh_config"),
    }
    state = bed.directory / "driver"
    variables = {
        **{k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "UV_", "XDG_"))},
        "HOME": str(bed.desk_home),
        "XDG_CACHE_HOME": str(state / "cache"),
        "XDG_STATE_HOME": str(state / "state"),
        "BED": json.dumps(told),
        **(env or {}),
    }
    return start(START + textwrap.dedent(program), folder, variables, bed.desk)


def start(
    program: str,
    folder: Path,
    variables: Mapping[str, str],
    command: Callable[[list[str]], list[str]] = list,
    python: str = sys.executable,
) -> "subprocess.Popen[str]":
    """Starts a program in the folder. `command`: makes its words those of another place."""
    script = folder / "program.py"
    script.write_text(program)
    return subprocess.Popen(
        command([python, str(script)]),
        env=variables,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=end_with_parent,
    )


# Runs `skyward run` on the hosts of the bed.
RUN = """
import subprocess

names = {"hosts": "HOSTS", "key": "IDENTITY_FILE", "known_hosts": "HOST_KEYS", "config": "CONFIG"}
for name, variable in names.items():
    value = BED[name] if isinstance(BED[name], str) else "\\n".join(BED[name])
    os.environ["SKYWARD_SSH_" + variable] = value
os.environ["SKYWARD_SSH_USER"] = "root"

def run(*words, stdout=subprocess.PIPE):
    command = [sys.executable, "-m", "skyward", "run", "--provider", "ssh", *words]
    return subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True)
"""
# With the START of a suite, which has `pool`, `tell` and `where`.
# Both nodes of a pool work; what happens meanwhile is up to the test, which then makes
# the file "go". They work once more after that, so that no lost node is left at the end.
WORKS = """
@sky.compute
def work(seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(0.05)  # on a worker
    return True

with pool(2, heartbeat_timeout=5, reconnect_timeout=5, display="log") as p:
    before = where() @ p
    print("READY", json.dumps(before), flush=True)
    has_happened = False
    while not has_happened:
        has_happened = os.path.exists("go")
        results = work(SECONDS) @ p
    tell(before=before, after=where() @ p, results=results)
"""
# A pool that waits to be killed.
WAITS = """
with pool(2) as p:
    print("READY", json.dumps(where() @ p), flush=True)
    __import__("signal").pause()
"""
SWEEPS = 'os.execvp(sys.executable, [sys.executable, "-m", "skyward", "gc"])'


def ready(driver: "subprocess.Popen[str]") -> Any:
    """What a program says when its pool is open."""
    assert driver.stdout is not None
    line = driver.stdout.readline()
    assert line.startswith("READY "), line + finish(driver).err
    return json.loads(line.removeprefix("READY "))


def die_in_a_pool(begin: Begin, folder: Path) -> None:
    """Kills a driver whose pool is open."""
    driver = begin(WAITS, folder)
    ready(driver)
    driver.kill()
    driver.wait()


def sweep(begin: Begin, folder: Path, name: str) -> str:
    """What `skyward gc` says, which ends well and names this provider."""
    folder.mkdir()
    driver = begin(SWEEPS, folder)
    out, err = driver.communicate(timeout=60)
    assert driver.returncode == 0, out + err
    assert name in out, out
    return out


def finish(driver: "subprocess.Popen[str]", limit: float = LIMIT_SECONDS) -> Told:
    """Waits for a program, whatever becomes of it; a hang fails."""
    try:
        out, err = driver.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        driver.kill()
        out, err = driver.communicate()
        raise AssertionError(f"the program hung for {limit} s; it printed:\n{out}\n{err}") from None
    facts: dict[str, Any] = {}
    for line in out.splitlines():
        if line.startswith("FACTS "):
            facts.update(json.loads(line[6:]))
    return Told(facts, out, err, driver.returncode)


def succeed(driver: "subprocess.Popen[str]", limit: float) -> Told:
    """Waits for a program that must end well."""
    told = finish(driver, limit)
    assert told.code == 0, f"exit code {told.code}\n{told.out}\n{told.err}"
    return told


def drive(bed: Bed, program: str, hosts: Sequence[Host], folder: Path, **options: Any) -> Told:
    """Runs a program that must end well; its facts."""
    limit = options.pop("limit", LIMIT_SECONDS)
    return succeed(begin(bed, program, hosts, folder, **options), limit)


def nothing_is_left_on(hosts: Sequence[Host], seconds: float = 15.0) -> None:
    """Fails when a process of ours outlives its pool for so long."""
    for host in hosts:
        if host.first:
            until(
                lambda host=host: not host.processes(),  # type: ignore[misc]
                seconds,
                f"processes left on {host.name}: {host.processes()}",
            )


def agent_of(host: Host) -> int:
    """The daemon, not the relay of the connection to it: a daemon's parent is the first process."""

    def parent_of(pid: int) -> int:
        try:
            return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:  # a session that has just ended
            return 0

    agents = [
        pid
        for pid, line in host.processes().items()
        if " connect --pool " in line and parent_of(pid) == host.first
    ]
    assert len(agents) == 1, (agents, host.processes())
    return agents[0]
