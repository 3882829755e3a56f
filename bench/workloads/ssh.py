"""A node behind ssh, on loopback, beside what ssh alone takes: a connection to the same sshd with
`cat` at its end. The large argument is mapped on the node, as an array is."""

import os
import pickle
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

from contenders import echo
from targets import own

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "hosts"))
from loopback_sshd import missing_programs, new_key, start_sshd

FIGURES = {
    "ssh_raw_round_trip": ("us", False),
    "ssh_call": ("us", False),
    "ssh_raw_bulk": ("MiB/s", True),
    "ssh_bulk": ("MiB/s", True),
}
TARGETS = {
    "ssh_call": [own("ssh_raw_round_trip", 1.5, "bare ssh")],
    "ssh_bulk": [own("ssh_raw_bulk", 0.85, "bare ssh")],
}
ADDRESS = "127.0.0.1"
PART = b"x" * 256
"""About as large as a call of a small function."""
TURNS = 5
MIB = 1 << 20


def missing():
    absent = missing_programs()
    return f"{', '.join(absent)} not found" if absent else None


def free_port():
    with socket.socket() as sock:
        sock.bind((ADDRESS, 0))
        return sock.getsockname()[1]


def wait_until_it_listens(port, sshd):
    while True:
        try:
            socket.create_connection((ADDRESS, port), timeout=10).close()
            return
        except ConnectionRefusedError:
            if sshd.poll() is not None:
                raise RuntimeError("sshd has not started") from None
            time.sleep(0.01)


@contextmanager
def server():
    """A provider with one host, and the command that reaches the same host with bare ssh."""
    import skyward as sky

    with tempfile.TemporaryDirectory(prefix="skyward-bench-") as name:
        folder, port = Path(name), free_port()
        (folder / "home").mkdir()
        host_key = new_key(folder / "host_key")
        (folder / "authorized").write_text(new_key(folder / "key"))
        (folder / "known_hosts").write_text(f"[{ADDRESS}]:{port} {host_key}")
        (folder / "ssh_config").write_text("")  # whatever this machine's user has set for ssh
        variables = {"HOME": f"{name}/home", "XDG_CACHE_HOME": f"{name}/cache"}
        sshd = start_sshd(folder, ADDRESS, port, variables | {"XDG_RUNTIME_DIR": name})
        try:
            wait_until_it_listens(port, sshd)
            provider = sky.SSH(
                hosts=[f"{ADDRESS}:{port}"],
                identity_file=str(folder / "key"),
                host_keys=str(folder / "known_hosts"),
                config=str(folder / "ssh_config"),
            )
            known = f"UserKnownHostsFile={folder}/known_hosts"
            login = ["-F", f"{folder}/ssh_config", "-i", f"{folder}/key", "-o", known]
            yield provider, ["ssh", *login, "-p", str(port), ADDRESS]
        finally:
            sshd.terminate()
            sshd.wait()


@contextmanager
def connection(command):
    """Bare ssh with a remote command at its end."""
    ssh = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    try:
        yield ssh
    finally:
        ssh.stdin.close()
        ssh.stdout.close()
        ssh.wait()


def read(pipe, size):
    while size > 0:
        got = len(os.read(pipe.fileno(), size))
        assert got > 0
        size -= got


def seconds(function, *args):
    begin = time.perf_counter()
    function(*args)
    return time.perf_counter() - begin


def raw_round_trip(ssh):
    ssh.stdin.write(PART)
    read(ssh.stdout, len(PART))


def raw_bulk(command, data):
    """Until the other end has read everything."""
    with connection([*command, f"echo; head -c {len(data)} >/dev/null; echo"]) as ssh:
        read(ssh.stdout, 1)  # it is connected

        def send():
            rest = memoryview(data)
            while rest:
                rest = rest[ssh.stdin.write(rest) :]
            read(ssh.stdout, 1)

        return seconds(send)


def measure(size):
    """Turn by turn, so that a busy moment meets both."""
    import skyward as sky

    calls = size.calls // TURNS
    data = [os.urandom(size.ssh_mib * MIB) for _ in range(size.rounds)]
    raw, ours, raw_sent, sent = [], [], [], []
    with server() as (provider, command):
        with (
            connection([*command, "cat"]) as ssh,
            sky.ComputePool(
                provider=provider, nodes=1, display="quiet", collect_metrics=False
            ) as pool,
        ):
            one, size_of = sky.compute(echo), sky.compute(len)
            for i in range(50):
                raw_round_trip(ssh)
                one(i) >> pool
            for _ in range(TURNS):
                raw += [seconds(raw_round_trip, ssh) for _ in range(calls)]
                ours += [seconds(lambda i=i: one(i) >> pool) for i in range(calls)]
            for block in data:
                raw_sent.append(raw_bulk(command, block))
                argument = pickle.PickleBuffer(block)
                sent.append(seconds(lambda argument=argument: size_of(argument) >> pool))
    return {
        "ssh_raw_round_trip": statistics.median(raw) * 1e6,
        "ssh_call": statistics.median(ours) * 1e6,
        "ssh_raw_bulk": size.ssh_mib / statistics.median(raw_sent),
        "ssh_bulk": size.ssh_mib / statistics.median(sent),
    }
