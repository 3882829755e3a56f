"""The driver is killed, -9, at its requests, and one gc cleans up after it: against an emulator
that nobody here wrote, with the real ledger. (All boundaries, with every fault, are gone through
on virtual time in skyward/provider/aws/aws_test.cc.)"""

import contextlib
import os
import signal
from pathlib import Path

import pytest
from cloud import Cloud, Faults, Request
from machines import why_not
from programs import begin, skyward

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

LIFE = """
@sky.compute
def square(x):
    return x * x

with pool(nodes=2, machine="m5.large") as p:
    tell(answer=square(3) >> p)
"""
ACTIONS = [
    "CreateSecurityGroup",
    "AuthorizeSecurityGroupIngress",
    "RunInstances",
    "DescribeInstances",
    "TerminateInstances",
    "DeleteSecurityGroup",
]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("action", ACTIONS)
def test_death_leaves_nothing_behind_gc(
    cloud: Cloud, tmp_path: Path, action: str, after: bool
) -> None:
    cloud.machines.running = True
    driver = None

    def kill(request: Request) -> None:
        if request.action == action and driver is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(driver.pid, signal.SIGKILL)

    cloud.faults = Faults(after=kill) if after else Faults(before=kill)
    driver = begin(cloud, tmp_path, LIFE)
    _, err = driver.communicate(timeout=60)
    assert driver.returncode == -signal.SIGKILL, err
    cloud.faults = Faults()
    told = skyward(cloud, tmp_path, "gc", "--region", "us-east-1", "--json")
    assert told.code == 0, told.out + told.err
    assert cloud.leftovers() == {"instances": 0, "groups": 0, "volumes": 0}
    assert all(row["action"] == "removed" for row in told.rows())
