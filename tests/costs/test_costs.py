"""A task must not cost more than it does: instructions and system calls, which a busy machine
changes little. After a change that makes them fewer, or more for a good reason, write the new
figures down: `python tests/costs/count.py --record`."""

import json
import platform
import shutil

import count
import pytest

GROWTH = 1.10
SLACK_CALLS = 0.5
"""Of the system calls of a task, some come now and then."""
TRIES = 6
"""A busy machine wakes processes more often, and an agent looks at busy workers by the clock: the
least of several counts is the program's."""

recorded = json.loads(count.RECORDED.read_text())

pytestmark = pytest.mark.skipif(
    platform.machine() != recorded["machine"]
    or platform.python_version_tuple()[:2] != tuple(recorded["python"].split(".")[:2]),
    reason=f"the figures are of Python {recorded['python']} on {recorded['machine']}",
)


def needs(tool):
    return pytest.mark.skipif(shutil.which(tool) is None, reason=f"{tool} is not installed")


@needs("valgrind")
def test_instructions_of_a_task(tmp_path):
    before = recorded["instructions"]
    echo = count.instructions(tmp_path, "echo", count.echo)
    commands = {
        "driver": count.driver("gather"),
        "map": count.driver("map"),
        "submit": count.driver("submit"),
        "agent": count.agent(tmp_path),
        "worker": count.worker,
        "plain worker": count.plain_worker,
    }
    for name, command in commands.items():
        usual = before[name] / before["echo"]
        for _ in range(TRIES):
            now = count.instructions(tmp_path, name, command)
            if now <= GROWTH * usual * echo:
                break
        assert now <= GROWTH * usual * echo, (
            f"{name}: {now:,.0f} instructions a task, {now / echo:.2f} times those of a bare pickle"
            f" echo; recorded are {usual:.2f} times"
        )


@needs("strace")
def test_system_calls_of_a_task(tmp_path):
    before = recorded["system calls"]
    commands = {
        "call": count.driver("call"),
        "worker": count.worker,
        "plain worker": count.plain_worker,
    }
    for name, command in commands.items():
        limit = GROWTH * before[name] + SLACK_CALLS
        for _ in range(TRIES):
            now = count.system_calls(tmp_path, name, command)
            if now <= limit:
                break
        assert now <= limit, f"{name}: {now:.1f} system calls a task, at most {limit:.1f}"
