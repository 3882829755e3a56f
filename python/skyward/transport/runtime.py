"""How a node runs Python: the worker's command, and which of the caller's modules it may import."""

import contextlib
import os
import sys
from pathlib import Path
from typing import Any

from skyward.base.programs import (
    PACKAGE,
    cache_folder,
    find_uv,
    is_frozen_program,
    unicode_path,
)
from skyward.spec.image import CLIENT_PYTHON, Image
from skyward.transport.installed import is_installed


def worker_runtime(image: Image, slots: int = 1, share_key: bool = False) -> Any:
    """For nodes that share this machine's files. `slots`: tasks that run there at the same time.
    `share_key`: their processes are this user's, here, and may use managers of multiprocessing."""
    from skyward import _core

    # With packages an image has an interpreter of its own, else the caller's.
    folders = importable_folders(image.needs_environment())
    if image.needs_environment() or image.includes:
        from skyward.transport.editable import metadata_folders
        from skyward.transport.shipping import hooked_modules, included_folders

        if image.needs_environment():
            hooked = list(hooked_modules(folders))
            places = [*map(Path, folders), *(place for _, place in hooked)]
            folders += [_folder_with(name, place) for name, place in hooked]
            folders += [_folder_with(place.name, place) for place in metadata_folders(places)]
        folders = list(dict.fromkeys([*folders, *included_folders(image.includes)]))
    runtime = _core.WorkerRuntime()
    # -P: the folder of the script holds modules called output, process, results …, which are not
    # the user's.
    flags = [] if image.needs_environment() else _interpreter_flags()
    start = unicode_path("Skyward's package", str(PACKAGE / "worker" / "start.py"))
    runtime.command = ["{python}", *flags, "-P", start]
    runtime.python = unicode_path("this program's Python", sys.executable)
    environment = {
        "SKYWARD_CLIENT_PYTHON": CLIENT_PYTHON,
        "SKYWARD_SYS_PATH": os.pathsep.join(map(_in_variable, folders)),
        "SKYWARD_SLOTS": str(slots),
    }
    processes: Any = sys.modules.get("multiprocessing.process")
    if share_key and processes is not None:
        environment["SKYWARD_AUTHKEY"] = bytes(processes.current_process().authkey).hex()
    runtime.environment = environment
    return runtime


def _in_variable(folder: str) -> str:
    """As the worker's prepare_modules() reads it: a name that could not be told apart from two, or
    is no text for the engine, is % and its bytes in hexadecimal. All others start with a slash."""
    name = os.fsencode(folder)
    with contextlib.suppress(UnicodeDecodeError):
        text = name.decode()
        if os.pathsep not in text:
            return text
    return f"%{name.hex()}"


def _interpreter_flags() -> list[str]:
    """Those of the program that decide what its modules are and do. Not -E: the pool's own
    variables are for the interpreter, too."""
    if hasattr(sys, "frozen"):  # its flags are those of its packer
        return []
    flags = ["-s"] if sys.flags.no_user_site else []
    return [*flags, "-" + "O" * sys.flags.optimize] if sys.flags.optimize else flags


def ignored_variables() -> list[str]:
    """What this program's interpreter ignores of its environment, under -E and -I. A name with an
    underscore is often that of others, such as PYTHON_VERSION."""
    if hasattr(sys, "frozen") or not sys.flags.ignore_environment:
        return []
    return [
        name
        for name in os.environ
        if name.startswith("PYTHON") and name.isascii() and name.isalnum()
    ]


def remote_runtime(image: Image, slots: int = 1) -> Any:
    """The same for nodes that share no files with this machine: they receive archives."""
    from skyward import _core
    from skyward.transport.shipping import modules_archive, package_archive

    runtime = _core.WorkerRuntime()
    runtime.command = ["{python}", "-P", "{archive}/skyward/worker/start.py"]
    # The engine runs it: it asks pip for its settings, and for uv for other architectures.
    python = sys.executable if sys.executable and not is_frozen_program() else "python3"
    runtime.python = unicode_path("this program's Python", python)
    runtime.environment = {"SKYWARD_CLIENT_PYTHON": CLIENT_PYTHON, "SKYWARD_SLOTS": str(slots)}
    modules = modules_archive(image.includes, image.excludes)
    archives = [package_archive(), *([modules] if modules else [])]
    runtime.archives = [unicode_path("an archive of modules", archive) for archive in archives]
    runtime.uv = unicode_path("uv", find_uv() or "")
    return runtime


def importable_folders(own_environment: bool) -> list[str]:
    """Folders from which a worker imports what the caller imports.

    With an environment of its own a worker gets the caller's own folders, skyward and cloudpickle,
    but none of the packages that are installed for the caller: those it declares in the image."""
    entries = list(sys.path)
    program = sys.modules.get("__main__")
    script = getattr(program, "__file__", None)
    # Of `python -m package.module`, that folder is the package's: nothing in it is at the top.
    # Under -P and -I, nothing is imported from it, unless the program says so in sys.path.
    if script and not sys.flags.safe_path and getattr(program, "__spec__", None) is None:
        entries.insert(0, os.path.dirname(script))
    entries = [entry for entry in dict.fromkeys(map(_absolute, entries)) if os.path.exists(entry)]
    if not own_environment:
        return entries
    import cloudpickle  # nothing else of a local pool needs it before its nodes start

    return [
        *(entry for entry in entries if not is_installed(entry)),
        _folder_with("skyward", PACKAGE),
        _folder_with("cloudpickle", Path(cloudpickle.__file__).parent),
    ]


def _absolute(entry: str) -> str:
    """Empty for a relative one where the working directory is gone: nothing can be imported."""
    try:
        return os.path.abspath(entry or ".")
    except FileNotFoundError:
        return ""


def _folder_with(name: str, place: Path) -> str:
    """A folder from which this module alone can be imported: its own folder may hold more, as a
    site-packages does."""
    import hashlib  # packages in an image are few pools' need

    key = hashlib.sha256(os.fsencode(place)).hexdigest()[:16]
    name = place.name if place.is_file() else name
    folder = cache_folder("package", key, holds=lambda folder: (folder / name).exists())
    link = folder / name
    if not link.exists():
        with contextlib.suppress(FileExistsError):  # another program made it just now
            link.symlink_to(place)
    return str(folder)
