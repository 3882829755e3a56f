"""What engines say before they start; `./dev engines` tests the engines themselves."""

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from skyward.call.pending import PendingCompute
from skyward.distributed.meeting import can_listen_at
from skyward.engines.members import Members
from skyward.engines.survey import (
    NodeFacts,
    look,
    python_version,
    require_here,
    require_there,
    version_of,
)
from skyward.task.processes import ChildProgram, private_folder
from waiting import wait_until

import skyward as sky

CLOUDPICKLE = version_of("cloudpickle")
NODE = NodeFacts(
    node=1,
    address="10.0.0.2",
    python=python_version(),
    executable="/usr/bin/python3",
    versions={"cloudpickle": CLOUDPICKLE},
    cpus=2,
    accelerators=0,
)
VERB = "sky.engine(pool)"


def refusal(*nodes):
    with pytest.raises(sky.ConfigurationError) as caught:
        require_there(VERB, ["cloudpickle"], "cloudpickle[all]", nodes)
    return str(caught.value)


def test_equal_versions_are_accepted():
    require_there(VERB, ["cloudpickle"], "cloudpickle", [NODE, replace(NODE, node=2)])


def test_another_version_on_a_node_is_refused():
    text = refusal(NODE, replace(NODE, node=2, versions={"cloudpickle": "0.1"}))
    assert f"node 2 has cloudpickle 0.1, but this program has cloudpickle {CLOUDPICKLE}" in text
    assert f"pip=['cloudpickle[all]=={CLOUDPICKLE}']" in text
    assert len(text.splitlines()) == 3


def test_a_package_that_a_node_lacks_is_named_with_the_version_to_install():
    text = refusal(replace(NODE, versions={"cloudpickle": None}))
    assert "cloudpickle is not installed on node 1 (/usr/bin/python3)" in text
    assert f"pip=['cloudpickle[all]=={CLOUDPICKLE}']" in text


def test_another_python_is_refused():
    assert "node 1 has Python 3.1.4" in refusal(replace(NODE, python="3.1.4"))


def test_another_patch_release_of_python_is_accepted():
    patched = python_version().rpartition(".")[0] + ".99"
    require_there(VERB, ["cloudpickle"], "cloudpickle", [replace(NODE, python=patched)])


def test_several_nodes_without_a_network_are_refused_and_one_is_not():
    alone = replace(NODE, missing_network="command")
    require_there(VERB, ["cloudpickle"], "cloudpickle", [alone])
    assert "the 2 nodes of this pool cannot reach each other" in refusal(alone, alone)


def test_a_node_that_cannot_listen_at_its_address_is_refused():
    text = refusal(NODE, replace(NODE, node=2, has_address=False))
    assert "node 2 cannot listen at 10.0.0.2, its address in this pool" in text
    assert "addresses=" in text and len(text.splitlines()) == 3


@pytest.mark.parametrize(
    ("shown", "count"),
    [(None, 4), ("0", 1), ("2,3", 2), ("", 0), ("-1", 0), ("NoDevFiles", 0), ("1,-1,2", 1)]
    + [("GPU-1a, GPU-2b", 2), ("MIG-5c", 1), ("0,1,2,3,4,5", 4)],
)
def test_a_node_offers_the_gpus_that_its_worker_sees(monkeypatch, shown, count):
    place = {"node": 0, "total_nodes": 1, "accelerators": ["H100-80GB"] * 4}
    monkeypatch.setenv("COMPUTE_POOL", json.dumps(place))
    if shown is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", shown)
    assert look(()).accelerators == count


def test_a_node_offers_what_its_agent_may_use(monkeypatch):
    place = {"node": 0, "total_nodes": 2, "peers": [{"private_ip": "127.0.0.1"}] * 2}
    monkeypatch.setenv("COMPUTE_POOL", json.dumps(place))
    monkeypatch.setenv("SKYWARD_CPUS", "1")
    monkeypatch.setenv("SKYWARD_MEMORY", "4096")
    facts = look(())
    assert (facts.cpus, facts.memory) == (1, 2048)


def test_an_address_of_another_machine_is_none_to_listen_at():
    assert can_listen_at("127.0.0.1")
    assert not can_listen_at("198.51.100.1")  # nothing is sent there: it is for documentation


