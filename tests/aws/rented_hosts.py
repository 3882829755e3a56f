"""Real computers behind the emulator: each machine that it starts is a host of a bed (a network,
root file system, processes and sshd of its own; tests/hosts/bed.py) that boots with the machine's
user data, has the metadata service, and ends by switching itself off. What the cloud takes back is
announced first.

The emulator bills as Amazon does: each second from the launch on, a minute at least.
"""

import base64
import ctypes
import json
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import bed as beds
from bed import Bed, Host, end_with_parent, run, until
from cloud import Front, Place, serve
from moto.ec2.models.instances import StateReason

HERE = Path(__file__).resolve().parent
LEAST_BILLED_SECONDS = 60
DESK_ADDRESS = "10.77.0.1"
CLONE_NEWNET = 0x40000000
SSHD_CONFIG = beds.SSHD_CONFIG.replace("/etc/ssh/bed_key", "/etc/ssh/ssh_host_ed25519_key")
# As sshd is the first process of a host, its end is the machine's.
OFF = """\
#!/bin/sh
case "$*" in "-P now" | "-h now" | "poweroff --force" | -f) kill -TERM 1 ;; *) exit 1 ;; esac
"""


def why_not() -> str | None:
    """Why there can be no such machines here; None when there can."""
    return beds.why_not() or (None if shutil.which("cc") else "needs a C compiler")


@dataclass
class Rented:
    """One machine: what the emulator knows of it, and the host that it is."""

    instance: Any
    host: Host
    launched: float
    notice: Path  # a file; beside it the role and what the metadata service says
    metadata: "subprocess.Popen[bytes] | None" = None
    ended: float | None = None
    why_ended: str = ""
    booted: threading.Event = field(default_factory=threading.Event)

    @property
    def id(self) -> str:
        return str(self.instance.id)

    @property
    def spot(self) -> bool:
        return self.instance.lifecycle == "spot"


