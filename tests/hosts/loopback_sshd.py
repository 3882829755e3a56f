"""An sshd of this computer on an address of loopback, with keys and variables of its own. What it
starts are this computer's processes, of the user who started it."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

SSHD = "/usr/sbin/sshd"


def missing_programs() -> list[str]:
    return [name for name in (SSHD, "ssh-keygen", "ssh") if shutil.which(name) is None]


def new_key(path: Path) -> str:
    """Makes a key; its public half."""
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", path.name, "-f", str(path)]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    return path.with_suffix(".pub").read_text()


def start_sshd(
    folder: Path, address: str, port: int, variables: Mapping[str, str]
) -> "subprocess.Popen[bytes]":
    """With the folder's `host_key`; lets in who has a key of the folder's file `authorized`."""
    set_variables = " ".join(f"{name}={value}" for name, value in variables.items())
    (folder / "sshd_config").write_text(
        f"ListenAddress {address}:{port}\nHostKey {folder}/host_key\n"
        f"AuthorizedKeysFile {folder}/authorized\n"
        "StrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\n"
        "PidFile none\nLogLevel ERROR\nMaxStartups 100\n"
        f"SetEnv {set_variables}\n"
    )
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    with (folder / "sshd.log").open("wb") as log:
        return subprocess.Popen(
            [SSHD, "-D", "-e", "-f", str(folder / "sshd_config")],
            stdin=subprocess.DEVNULL,
            stderr=log,
        )
