"""Machines of the other architecture, and the agent that is cross-compiled for them, emulated.

The workers are this machine's Python: the emulator hands its own system calls, and with them every
program that the agent starts, to the kernel of this machine.
"""

import os
import platform
import shutil
import subprocess
import sys

import pytest
from skyward.base.programs import agent_path, fetch_uv, other_agents

import skyward as sky

OTHER = {"x86_64": "aarch64", "aarch64": "x86_64"}[platform.machine()]
ARCHITECTURE = {"aarch64": "arm64", "x86_64": "x86_64"}[OTHER]
NUMBER = {"aarch64": "\\xb7", "x86_64": "\\x3e"}[OTHER]
QEMU = shutil.which(f"qemu-{OTHER}-static")
AGENT = other_agents().get(ARCHITECTURE)

emulated = pytest.mark.skipif(
    QEMU is None or AGENT is None,
    reason=f"no qemu-{OTHER}-static on PATH: apt-get install qemu-user-static"
    if QEMU is None
    else f"there is no agent for {OTHER}: ./dev cross builds it",
)

# What follows in $0 runs with the emulator behind every program for the other architecture, in a
# user namespace of its own, on what says that it is such a machine.
MACHINE = f"""
set -e
mount -t binfmt_misc none "$EMULATION/binfmt"
magic='\\x7fELF\\x02\\x01\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x02\\x00{NUMBER}\\x00'
ones='\\xff\\xff\\xff\\xff\\xff\\xff\\xff'
rule=":{OTHER}:M::$magic:$ones\\x00$ones\\xff\\xfe\\xff\\xff\\xff:{QEMU}:F"
printf '%s' "$rule" >"$EMULATION/binfmt/register"
PATH=$EMULATION:$PATH
exec sh -c "$0"
"""
NAMESPACE = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", MACHINE]


@sky.compute
def square(x):
    return x * x


@sky.compute
def size_and_place(data):
    return len(data), os.environ.get("EMULATION")


@pytest.fixture
def emulation(tmp_path, monkeypatch):
    """A folder with the commands of a machine of the other architecture."""
    folder = tmp_path / "machine"
    (folder / "binfmt").mkdir(parents=True)
    uname = folder / "uname"
    uname.write_text(f'#!/bin/sh\n[ "$1" = -m ] || printf "Linux "\necho {OTHER}\n')
    uname.chmod(0o700)
    monkeypatch.setenv("EMULATION", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder


@emulated
def test_the_agent_runs_tasks(tmp_path, monkeypatch):
    version = subprocess.check_output([QEMU, AGENT, "--version"], text=True)
    assert version == subprocess.check_output([agent_path(), "--version"], text=True)
    wrapper = tmp_path / "agent"
    wrapper.write_text(f'#!/bin/sh\nexec {QEMU} {AGENT} "$@"\n')
    wrapper.chmod(0o700)
    monkeypatch.setenv("SKYWARD_AGENT", str(wrapper))
    data = bytes(3_000_000)
    with sky.ComputePool(nodes=2, display="quiet") as pool:
        assert sky.gather(*map(square, range(6))) >> pool == (0, 1, 4, 9, 16, 25)
        assert [size for size, _ in size_and_place(data) @ pool] == [len(data)] * 2
        with pytest.raises(TypeError, match="can't multiply"):
            _ = square("x") >> pool


@emulated
def test_each_machine_of_a_pool_gets_the_agent_that_is_for_it(emulation):
    if subprocess.run([*NAMESPACE, "true"], stderr=subprocess.DEVNULL, check=False).returncode:
        pytest.skip("this kernel lets no user namespace have an emulator of its own (Linux 6.7)")
    provider = sky.Command(commands=[NAMESPACE, ["sh", "-c"]], python=sys.executable)
    with sky.ComputePool(provider=provider, nodes=2, display="quiet") as pool:
        assert sky.gather(*map(square, range(6))) >> pool == (0, 1, 4, 9, 16, 25)
        assert [size for size, _ in size_and_place(bytes(3_000_000)) @ pool] == [3_000_000] * 2
    uploaded = {path.read_bytes()[18] for path in emulation.parent.glob("cache/**/skyward-agent")}
    assert len(uploaded) == 2


def test_a_machine_without_an_agent_is_refused_in_words(emulation, monkeypatch):
    monkeypatch.setattr("skyward.pool.request.other_agents", dict)
    there = ["sh", "-c", 'PATH=$EMULATION:$PATH; exec sh -c "$0"']
    provider = sky.Command(commands=[there], python=sys.executable)
    with pytest.raises(sky.ProvisioningError) as caught:
        sky.ComputePool(provider=provider, display="quiet").__enter__()
    known = platform.machine()
    assert f"it is a {OTHER} machine, but this installation has agents only for {known}" in str(
        caught.value
    )
    assert "./dev cross" in str(caught.value)


def test_nothing_is_rented_for_which_there_is_no_agent(monkeypatch):
    monkeypatch.setattr("skyward.pool.request.other_agents", dict)
    provider = sky.AWS(region="eu-west-1")
    with pytest.raises(sky.SkywardError, match=f"has no agent for {ARCHITECTURE} machines"):
        sky.ComputePool(provider=provider, architecture=ARCHITECTURE, display="quiet").__enter__()


def test_uv_for_such_machines_is_fetched_once(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    calls = tmp_path / "calls"
    uv = tmp_path / "uv-here"
    uv.write_text(
        f'#!/bin/sh\necho "$@" >>{calls}\n'
        'for word; do [ "$last" = --target ] && mkdir -p "$word/bin" && echo >"$word/bin/uv"\n'
        "last=$word; done\n"
    )
    uv.chmod(0o700)
    monkeypatch.setattr("skyward.base.programs.find_uv", lambda: str(uv))
    rename, written = os.rename, []
    monkeypatch.setattr(os, "fsync", lambda file: written.append(os.fstat(file).st_ino))

    def checked(old, new):
        assert written == [os.stat(f"{old}/bin/uv").st_ino], "a power cut would leave it empty"
        rename(old, new)

    monkeypatch.setattr(os, "rename", checked)
    fetched = [fetch_uv(ARCHITECTURE) for _ in range(2)]
    assert fetched == [str(tmp_path / "skyward" / "programs" / ARCHITECTURE / "bin" / "uv")] * 2
    (line,) = calls.read_text().splitlines()
    assert f"--python-platform {OTHER}-unknown-linux-gnu" in line


def test_the_engine_asks_for_uv_for_such_machines(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    kept = tmp_path / "skyward" / "programs" / ARCHITECTURE / "bin" / "uv"
    kept.parent.mkdir(parents=True)
    kept.touch()
    asked = [sys.executable, "-m", "skyward.base.uv_for", ARCHITECTURE]
    assert subprocess.check_output(asked, text=True) == f"{kept}\n"


def test_without_uv_for_such_machines_they_look_for_it(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("skyward.base.programs.find_uv", lambda: "/bin/false")
    assert fetch_uv(ARCHITECTURE) is None
