"""A stand-in for cloud-init: what a machine of the tests does at its first boot with its user data,
before its sshd answers. Runs on the machine, with the Python that is there.

Stricter than the real one: what it does not know, what is ill-formed, and what fails ends the boot.
As in Canonical's images the user "ubuntu" is made, may use sudo, and gets the keys; root gets them
only where "disable_root" is false.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

USER_DATA = Path("/var/lib/cloud/user-data")
MOST_BYTES = 16384
USER, NUMBER = "ubuntu", 4178
KEY = Path("/etc/ssh/ssh_host_ed25519_key")
# Each directive with its type.
KNOWN: dict[str, type] = {
    "bootcmd": list,
    "disable_root": bool,
    "ssh_deletekeys": bool,
    "ssh_keys": dict,
    "ssh_authorized_keys": list,
    "ssh_pwauth": bool,
    "package_update": bool,
}


def refuse(why: str) -> None:
    sys.exit(f"cloud-init: {why}")


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    if done.returncode != 0:
        refuse(f"{command[:2]} ended with {done.returncode}: {done.stderr}")
    return done.stdout


def read() -> dict[str, Any]:
    text = USER_DATA.read_text()
    if len(text) > MOST_BYTES:
        refuse(f"user data of {len(text)} bytes")
    first, _, rest = text.partition("\n")
    if first != "#cloud-config":
        refuse(f"user data begin with {first!r}")
    document: dict[str, Any] = json.loads(rest)
    for name, value in document.items():
        if name not in KNOWN:
            refuse(f"the directive {name!r} is unknown")
        if type(value) is not KNOWN[name]:
            refuse(f"{name} is {value!r}")
    if next(iter(document)) != "bootcmd":
        refuse("something comes before bootcmd")
    if document.get("package_update") is not False or document.get("ssh_pwauth") is not False:
        refuse("packages are updated, or passwords let in")
    return document


def append(path: str, line: str) -> None:
    with open(path, "a") as file:
        file.write(line + "\n")


def make_user() -> None:
    home = f"/home/{USER}"
    append("/etc/passwd", f"{USER}:x:{NUMBER}:{NUMBER}::{home}:/bin/bash")
    append("/etc/shadow", f"{USER}:*:19000:0:::::")
    append("/etc/group", f"{USER}:x:{NUMBER}:")
    os.makedirs(home)
    os.chown(home, NUMBER, NUMBER)


def let_in(home: str, owner: int, keys: list[str]) -> None:
    for key in keys:
        if not key.startswith("ssh-") or "\n" in key:
            refuse(f"{key!r} is no key")
    folder = Path(home, ".ssh")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    (folder / "authorized_keys").write_text("\n".join(keys) + "\n")
    (folder / "authorized_keys").chmod(0o600)
    for path in (folder, folder / "authorized_keys"):
        os.chown(path, owner, owner)


def set_host_key(pair: dict[str, str]) -> None:
    if set(pair) != {"ed25519_private", "ed25519_public"}:
        refuse(f"ssh_keys has {sorted(pair)}")
    os.umask(0o077)
    KEY.write_text(pair["ed25519_private"])
    public = run("ssh-keygen", "-y", "-f", str(KEY)).split()[:2]
    if public != pair["ed25519_public"].split()[:2]:
        refuse("the two halves of the host key do not belong together")


def main() -> None:
    document = read()
    for command in document["bootcmd"]:
        run(*command)
    if document.get("ssh_deletekeys", True):
        for old in Path("/etc/ssh").glob("ssh_host_*key*"):
            old.unlink()
    make_user()
    keys = document.get("ssh_authorized_keys", [])
    let_in(f"/home/{USER}", NUMBER, keys)
    let_in("/root", 0, keys if document.get("disable_root", True) is False else [])
    set_host_key(document.get("ssh_keys", {}))


main()
