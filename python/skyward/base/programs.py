"""Where the programs are that a pool needs, and where it keeps its files.

Functions that few pools call import what they need themselves: that takes longer than everything
that every pool asks here."""

import os
import sys
import threading
from pathlib import Path

from skyward.exceptions import ConfigurationError

PACKAGE = Path(__file__).absolute().parent.parent
"""Not resolved: a build folder holds links to the sources."""


MACHINES = {"arm64": "aarch64", "x86_64": "x86_64"}
"""By architecture, as `uname -m` says it."""


def agent_path() -> str:
    """The program that runs on a node."""
    path = os.environ.get("SKYWARD_AGENT") or str(PACKAGE / "bin" / "skyward-agent")
    if not os.access(path, os.X_OK):
        raise ConfigurationError(
            f"the node program is not at {path};"
            " reinstall skyward, or set SKYWARD_AGENT to where it is"
        )
    return path


def other_agents() -> dict[str, str]:
    """The same for machines of other architectures, as far as they are installed: beside it."""
    own = os.path.realpath(agent_path())
    paths = {name: f"{own}-{machine}" for name, machine in MACHINES.items()}
    return {name: path for name, path in paths.items() if os.access(path, os.X_OK)}


def is_own(architecture: str | None) -> bool:
    """Whether that is what machines of this computer's kind are; None is."""
    return architecture is None or MACHINES.get(architecture) == os.uname().machine


def record_root() -> str:
    """Where the log files of pools are kept: $XDG_STATE_HOME/skyward, ~/.local/state/skyward."""
    state = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(state):  # such a value is to be ignored
        state = os.path.abspath(os.path.expanduser("~/.local/state"))
    return os.path.join(state, "skyward")


_sysconfig = threading.Lock()


def find_uv() -> str | None:
    # sysconfig, which uv asks, is not fit for its first use by two threads at once (MultiPool).
    with _sysconfig:
        try:
            import uv

            return str(uv.find_uv_bin())
        except (ImportError, FileNotFoundError):
            import shutil

            return shutil.which("uv")


def fetch_uv(architecture: str) -> str | None:
    """uv for machines of another architecture, from where this computer's packages come from; None
    where there is none to have, then they look for one themselves."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = Path(cache) / "skyward" / "programs" / architecture
    program = folder / "bin" / "uv"
    own = find_uv()
    if program.exists() or own is None:
        return str(program) if program.exists() else None
    import subprocess
    import tempfile

    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as new:
            place = f"{MACHINES[architecture]}-unknown-linux-gnu"
            options = ["--python-platform", place, "--only-binary", ":all:", "--no-deps"]
            subprocess.run(
                [own, "pip", "install", "--quiet", "--python", sys.executable]
                + [*options, "--target", f"{new}/uv", "uv"],
                cwd="/",  # not where uv would find a project, whose index may be a stranger's
                check=True,
                capture_output=True,
                timeout=120,
            )
            os.rename(f"{new}/uv", folder)
    except (OSError, subprocess.SubprocessError):
        pass  # there, perhaps, by now: another program's
    return str(program) if program.exists() else None
