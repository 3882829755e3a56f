"""Machines that are reached by way of Session Manager: no port is open, and the AWS CLI (here a
stand-in, aws_cli.py) carries the SSH connections."""

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from cloud import Cloud
from machines import why_not
from moto.core import DEFAULT_ACCOUNT_ID
from moto.iam import iam_backends
from programs import drive, skyward

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

PLAIN_PATH = "/usr/bin:/bin"  # ssh and a shell
ROLE = "reports-to-session-manager"
NOTHING = {"instances": 0, "groups": 0, "volumes": 0}


@dataclass
class Programs:
    """A folder for PATH with what a test has installed."""

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        return {"PATH": f"{self.folder}:{PLAIN_PATH}"}

    def install(self, name: str, text: str) -> None:
        path = self.folder / name
        path.write_text(text)
        path.chmod(0o755)

    def sessions(self) -> list[str]:
        path = self.folder / "sessions"
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def programs(tmp_path: Path) -> Programs:
    """The CLI and its plugin are installed."""
    programs = Programs(tmp_path / "programs")
    programs.folder.mkdir()
    text = Path(__file__).with_name("aws_cli.py").read_text()
    programs.install("aws", f"#!{sys.executable}\n{text}")
    programs.install("session-manager-plugin", "#!/bin/sh\nexit 1\n")
    return programs


@pytest.fixture
def profile(cloud: Cloud) -> Iterator[str]:
    """What gives machines a role."""
    cloud.machines.running = True
    users = iam_backends[DEFAULT_ACCOUNT_ID]["aws"]
    users.create_role(ROLE, "{}", "/", None, "", [], "3600")
    yield str(users.create_instance_profile(ROLE, "/", [ROLE]).arn)
    users.remove_role_from_instance_profile(ROLE, ROLE)
    users.delete_instance_profile(ROLE)
    users.delete_role(ROLE)


def life(profile: str) -> str:
    return f"""
@sky.compute
def square(x):
    return x * x

try:
    with pool(
        nodes=2, machine="m5.large",
        provider={{"use_ssm": True, "instance_profile_arn": {profile!r}}},
    ) as p:
        tell(answers=list(sky.gather(square(2), square(3)) >> p))
except sky.SkywardError as error:
    tell(text=str(error))
"""


def test_a_pool_lives_without_an_open_port(
    cloud: Cloud, tmp_path: Path, programs: Programs, profile: str
) -> None:
    told = drive(cloud, tmp_path, life(profile), programs.environment)
    assert told.facts.get("answers") == [4, 9], told.out + told.err
    machines = [one.split() for one in programs.sessions()]
    assert {region for _, region in machines} == {"us-east-1"}
    # The first is refused, as the machine has not reported yet: Skyward retries.
    times = Counter(machine for machine, _ in machines)
    assert len(times) == 2 and min(times.values()) >= 2
    rules = [
        one.parameters for one in cloud.requests if one.action == "AuthorizeSecurityGroupIngress"
    ]
    assert [rule["IpPermissions.1.Groups.1.GroupId"] for rule in rules] == [rules[0]["GroupId"]]
    assert cloud.counts()["CheckIp"] == 0, "nobody needs this computer's address"
    (launch,) = [one.parameters for one in cloud.requests if one.action == "RunInstances"]
    assert launch["IamInstanceProfile.Arn"] == profile
    assert cloud.leftovers() == NOTHING


def test_what_the_credentials_may_not_do_is_told(
    cloud: Cloud, tmp_path: Path, programs: Programs, profile: str
) -> None:
    (programs.folder / "denied").touch()
    text = drive(cloud, tmp_path, life(profile), programs.environment).facts["text"]
    assert "these credentials may not open a session there" in text, text
    assert "AccessDeniedException" in text and "ssm:StartSession" in text, text
    assert cloud.leftovers() == NOTHING
    assert skyward(cloud, tmp_path, "pool", "list", "--json").out == ""


@pytest.mark.parametrize("missing", ["aws", "session-manager-plugin"])
def test_a_missing_program_is_told_before_anything_is_launched(
    cloud: Cloud, tmp_path: Path, programs: Programs, profile: str, missing: str
) -> None:
    (programs.folder / missing).unlink()
    text = drive(cloud, tmp_path, life(profile), programs.environment).facts["text"]
    assert f"use_ssm=True needs the program {missing} on this computer" in text, text
    assert "leave use_ssm out" in text, text
    assert cloud.counts()["RunInstances"] == cloud.counts()["CreateSecurityGroup"] == 0


def test_machines_without_a_role_are_refused(
    cloud: Cloud, tmp_path: Path, programs: Programs, profile: str
) -> None:
    told = drive(
        cloud, tmp_path, life(profile).replace(repr(profile), "None"), programs.environment
    )
    assert "only machines with a role" in told.facts["text"], told.facts["text"]
    assert "instance_profile_arn=" in told.facts["text"]
    assert cloud.counts()["RunInstances"] == cloud.counts()["CreateSecurityGroup"] == 0
