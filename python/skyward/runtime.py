"""How a node runs Python: the worker's command, and which of the caller's modules it may import."""

import functools
import hashlib
import os
import site
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from skyward.exceptions import ConfigurationError
from skyward.image import CLIENT_PYTHON, Image

PACKAGE = (
    Path(__file__).absolute().parent
)  # not resolved: a build folder holds links to the sources


def worker_runtime(own_environment: bool) -> Any:
    """`own_environment`: the image has packages, so its interpreter is not the caller's."""
    from skyward import _core

    runtime = _core.WorkerRuntime()
    # -P: the folder of the script holds modules called events, data, image …, which are not the
    # user's.
    runtime.command = ["{python}", "-P", str(PACKAGE / "_worker.py")]
    runtime.python = sys.executable
    runtime.environment = {
        "SKYWARD_CLIENT_PYTHON": CLIENT_PYTHON,
        "SKYWARD_SYS_PATH": os.pathsep.join(importable_folders(own_environment)),
    }
    return runtime


def remote_runtime(image: Image) -> Any:
    """The same for nodes that share no files with this machine: they are sent what they need."""
    from skyward import _core
    from skyward.providers import find_uv
    from skyward.shipping import modules_archive, package_archive

    runtime = _core.WorkerRuntime()
    runtime.command = ["{python}", "-P", "{archive}/skyward/_worker.py"]
    runtime.python = sys.executable
    runtime.environment = {"SKYWARD_CLIENT_PYTHON": CLIENT_PYTHON}
    modules = modules_archive(image.includes, image.excludes)
    runtime.archives = [package_archive(), *([modules] if modules else [])]
    runtime.uv = find_uv() or ""
    return runtime


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
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return os.path.join(os.path.abspath(state), "skyward")


def importable_folders(own_environment: bool) -> list[str]:
    """Folders from which a worker imports what the caller imports.

    With an environment of its own a worker gets the caller's own folders and skyward, but none of
    the packages that are installed for the caller: those it declares in the image."""
    entries = [os.path.abspath(entry or ".") for entry in sys.path]
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    if script:
        entries.insert(0, os.path.dirname(os.path.abspath(script)))
    entries = [entry for entry in dict.fromkeys(entries) if os.path.exists(entry)]
    if not own_environment:
        return entries
    return [*(entry for entry in entries if not is_installed(entry)), _folder_of_package_alone()]


def changed_since(moment: float) -> str | None:
    """The path of a module of the program's own whose file was written later than that, in seconds
    since 1970; functions of the program itself travel with every call and do not count."""
    for name, module in list(sys.modules.items()):
        top = name.partition(".")[0]
        if top in sys.stdlib_module_names or top in ("__main__", "skyward", "cloudpickle"):
            continue
        path = getattr(module, "__dict__", {}).get("__file__")
        try:
            if path and not is_installed(os.path.dirname(path)) and os.stat(path).st_mtime > moment:
                return str(path)
        except OSError:
            continue
    return None


@functools.cache
def is_installed(entry: str) -> bool:
    """True for the folders of the interpreter: its library, site-packages, and what is inside."""
    path = Path(os.path.realpath(entry))
    inside = any(path.is_relative_to(root) for root in _installed_roots())
    return inside or path.suffix == ".zip" or path.name in ("site-packages", "dist-packages")


@functools.cache
def _installed_roots() -> frozenset[str]:
    roots = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    roots.update(site.getsitepackages())
    roots.add(site.getusersitepackages())
    return frozenset(os.path.realpath(root) for root in roots if root)


def _folder_of_package_alone() -> str:
    """A folder that holds this package and nothing else: the package's own folder may be a
    site-packages."""
    name = hashlib.sha256(os.fsencode(PACKAGE)).hexdigest()[:16]
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    for parent in (Path(cache), Path(tempfile.gettempdir()) / f"skyward-{os.getuid()}"):
        folder = parent / "skyward" / "package" / name
        link = folder / "skyward"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if not link.exists():
                link.symlink_to(PACKAGE, target_is_directory=True)
            return str(folder)
        except FileExistsError:  # another program made it just now
            return str(folder)
        except OSError:
            continue
    raise ConfigurationError(
        f"cannot make a folder for the package under {cache};"
        " set XDG_CACHE_HOME to a place to write"
    )
