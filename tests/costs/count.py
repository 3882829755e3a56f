"""Instructions and system calls per task: counts, which a busy machine does not change.

    python tests/costs/count.py            prints them
    python tests/costs/count.py --record   and writes recorded.json, which test_costs.py holds on to

Each figure is the difference of two runs that differ in the number of tasks. Instructions are
compared in units of a bare pickle echo, counted beside them: interpreters are not built alike."""

import json
import os
import platform
import re
import shlex
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from skyward.base.programs import PACKAGE, agent_path

HERE = Path(__file__).resolve().parent
RECORDED = HERE / "recorded.json"
WORKER = PACKAGE / "worker" / "start.py"
PLAIN_WORKER = HERE.parents[1] / "python" / "skyward" / "worker" / "start.py"
"""Among the sources: without its compiled half."""
AGENT = agent_path()
ECHO = """
import pickle, sys
for i in range(int(sys.argv[1])): pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(i, 5)), 5))
"""


def instructions(folder, name, command):
    """Of a command that gets a number of tasks: instructions for each task more."""

    def count(tasks):
        out = folder / f"{name}.{tasks}"
        for last in folder.glob(f"{out.name}.*"):
            last.unlink()
        tool = ["--tool=cachegrind", "--cache-sim=no", f"--cachegrind-out-file={out}.%p"]
        run(command(tasks, ["valgrind", "-q", *tool]))
        processes = list(folder.glob(f"{out.name}.*"))
        assert processes, f"valgrind counted no process of {name}"
        return sum(map(counted, processes))

    return difference(count, 200, 1000)


def counted(out):
    return int(re.search(r"^summary: (\d+)", out.read_text(errors="replace"), re.M)[1])


def system_calls(folder, name, command):
    """The same for system calls, of all processes that it starts."""

    def count(tasks):
        out = folder / f"{name}.{tasks}.calls"
        run(command(tasks, ["strace", "-f", "-qq", "-c", "-U", "calls,name", "-o", str(out)]))
        rows = re.findall(r"^\s*(\d+)\s+(\w+)$", out.read_text(), re.M)
        assert rows, f"strace counted no call of {name}"
        return sum(int(calls) for calls, name in rows if name != "total")

    return difference(count, 50, 250)


def difference(count, few, many):
    with ThreadPoolExecutor() as both:
        first, second = both.map(count, (few, many))
    return (second - first) / (many - few)


def run(command):
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONHASHSEED": "0", "PYTHONDEVMODE": "", "PYTHONWARNINGS": ""},
    )
    if done.returncode != 0:
        raise RuntimeError(f"{command}: {done.stdout}{done.stderr}")


def echo(tasks, tool):
    return [*tool, sys.executable, "-c", ECHO, str(tasks)]


def driver(kind):
    return lambda tasks, tool: [
        *tool, sys.executable, str(HERE / "workload.py"), kind, str(tasks)
    ]  # fmt: skip


def agent(folder):
    """A gather again, counting the agent instead of the driver."""

    def command(tasks, tool):
        wrapper = folder / f"agent-for-{tasks}"
        wrapper.write_text(f'#!/bin/sh\nexec {shlex.join([*tool, AGENT])} "$@"\n')
        wrapper.chmod(0o700)
        return ["env", f"SKYWARD_AGENT={wrapper}", *driver("gather")(tasks, [])]

    return command


def worker(tasks, tool, script=WORKER):
    program = str(HERE / "worker_workload.py")
    return [sys.executable, program, str(tasks), *tool, sys.executable, str(script)]


def plain_worker(tasks, tool):
    return worker(tasks, tool, PLAIN_WORKER)


def all_counts():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        return {
            "instructions": {
                "echo": instructions(folder, "echo", echo),
                "driver": instructions(folder, "gather", driver("gather")),
                "map": instructions(folder, "map", driver("map")),
                "submit": instructions(folder, "submit", driver("submit")),
                "agent": instructions(folder, "agent", agent(folder)),
                "worker": instructions(folder, "worker", worker),
                "plain worker": instructions(folder, "plain worker", plain_worker),
            },
            "system calls": {
                "call": system_calls(folder, "call", driver("call")),
                "worker": system_calls(folder, "worker", worker),
                "plain worker": system_calls(folder, "plain worker", plain_worker),
            },
        }


if __name__ == "__main__":
    counts = all_counts()
    for what, figures in counts.items():
        for name, figure in figures.items():
            print(f"{name:12} {figure:10,.1f} {what} a task")
    if "--record" in sys.argv:
        kind = {"python": platform.python_version(), "machine": platform.machine()}
        RECORDED.write_text(json.dumps(kind | counts, indent=1) + "\n")