def test_a_package_that_this_program_lacks_is_refused_with_the_command_that_installs_it():
    with pytest.raises(sky.ConfigurationError) as caught:
        require_here(VERB, ["cloudpickle", "no-such-package"], "no-such-package>=2", "as a client")
    text = str(caught.value)
    assert "no-such-package is not installed for this program" in text
    with pytest.raises(
        sky.ConfigurationError, match="no-such-one and no-such-two are not installed"
    ):
        require_here(VERB, ["no-such-one", "no-such-two"], "them", "here")
    assert f"{sys.executable} -m pip install 'no-such-package>=2'" in text


@pytest.mark.skipif(version_of("distributed") is not None, reason="Dask is installed here")
def test_a_ray_without_tokens_is_refused(monkeypatch):
    from skyward.engines import ray_cluster

    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(__version__="2.40.0"))
    monkeypatch.setitem(sys.modules, "ray._raylet", SimpleNamespace())
    with pytest.raises(
        sky.ConfigurationError, match="does not support tokens.*nothing was started"
    ):
        ray_cluster._require_tokens()


class _Relay:
    """A command that says it is connected, and then echoes."""

    core = SimpleNamespace(
        shell_of=lambda node: (["sh", "-c"], {}, ""),
    )


def test_a_forward_serves_only_so_many_connections_at_a_time(monkeypatch):
    from skyward.engines import forward
    from skyward.engines.relay import READY

    monkeypatch.setattr(forward, "_MOST_CONNECTIONS", 2)
    relay = ["sh", "-c", f"printf '{READY.decode().strip()}\\n'; exec cat"]
    opened = forward.Forward(_Relay(), 0, relay, "node", 1)
    host, _, port = opened.address.rpartition(":")
    guests = [socket.create_connection((host, int(port)), 10) for _ in range(3)]
    try:
        for guest in guests:
            guest.sendall(b"x")
        for guest in guests[:2]:
            assert guest.recv(1) == b"x"
        guests[2].settimeout(0.2)
        with pytest.raises(TimeoutError):
            guests[2].recv(1)
        guests[0].close()
        guests[2].settimeout(10)
        assert guests[2].recv(1) == b"x"
    finally:
        for guest in guests:
            guest.close()
        opened.close()


@pytest.mark.skipif(
    os.getuid() != 0 or not os.path.exists("/usr/bin/python3"),
    reason="only root runs programs as other users, and they need a Python that all may read",
)
def test_a_forward_is_for_this_users_programs_alone():
    from skyward.engines import forward
    from skyward.engines.relay import READY

    relay = ["sh", "-c", f"printf '{READY.decode().strip()}\\n'; exec cat"]
    opened = forward.Forward(_Relay(), 0, relay, "node", 1)
    host, _, port = opened.address.rpartition(":")
    connect = (
        "import socket, sys;"
        " guest = socket.socket(socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET);"
        " guest.settimeout(10); guest.connect((sys.argv[1], int(sys.argv[2])));"
    )
    talk = connect + " guest.sendall(b'x'); print(guest.recv(1))"
    reset = connect + (
        " guest.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, bytes([1, 0, 0, 0, 0, 0, 0, 0]))"
    )

    def run(code: str, user: int, host: str) -> str:
        command = ["/usr/bin/python3", "-I", "-c", code, host, port]
        said = subprocess.run(command, user=user, capture_output=True, text=True, timeout=20)
        return said.stdout or said.stderr.strip().rpartition("\n")[2].partition(":")[0]

    refused = ("b''\n", "ConnectionResetError", "BrokenPipeError")
    try:
        for place in (host, f"::ffff:{host}"):
            assert run(talk, 65534, place) in refused
        for _ in range(20):
            run(reset, 65534, host)
        assert run(talk, 0, host) == "b'x'\n"
    finally:
        opened.close()


@pytest.mark.parametrize("refused", ["_serve", "_send", "_drop", "Timer"])
def test_a_forward_outlives_connections_without_threads(monkeypatch, refused):
    from skyward.engines import forward
    from skyward.engines.relay import READY

    relay = ["sh", "-c", f"printf '{READY.decode().strip()}\\n'; exec cat"]
    opened = forward.Forward(_Relay(), 0, relay, "node", 1)
    host, _, port = opened.address.rpartition(":")
    real = threading.Thread.start

    def start(thread):
        name = getattr(thread._target, "__name__", type(thread).__name__)
        if name == refused or type(thread).__name__ == refused:
            raise RuntimeError("can't start new thread")
        real(thread)

    try:
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", start)
            with socket.create_connection((host, int(port)), 10) as guest:
                assert guest.recv(1) == b""  # closed
            wait_until(lambda: not opened._open)
        with socket.create_connection((host, int(port)), 10) as guest:
            guest.sendall(b"x")
            assert guest.recv(1) == b"x"
    finally:
        opened.close()


