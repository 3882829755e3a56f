"""Real machines behind a double: for each one that it starts, an sshd on an address of loopback of
its own, in namespaces of its own, where the script runs that the request to create it gave: it
brings the host key, the login key and the timer. Its processes are this computer's, and end with
it. What would switch this computer off does nothing there."""

import base64
import json
import os
import shlex
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

from running_double import Double

SSHD = "/usr/sbin/sshd"
LOOK_SECONDS = 0.1
# What the scripts of machines call, and what it is here: nothing of this computer may be switched
# off or installed.
HARMLESS = {
    "service": 0,  # sshd starts when the script has run
    # Machines that end themselves when their pool closes are gone before their pool asks for it,
    # and a pool believes that only of machines that are a minute old.
    "curl": 0,
    **dict.fromkeys(("shutdown", "poweroff", "reboot", "halt", "systemctl", "systemd-run"), 1),
    **dict.fromkeys(("apt-get", "telinit"), 1),
}
# The first process of a machine: $1 is its directory.
BOOT = """
set -e
mount --make-rprivate /
for stub in "$1"/stubs/*; do
  for bin in /usr/sbin /usr/bin /sbin /bin; do
    [ -L "$bin" ] || [ ! -e "$bin/${stub##*/}" ] || mount --bind "$stub" "$bin/${stub##*/}"
  done
done
mount --bind "$1/root" /root
mount --bind "$1/sbin" /usr/local/sbin
mount --bind "$1/ssh" /etc/ssh
mount --bind "$1/run" /run
sh "$1/script" >"$1/script.log" 2>&1 || true
/usr/sbin/sshd -D -e -f "$1/sshd_config" 2>"$1/sshd.log" &
wait $!
"""


def why_not() -> str | None:
    """Why no machine can run anything here; None when it can."""
    if os.geteuid() != 0:
        return "an sshd on port 22 of a loopback address needs root"
    missing = [
        name for name in (SSHD, "ssh-keygen", "ssh", "unshare") if shutil.which(name) is None
    ]
    return f"{', '.join(missing)} not found" if missing else None


class MachinesBehind:
    """`network`: machines have addresses of 127.`network`.0.0/16."""

    def __init__(self, double: Double, directory: Path, network: int) -> None:
        self.double = double
        self.directory = directory
        self.network = network
        self.running: dict[str, subprocess.Popen[bytes]] = {}
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
        for machine in list(self.running):
            self._stop(machine)

    def end_itself(self, machine: str) -> None:
        """Runs what ends the machine from inside, as its timer does."""
        parent = self.running[machine].pid
        first = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()[0]
        line = "umount /usr/bin/curl && exec /usr/local/sbin/skyward-end"
        subprocess.run(
            ["nsenter", "--target", first, "--mount", "--pid", "sh", "-c", line],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=20,
        )

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
                        self._start(name, machine["request"], machine["inside"] or {})
            except Exception as error:
                self.broken.append(repr(error))
                return

    def _start(self, machine: str, request: dict[str, Any], inside: dict[str, Any]) -> None:
        self.seen += 1
        address = f"127.{self.network}.{self.seen // 250}.{self.seen % 250 + 1}"
        home = self.directory / machine
        for folder in ("root", "sbin", "run/sshd", "ssh", "stubs"):
            (home / folder).mkdir(parents=True)
        for name, status in HARMLESS.items():
            (home / "stubs" / name).write_text(f"#!/bin/sh\nexit {status}\n")
            (home / "stubs" / name).chmod(0o755)
        (home / "script").write_text(self._script(request))
        (home / "sshd_config").write_text(
            f"ListenAddress {address}:22\nHostKey /etc/ssh/ssh_host_ed25519_key\n"
            "StrictModes yes\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\n"
            "PidFile none\nLogLevel ERROR\nMaxStartups 100\n"
            f"SetEnv XDG_CACHE_HOME={home}/cache XDG_RUNTIME_DIR={home}"
            " AWS_EC2_METADATA_DISABLED=true\n"
        )
        variables = {name: value for name, value in inside.items() if isinstance(value, str)}
        namespaces = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child"]
        self.running[machine] = subprocess.Popen(
            [*namespaces, "sh", "-c", BOOT, "sh", str(home)],
            stdin=subprocess.DEVNULL,
            stderr=(home / "boot.log").open("wb"),
            env={"PATH": os.environ["PATH"], "HOME": "/root", **variables},
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

    def _script(self, request: dict[str, Any]) -> str:
        """What the machine runs when it boots, as root."""
        if "user_data" in request:
            return as_cloud_init_does(request["user_data"])
        if "args" in request:
            encoded = request["args"].split("echo ")[1].split(" |")[0]
            return base64.b64decode(encoded).decode()
        return request.get("onstart") or self._made("/scripts", "script")

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
        running = self.running.pop(machine, None)
        if running is None:
            return
        running.kill()  # and with it its first process, and with that one all others
        running.wait(10)
        shutil.rmtree(self.directory / machine, ignore_errors=True)


def as_cloud_init_does(user_data: str) -> str:
    """The script that does what a machine's cloud-init does with it."""
    first, _, rest = user_data.partition("\n")
    assert first == "#cloud-config", first
    told = json.loads(rest)
    texts = {
        "/etc/ssh/ssh_host_ed25519_key": told["ssh_keys"]["ed25519_private"],
        "~root/.ssh/authorized_keys": "\n".join(told["ssh_authorized_keys"]) + "\n",
    }
    lines = ["umask 077", "mkdir -p ~root/.ssh"]
    lines += [f"cat >{path} <<'TEXT'\n{text}TEXT" for path, text in texts.items()]
    lines += [shlex.join(command) for command in told["bootcmd"]]
    return "\n".join(lines) + "\n"
