"""Where the programs are that a pool needs, and where it keeps its files.

Functions that few pools call import what they need themselves: that takes longer than everything
that every pool asks here."""

import contextlib
import os
import stat
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from skyward.exceptions import ConfigurationError

PACKAGE = Path(__file__).absolute().parent.parent
"""Not resolved: a build folder holds links to the sources."""


MACHINES = {"arm64": "aarch64", "x86_64": "x86_64"}
"""By architecture, as `uname -m` says it."""


def agent_path() -> str:
    """The program that runs on a node."""
    path = os.path.abspath(os.environ.get("SKYWARD_AGENT") or PACKAGE / "bin" / "skyward-agent")
    if not (os.path.isfile(path) and os.access(path, os.X_OK)):
        raise ConfigurationError(
            f"the node program is not at {path};"
            " reinstall skyward, or set SKYWARD_AGENT to where it is"
        )
    return path


def refuse_another_version() -> None:
    """Refuses to go on where pip has replaced this package while the program ran: the engine in
    memory would meet the new version's modules and agent."""
    version = sys.modules["skyward"].__version__
    with contextlib.suppress(OSError):  # a program that is packed has no such file
        if f'__version__ = "{version}"' not in (PACKAGE / "__init__.py").read_text("utf-8"):
            raise ConfigurationError(
                f"skyward was upgraded under this program, which still has version {version} in"
                " memory: restart the program (in a notebook, the kernel)"
            )


def unicode_path(what: str, path: str) -> str:
    """The path as a text for the engine, for which its bytes are UTF-8: for Python, they are what
    the locale says. Raises ConfigurationError if they are not. `what` it is of."""
    try:
        return os.fsencode(path).decode()
    except UnicodeError:
        raise ConfigurationError(
            f"{what}, {path!r}, has a name that is not valid UTF-8; rename it, or use another"
        ) from None


def other_agents() -> dict[str, str]:
    """The same for machines of other architectures, as far as they are installed: beside it."""
    own = os.path.realpath(agent_path())
    paths = {name: f"{own}-{machine}" for name, machine in MACHINES.items()}
    return {name: path for name, path in paths.items() if os.access(path, os.X_OK)}


def is_frozen_program() -> bool:
    """Whether sys.executable is this program itself, as PyInstaller and others pack it."""
    frozen = getattr(sys, "frozen", False)
    return bool(frozen) and os.path.realpath(sys.executable) == os.path.realpath("/proc/self/exe")


def record_root() -> str:
    """Where the log files of pools are kept: $XDG_STATE_HOME/skyward, ~/.local/state/skyward. Empty
    if the user has no home: then none are."""
    state = _in_home("XDG_STATE_HOME", ".local/state")
    what = "the state folder (of XDG_STATE_HOME or HOME)"
    return unicode_path(what, os.path.join(state, "skyward")) if state else ""


def cache_root() -> str:
    """Where files are kept that can be recreated: $XDG_CACHE_HOME, ~/.cache, or, if the user has
    no home, a temporary folder that is the user's own."""
    if cache := _in_home("XDG_CACHE_HOME", ".cache"):
        unicode_path("the cache folder (of XDG_CACHE_HOME or HOME)", cache)
        return cache
    folder = temporary_root()
    with contextlib.suppress(OSError):
        if make_ours(folder):
            return str(folder)
    raise ConfigurationError(
        f"you have no home directory, and {folder} is not yours alone; set XDG_CACHE_HOME to a"
        " directory of your own"
    )


def temporary_root() -> Path:
    import tempfile

    return Path(os.path.abspath(tempfile.gettempdir())) / f"skyward-{os.getuid()}"


def _in_home(variable: str, folder: str) -> str:
    """Empty if there is none. A relative path is to be ignored: nothing is kept below the working
    directory."""
    value = os.environ.get(variable, "")
    if os.path.isabs(value):
        return value
    home = os.environ.get("HOME")
    if home is None:
        home = os.path.expanduser("~")  # of the user database
    return os.path.join(home, folder) if os.path.isabs(home) else ""


def make_ours(folder: Path, others: int = stat.S_IWGRP | stat.S_IWOTH) -> bool:
    """Creates the folder if it is missing, and takes the rights of `others` from it. False if
    another user has made it, who may put there what they like: others can do so in /tmp."""
    folder.mkdir(mode=0o700, exist_ok=True)
    status = os.lstat(folder)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        return False
    if status.st_mode & others:
        folder.chmod(stat.S_IMODE(status.st_mode) & ~others)
    return True


def cache_folder(*names: str, holds: Callable[[Path], bool]) -> Path:
    """skyward/NAMES in the cache folder, for what nodes or this program will run: a folder that
    nobody else can enter. A temporary one where the cache folder cannot have it. `holds`: whether a
    folder has all that is wanted, and need not be writable."""
    cache = cache_root()
    for root in (Path(os.path.realpath(cache)), temporary_root()):
        with contextlib.suppress(OSError):
            root.parent.mkdir(parents=True, exist_ok=True)
            if not _is_safe(root):
                continue
            top = root / "skyward"
            if top.is_symlink() and os.lstat(top).st_uid == os.getuid():  # to a larger disk, say
                top = Path(os.path.realpath(top))
            ours = [top]
            for name in names:
                ours.append(ours[-1] / name)
            if not all(make_ours(folder, stat.S_IRWXG | stat.S_IRWXO) for folder in ours):
                continue
            if os.access(ours[-1], os.W_OK | os.X_OK) or holds(ours[-1]):
                return ours[-1]
    raise ConfigurationError(
        f"cannot create skyward/{'/'.join(names)} under {cache} as a folder that is yours alone and"
        " can be written to; set XDG_CACHE_HOME to a directory of your own"
    )


def _is_safe(root: Path) -> bool:
    """Whether nobody else can rename what this user has in the folder, which is created if it is
    missing. Its rights are its owner's business."""
    root.mkdir(mode=0o700, exist_ok=True)
    status = os.lstat(root)
    if status.st_mode & stat.S_ISVTX:
        return status.st_uid in (0, os.getuid())
    if status.st_uid != os.getuid() or status.st_mode & stat.S_IWOTH:
        return False
    return not status.st_mode & stat.S_IWGRP or _is_alone_in(status.st_gid)


def _is_alone_in(group: int) -> bool:
    """Whether it is the user's private group, which many systems create for each user."""
    import grp
    import pwd

    try:
        user, entry = pwd.getpwuid(os.getuid()), grp.getgrgid(group)
    except KeyError:
        return False
    return (
        user.pw_gid == group
        and entry.gr_name == user.pw_name
        and set(entry.gr_mem) <= {user.pw_name}
    )


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
    kept = Path(architecture, "bin", "uv")
    programs = cache_folder("programs", holds=lambda folder: (folder / kept).exists())
    folder, program = programs / architecture, programs / kept
    own = find_uv()
    if program.exists() or own is None:
        return str(program) if program.exists() else None
    import subprocess
    import tempfile

    try:
        with tempfile.TemporaryDirectory(dir=programs) as new:
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
            with open(f"{new}/uv/bin/uv", "rb") as file:
                os.fsync(file.fileno())  # a power cut must not leave it without its contents
            os.rename(f"{new}/uv", folder)
    except (OSError, subprocess.SubprocessError):
        pass  # there, perhaps, by now: another program's
    return str(program) if program.exists() else None
