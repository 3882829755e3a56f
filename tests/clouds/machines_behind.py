"""Real machines behind a double: for each one that it starts, an sshd on an address of loopback of
its own, with the host key and the login key that the request to create it gave. Its processes are
this computer's, and end with it."""

import base64
import json
import os
import re
import shutil
import signal
import subprocess
import threading
from pathlib import Path
from typing import Any

from running_double import Double

SSHD = "/usr/sbin/sshd"
MARK = "SKYWARD_TEST_MACHINE"
LOOK_SECONDS = 0.1
KEY = re.compile(
    r"-----BEGIN OPENSSH PRIVATE KEY-----.*?-----END OPENSSH PRIVATE KEY-----\n?", re.S
)
LOGIN = re.compile(r"ssh-ed25519 [A-Za-z0-9+/=]+(?: [^'\"\n]*)?")


def why_not() -> str | None:
    """Why no machine can run anything here; None when it can."""
    if os.geteuid() != 0:
        return "an sshd on port 22 of a loopback address needs root"
    missing = [name for name in (SSHD, "ssh-keygen", "ssh") if shutil.which(name) is None]
    return f"{', '.join(missing)} not found" if missing else None


class MachinesBehind:
    """`network`: machines have addresses of 127.`network`.0.0/16."""

    def __init__(self, double: Double, directory: Path, network: int) -> None:
        self.double = double
        self.directory = directory
        self.network = network
        self.sshds: dict[str, subprocess.Popen[bytes]] = {}
        self.broken: list[str] = []
        self.seen = 0
        self.over = threading.Event()
        self.watcher = threading.Thread(target=self._watch)

    def __enter__(self) -> "MachinesBehind":
        self.watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.watcher.join(20)
        for machine in list(self.sshds):
            self._stop(machine)

    def processes(self, machine: str) -> list[int]:
        """What runs on a machine, by the mark that its sshd gives to everything."""
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                variables = (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if f"{MARK}={self.directory / machine}".encode() in variables:
                found.append(int(entry.name))
        return found

    def _watch(self) -> None:
        known: set[str] = set()
        while not self.over.wait(LOOK_SECONDS):
            try:
                for machine in self.double.control("GET", "machines"):
                    name = str(machine["id"])
                    if machine["ended"] is not None:
                        self._stop(name)
                    elif name not in known:
                        known.add(name)
                        self._start(name, machine["request"])
            except Exception as error:
                self.broken.append(repr(error))
                return

    def _start(self, machine: str, request: dict[str, Any]) -> None:
        self.seen += 1
        address = f"127.{self.network}.{self.seen // 250}.{self.seen % 250 + 1}"
        home = self.directory / machine
        (home / "home").mkdir(parents=True)
        host_key, login_keys = self._keys(request)
        (home / "host_key").write_text(host_key)
        (home / "host_key").chmod(0o600)
        (home / "authorized").write_text("\n".join(login_keys) + "\n")
        (home / "sshd_config").write_text(
            f"ListenAddress {address}:22\nHostKey {home}/host_key\n"
            f"AuthorizedKeysFile {home}/authorized\n"
            "StrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\n"
            "PidFile none\nLogLevel ERROR\nMaxStartups 100\n"
            f"SetEnv HOME={home}/home XDG_CACHE_HOME={home}/cache XDG_RUNTIME_DIR={home}"
            f" {MARK}={home} AWS_EC2_METADATA_DISABLED=true\n"
        )
        Path("/run/sshd").mkdir(exist_ok=True)
        self.sshds[machine] = subprocess.Popen(
            [SSHD, "-D", "-e", "-f", str(home / "sshd_config")],
            stdin=subprocess.DEVNULL,
            stderr=(home / "sshd.log").open("wb"),
        )
        self.double.control(
            "POST",
            f"machines/{machine}",
            {
                "public_address": address,
                "private_address": address,
                "ssh_port": 22,
                "act": "run",
            },
        )

    def _keys(self, request: dict[str, Any]) -> tuple[str, list[str]]:
        """The host key and those that log in, from what the machine boots with."""
        if "user_data" in request:
            first, _, rest = request["user_data"].partition("\n")
            assert first == "#cloud-config", first
            boot = json.loads(rest)
            return boot["ssh_keys"]["ed25519_private"], boot["ssh_authorized_keys"]
        if "args" in request:
            encoded = request["args"].split("echo ")[1].split(" |")[0]
            script = base64.b64decode(encoded).decode()
        else:
            script = request.get("onstart") or self._made("/scripts", "script")
        found = KEY.search(script)
        assert found is not None, script
        return found.group(), LOGIN.findall(script.replace(found.group(), ""))[-1:]

    def _made(self, path: str, field: str) -> str:
        """The newest text that was created there: each launch makes its own."""
        made = [
            one["body"][field]
            for one in self.double.control("GET", "requests")
            if one["method"] == "POST" and one["path"].endswith(path)
        ]
        assert made, f"nothing was made at {path}"
        return str(made[-1])

    def _stop(self, machine: str) -> None:
        sshd = self.sshds.pop(machine, None)
        if sshd is None:
            return
        sshd.kill()
        sshd.wait(10)
        for _ in range(3):
            pids = self.processes(machine)
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            if not pids:
                break
        shutil.rmtree(self.directory / machine, ignore_errors=True)