def test_without_dask_nothing_is_asked_of_the_pool(monkeypatch):
    monkeypatch.setattr("skyward.engines.survey.version_of", lambda package: None)
    with pytest.raises(sky.ConfigurationError, match="dask"), sky.dask(sky.ComputePool()):
        pass


class LostNode:
    """An open pool whose nodes are lost whenever something runs on them, after `runs` that are
    not."""

    def __init__(self, runs):
        self.told = []
        self.sent = 0
        self.runs = runs
        self.may_be_lost = threading.Event()

    def tell(self, text):
        self.told.append(text)

    def send_to(self, call, node, worker=None):
        self.sent += 1
        return self

    def wait(self, seconds=None):
        return True

    def cancel(self):
        pass

    def next(self):
        if self.runs:
            self.runs -= 1
            return b"\x80\x05N.", []
        assert self.may_be_lost.wait(30)
        raise sky.InstanceTerminatedError("i-1", "node 1 was lost")

    task = 1

    def take(self):
        raise sky.InstanceTerminatedError("i-1", "node 1 was lost and could not be replaced")


def members_of(engine):
    pool = SimpleNamespace(concurrency=1, is_active=True)
    return Members(VERB, pool, engine, [NODE], lambda facts: PendingCompute(len, name="len"))


def test_a_node_that_stays_lost_is_given_up():
    engine = LostNode(runs=1)
    members = members_of(engine)
    members.start([1], 30)
    engine.may_be_lost.set()
    for thread in members._threads:
        thread.join(30)
        assert not thread.is_alive()
    assert f"{VERB}: node 1 was lost; its replacement joins when it is ready" in engine.told
    assert f"{VERB} gives up on node 1" in engine.told[-1]
    assert engine.sent < 10
    members.close()


def test_a_node_that_is_lost_before_it_runs_fails_the_start():
    engine = LostNode(runs=0)
    engine.may_be_lost.set()
    members = members_of(engine)
    with pytest.raises(sky.InstanceTerminatedError, match="node 1 was lost"):
        members.start([1], 30)
    members.close()


def test_a_private_folder_is_left_alone_while_it_is_used_and_removed_when_nobody_does():
    prefix = f"skyward-test-{os.getpid()}-"
    left = Path(f"/tmp/{prefix}left")
    left.mkdir(mode=0o700)
    with private_folder(prefix) as first:
        assert not left.exists()
        assert first.stat().st_mode & 0o077 == 0
        with private_folder(prefix) as second:
            assert first.exists() and second.exists()
        assert first.exists() and not second.exists()
    assert not first.exists()


def test_a_private_folder_that_is_not_locked_yet_is_left_alone(monkeypatch):
    prefix, make = f"skyward-test-{os.getpid()}-", tempfile.mkdtemp

    def make_while_another_process_sweeps(**options):
        folder = make(**options)
        monkeypatch.setattr(tempfile, "mkdtemp", make)
        with private_folder(prefix):
            return folder

    monkeypatch.setattr(tempfile, "mkdtemp", make_while_another_process_sweeps)
    with private_folder(prefix) as folder:
        assert folder.is_dir() and folder.name.startswith(prefix)
        with private_folder(prefix):
            assert folder.is_dir()
    assert not list(Path("/tmp").glob(f"*{prefix}*"))


def test_a_program_whose_call_is_cancelled_while_it_is_told_something_is_killed(tmp_path):
    number = tmp_path / "number"
    script = f"read -r line; echo $$ > {number}; kill -INT {os.getpid()}; exec sleep 100"
    with pytest.raises(KeyboardInterrupt):
        ChildProgram("deaf", ["/bin/sh", "-c", script], told=b"\n" * (1 << 20), reports=True)
    assert not Path(f"/proc/{number.read_text().strip()}").exists()