class RentedHosts:
    """The hosts of one test module. `lock`: held while the emulator's state is changed."""

    def __init__(self, bed: Bed, directory: Path, lock: Any) -> None:
        self.bed = bed
        self.directory = directory
        self.lock = lock
        self.machines: dict[str, Rented] = {}
        self.broken: list[str] = []  # what no test expects
        self.role: dict[str, str] = {}  # dial: credentials that machines get from their role
        self.count = 0
        self.threads: list[threading.Thread] = []
        self.over = threading.Event()  # the test is; wakes who waits
        self.sudo = directory / "sudo"
        run("cc", "-O1", "-o", str(self.sudo), str(HERE / "sudo.c"))

    # ---- what the emulator calls, holding the lock

    def start(self, instance: Any) -> None:
        self.count += 1
        host = self.bed.put(f"m{self.count}")
        for interface in instance.nics.values():
            interface.public_ip = host.address
            interface.private_ip_address = host.address
        instance._private_ips = {host.address}
        self._furnish(host, str(instance.user_data))
        notice = self.directory / f"{instance.id}.notice"
        if self.role:
            notice.with_suffix(".role").write_text(json.dumps(self.role))
        self.bed.in_namespace(host.name, "ip", "addr", "add", "169.254.169.254/32", "dev", "lo")
        rented = Rented(instance, host, time.time(), notice)
        self.machines[rented.id] = rented
        self._begin(lambda: self._live(rented))

    def stop(self, instance_id: str, why: str = "TerminateInstances") -> None:
        rented = self.machines.get(instance_id)
        if rented is None or rented.ended is not None:
            return
        rented.ended, rented.why_ended = time.time(), why
        if not rented.host.down:
            rented.host.cut()
        rented.booted.wait(beds.START_SECONDS)
        rented.host.kill()
        if rented.metadata is not None:
            rented.metadata.kill()
            rented.metadata.wait(10)

    def stop_all(self) -> None:
        for instance_id in list(self.machines):
            self.stop(instance_id, "the test is over")
        self.over.set()
        for thread in self.threads:
            thread.join(10)
        self.over.clear()
        self.machines.clear()
        self.threads.clear()
        self.broken.clear()
        self.role = {}

    # ---- what tests do and see

    def take_back(self, instance_id: str, seconds: float) -> None:
        """The cloud wants that machine: announced now, gone in so many seconds."""
        rented = self.machines[instance_id]
        draft = rented.notice.with_suffix(".draft")
        draft.write_text(str(seconds))
        draft.rename(rented.notice)

        def take() -> None:
            self.over.wait(seconds)
            with self.lock:
                self._end(rented, "Server.SpotInstanceTermination")

        self._begin(take)

    def ends(self) -> dict[str, str]:
        """Why each machine that is gone has ended."""
        return {one.id: one.why_ended for one in self.machines.values() if one.why_ended}

    def asked_of_metadata(self, instance_id: str) -> list[str]:
        return (self.directory / f"{instance_id}.metadata").read_text().splitlines()

    def bill(self, price: Callable[[Rented], float]) -> float:
        """Dollars, with each machine's price for an hour."""
        total = 0.0
        for one in self.machines.values():
            lived = (one.ended or time.time()) - one.launched
            total += max(lived, LEAST_BILLED_SECONDS) * price(one) / 3600
        return total

    # ---- the life of a machine

    def _begin(self, body: Callable[[], None]) -> None:
        def run_it() -> None:
            try:
                body()
            except Exception as error:
                self.broken.append(repr(error))

        thread = threading.Thread(target=run_it, daemon=True)
        self.threads.append(thread)
        thread.start()

    def _live(self, rented: Rented) -> None:
        """Boots it, and tells the emulator when it has switched itself off."""
        host = rented.host
        try:
            # By this thread, as it ends with the one that starts it.
            rented.metadata = self._start_metadata(rented)
            host.start()
        except (RuntimeError, AssertionError) as error:
            self.broken.append(f"{rented.id} did not boot: {error}")
            return
        finally:
            rented.booted.set()
        holder = host.holder
        if holder is None:
            return
        holder.wait()
        with self.lock:
            if rented.ended is None:
                self._end(rented, "Client.InstanceInitiatedShutdown")

    def _start_metadata(self, rented: Rented) -> "subprocess.Popen[bytes]":
        log, role = rented.notice.with_suffix(".metadata"), rented.notice.with_suffix(".role")
        with log.open("wb") as out:
            service = subprocess.Popen(
                ["nsenter", f"--net=/run/netns/{self.bed.namespace(rented.host.name)}"]
                + [sys.executable, str(beds.HERE / "fake_metadata.py")]
                + [str(rented.notice), str(role)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                preexec_fn=end_with_parent,
            )
        until(lambda: "ready" in log.read_text(), 20, "the metadata service is up")
        return service

    def _end(self, rented: Rented, why: str) -> None:
        if rented.ended is not None:
            return
        by_itself = why.startswith("Client.")
        if by_itself and rented.instance.instance_initiated_shutdown_behavior != "terminate":
            self.broken.append(f"{rented.id} switched itself off and costs on: it is only stopped")
            return
        self.stop(rented.id, why)
        rented.instance.terminate()
        rented.instance.state_reason = StateReason(why, why)

    def _furnish(self, host: Host, user_data: str) -> None:
        """The disk of a fresh image: nobody's keys, nothing of ours."""
        upper, root = host.home / "upper", host.home / "root"
        for key in ("bed_key", "bed_key.pub"):
            (upper / "etc/ssh" / key).unlink()
        (upper / "etc/ssh/sshd_bed").write_text(SSHD_CONFIG)
        for home in ("root", "home/plain"):
            shutil.rmtree(root / home / ".ssh")
        (root / "var/lib/cloud").mkdir(parents=True)
        data = root / "var/lib/cloud/user-data"
        data.write_text(base64.b64decode(user_data).decode())
        data.chmod(0o600)
        first_boot = upper / "etc/first-boot"
        first_boot.write_text("#!/usr/bin/python3 -S\n" + (HERE / "cloud_init.py").read_text())
        first_boot.chmod(0o700)
        for program in ("sbin/shutdown", "sbin/poweroff", "bin/systemctl"):
            path = upper / "usr" / program
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(OFF)
            path.chmod(0o755)
        shutil.copy(self.sudo, upper / "usr/bin/sudo")
        (upper / "usr/bin/sudo").chmod(0o4755)


@contextmanager
def rented_hosts(front: Front, directory: Path) -> Iterator[tuple[RentedHosts, Place]]:
    """With the emulator at the driver's desk, too: the hosts reach it there."""
    bed = Bed()
    try:
        hosts = RentedHosts(bed, directory, front.lock)
        listener = listen_in(f"/run/netns/{bed.namespace(beds.DESK)}", DESK_ADDRESS)
        with listener, serve(front, DESK_ADDRESS, listener.fileno()) as url:
            yield hosts, Place(url, bed.desk([]))
        hosts.stop_all()
    finally:
        bed.close()


def listen_in(namespace: str, address: str) -> socket.socket:
    """A listening socket in a network namespace. A thread that ends goes there, and no other."""
    made: list[socket.socket] = []

    def make() -> None:
        with open(namespace) as there:
            if ctypes.CDLL(None, use_errno=True).setns(there.fileno(), CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), f"setns {namespace}")
        made.append(socket.create_server((address, 0), backlog=128))

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    return made[0]
