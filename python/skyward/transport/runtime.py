"""How a node runs Python: the worker's command, and which of the caller's modules it may import."""

import functools
import hashlib
import os
import site
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from skyward.exceptions import ConfigurationError
from skyward.spec.image import CLIENT_PYTHON, Image

PACKAGE = (
    Path(__file__).absolute().parent.parent
)  # not resolved: a build folder holds links to the sources


def worker_runtime(image: Image, slots: int = 1, share_key: bool = False) -> Any:
    """For nodes that share this machine's files. `slots`: tasks that run there at the same time.
    `share_key`: their processes are this user's, here, and may use managers of multiprocessing."""
    from skyward import _core
    from skyward.transport.shipping import included_folders

    # With packages an image has an interpreter of its own, else the caller's.
    folders = importable_folders(image.needs_environment())
    folders = list(dict.fromkeys([*folders, *included_folders(image.includes)]))
    runtime = _core.WorkerRuntime()
    # -P: the folder of the script holds modules called events, data, image …, which are not the
    # user's.
    runtime.command = ["{python}", "-P", str(PACKAGE / "_worker.py")]
    runtime.python = sys.executable
    environment = {
        "SKYWARD_CLIENT_PYTHON": CLIENT_PYTHON,
        "SKYWARD_SYS_PATH": os.pathsep.join(folders),
        "SKYWARD_SLOTS": str(slots),
    }
    processes: Any = sys.modules.get("multiprocessing.process")
    if share_key and processes is not None:
        environment["SKYWARD_AUTHKEY"] = bytes(processes.current_process().authkey).hex()
    runtime.environment = environment
    return runtime


def remote_runtime(image: Image, slots: int = 1) -> Any:
    """The same for nodes that share no files with this machine: they are sent what they need."""
    from skyward import _core
    from skyward.providers.choice import find_uv
    from skyward.transport.shipping import modules_archive, package_archive

    runtime = _core.WorkerRuntime()
    runtime.command = ["{python}", "-P", "{archive}/skyward/_worker.py"]
    runtime.python = sys.executable
    runtime.environment = {"SKYWARD_CLIENT_PYTHON": CLIENT_PYTHON, "SKYWARD_SLOTS": str(slots)}
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
    state = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(state):  # such a value is to be ignored
        state = os.path.abspath(os.path.expanduser("~/.local/state"))
    return os.path.join(state, "skyward")


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


class ModuleWatch:
    """Sees that modules of the program's own are edited from now on. Functions of the program
    itself travel with every call and do not count."""

    def __init__(self) -> None:
        self._modules = 0
        self._seen: dict[str, float] = {}  # when each file was written, as far as is known
        self._find_new()

    def changed(self) -> list[str]:
        """The paths that were written to and not told yet, each writing once. A few microseconds,
        unless something was imported meanwhile."""
        if len(sys.modules) != self._modules:
            self._find_new()  # what is imported only now, nodes have not imported before
        found = []
        for path, seen in self._seen.items():
            written = _written_at(path)
            if written not in (seen, 0.0):
                self._seen[path] = written
                found.append(path)
        return found

    def _find_new(self) -> None:
        self._modules = len(sys.modules)
        for path in _own_modules():
            if path not in self._seen:
                self._seen[path] = _written_at(path)


def _written_at(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


def _own_modules() -> Iterator[str]:
    for name, module in list(sys.modules.items()):
        top = name.partition(".")[0]
        if top in sys.stdlib_module_names or top in ("__main__", "skyward", "cloudpickle"):
            continue
        path = getattr(module, "__dict__", {}).get("__file__")
        if isinstance(path, str) and not is_installed(os.path.dirname(path)):
            yield path


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
