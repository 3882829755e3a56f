"""What the emulator's machines run on: for each one that starts, an sshd on an address of loopback
of its own, with the host key and the login key of the machine's user data. Its files and its
variables are its own; its processes are this machine's, and end with it.

Without root or without sshd the machines exist on paper alone.
"""

import base64
import json
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

from loopback_sshd import missing_programs, start_sshd

MARK = "SKYWARD_TEST_MACHINE"


def why_not() -> str | None:
    """Why no machine can run anything here; None when it can."""
    if os.geteuid() != 0:
        return "an sshd on port 22 of a loopback address needs root"
    missing = missing_programs()
    return f"{', '.join(missing)} not found" if missing else None


def read_user_data(text: str) -> dict[str, Any]:
    plain = base64.b64decode(text).decode()
    first, _, rest = plain.partition("\n")
    assert first == "#cloud-config", plain
    document: dict[str, Any] = json.loads(rest)
    return document


class Machines:
    def __init__(self, directory: Path, network: int) -> None:
        """`network`: machines have addresses of 127.`network`.0.0/16."""
        self.directory = directory
        self.network = network
        self.sshds: dict[str, subprocess.Popen[bytes]] = {}
        self.addresses: dict[str, str] = {}
        self.count = 0
        self.running = False  # dial: whether machines run anything

    def start(self, instance: Any) -> None:
        """Called by the emulator for each machine that it starts."""
        if not self.running or why_not() is not None:
            return
        self.count += 1
        address = f"127.{self.network}.{self.count // 250}.{self.count % 250 + 1}"
        for interface in instance.nics.values():
            interface.public_ip = address
            interface.private_ip_address = address
        instance._private_ips = {address}
        self.addresses[instance.id] = address
        boot = read_user_data(str(instance.user_data))
        home = self.directory / instance.id
        (home / "home").mkdir(parents=True)
        key = home / "host_key"
        key.write_text(boot["ssh_keys"]["ed25519_private"])
        key.chmod(0o600)
        (home / "authorized").write_text("\n".join(boot["ssh_authorized_keys"]) + "\n")
        self.sshds[instance.id] = start_sshd(
            home,
            address,
            22,
            {
                "HOME": f"{home}/home",
                "XDG_CACHE_HOME": f"{home}/cache",
                "XDG_RUNTIME_DIR": str(home),
                MARK: str(instance.id),
                # Nobody asks for a metadata service: this machine may have a real one.
                "AWS_EC2_METADATA_DISABLED": "true",
            },
        )

    def processes(self, instance_id: str) -> list[int]:
        """What runs on a machine, by the mark that its sshd gives to everything."""
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                variables = (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if f"{MARK}={instance_id}".encode() in variables:
                found.append(int(entry.name))
        return found

    def stop(self, instance_id: str) -> None:
        sshd = self.sshds.pop(instance_id, None)
        if sshd is None:
            return
        sshd.kill()
        sshd.wait(10)
        for _ in range(3):
            pids = self.processes(instance_id)
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            if not pids:
                break
        shutil.rmtree(self.directory / instance_id, ignore_errors=True)

    def stop_all(self) -> None:
        for instance_id in list(self.sshds):
            self.stop(instance_id)
