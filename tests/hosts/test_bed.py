"""The bed itself: its hosts are as separate as machines are, and leave nothing."""

import subprocess
import sys
from pathlib import Path

import pytest
from bed import HERE, Bed, Host, run, until


@pytest.fixture(scope="module")
def pair(bed: Bed) -> tuple[Host, Host]:
    first, second = bed.add("a1", "a2")
    (bed.desk_home / ".ssh/known_hosts").write_text(bed.known_hosts())
    return first, second


def ssh(
    host: Host, command: str, user: str = "root", patience: int = 20
) -> subprocess.CompletedProcess[str]:
    bed = host.bed
    options = ["-F", "none", "-i", str(bed.key), "-l", user]
    for option in (
        "BatchMode=yes",
        "StrictHostKeyChecking=yes",
        "GlobalKnownHostsFile=/dev/null",
        f"UserKnownHostsFile={bed.desk_home}/.ssh/known_hosts",
        f"ConnectTimeout={patience}",
    ):
        options += ["-o", option]
    return subprocess.run(
        bed.desk(["ssh", *options, host.address, command]),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_hosts_share_neither_names_files_nor_processes(pair: tuple[Host, Host]) -> None:
    first, second = pair
    assert ssh(first, "hostname; whoami; touch /usr/bin/own /srv/own; echo $$ >/run/own").stdout
    assert ssh(second, "hostname").stdout == "a2\n"
    assert ssh(second, "ls /usr/bin/own /srv/own /run/own").returncode != 0
    assert not Path("/usr/bin/own").exists()
    assert ssh(first, "pwd; id -u", user="plain").stdout == "/home/plain\n4177\n"
    assert first.run("ls -d /work /home/plain 2>/dev/null").stdout == "/home/plain\n"


def test_hosts_reach_each_other_and_nothing_else(pair: tuple[Host, Host]) -> None:
    first, second = pair
    dial = "timeout 3 bash -c 'exec 3<>/dev/tcp/%s/22 && head -c 4 <&3'"
    assert ssh(first, dial % second.address).stdout == "SSH-"
    assert ssh(first, dial % "10.77.0.200").returncode == 124, "an address of nobody is silent"


def test_a_cut_is_silent_and_heals(pair: tuple[Host, Host]) -> None:
    first, second = pair
    first.cut()
    refused = ssh(first, "true", patience=2)
    assert refused.returncode == 255 and "timed out" in refused.stderr
    assert ssh(second, "true").returncode == 0
    first.heal()
    assert ssh(first, "true").returncode == 0


def test_another_key_at_the_same_address_is_refused(pair: tuple[Host, Host]) -> None:
    first, _ = pair
    first.kill()
    key, public = (first.home / f"upper/etc/ssh/bed_key{end}" for end in ("", ".pub"))
    old = key.read_bytes(), public.read_bytes()
    first.new_key()
    first.start()
    assert "HOST IDENTIFICATION HAS CHANGED" in ssh(first, "true").stderr
    first.kill()
    key.write_bytes(old[0])
    public.write_bytes(old[1])
    first.start()
    assert ssh(first, "cat /srv/own; echo back").stdout == "back\n", "the disk is the same"


def test_a_power_cut_ends_every_process(pair: tuple[Host, Host]) -> None:
    _, second = pair
    assert ssh(second, "setsid sleep 1000 >/dev/null 2>&1 </dev/null & echo").returncode == 0

    def sleepers() -> list[int]:
        return [pid for pid, line in second.processes().items() if line == "sleep 1000"]

    until(sleepers, 10, "the process that was left behind begins")
    (sleeper,) = sleepers()
    second.kill()
    assert not Path(f"/proc/{sleeper}").exists()
    second.start()
    assert second.processes() == {}


def test_closing_leaves_nothing() -> None:
    bed = Bed()
    try:
        (host,) = bed.add("gone")
        first = host.first
    finally:
        bed.close()
    assert not bed.directory.exists()
    assert not Path(f"/proc/{first}").exists()
    assert f"{bed.prefix}-gone" not in run("ip", "netns", "list")
    assert str(bed.directory) not in Path("/proc/mounts").read_text()


def test_a_killed_test_leaves_nothing() -> None:
    program = (
        "from bed import Bed; bed = Bed(); host, = bed.add('x'); print(bed.prefix, host.first)"
    )
    test = subprocess.Popen(
        [sys.executable, "-c", program + "; print(bed.directory, flush=True); input()"],
        cwd=HERE,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert test.stdout is not None
    prefix, first = test.stdout.readline().split()
    directory = Path(test.stdout.readline().strip())
    assert directory.exists() and Path(f"/proc/{first}").exists()
    test.kill()
    test.communicate(timeout=10)
    until(lambda: not directory.exists(), 20, "the directory of the bed is gone")
    until(lambda: not Path(f"/proc/{first}").exists(), 5, "the host is gone")
    assert prefix not in run("ip", "netns", "list")
