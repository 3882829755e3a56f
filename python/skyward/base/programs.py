"""Where the programs are that a pool needs, and where it keeps its files."""

import os
import shutil
import threading
from pathlib import Path

from skyward.exceptions import ConfigurationError

PACKAGE = Path(__file__).absolute().parent.parent
"""Not resolved: a build folder holds links to the sources."""


def agent_path() -> str:
    """The program that runs on a node."""
    path = os.environ.get("SKYWARD_AGENT") or str(PACKAGE / "bin" / "skyward-agent")
    if not os.access(path, os.X_OK):
        raise ConfigurationError(
            f"the node program is not at {path};"
            " reinstall skyward, or set SKYWARD_AGENT to where it is"
        )
    return path


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
            return shutil.which("uv")
