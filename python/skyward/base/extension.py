"""The compiled half of the package, where there is one.

Nodes have the package without it. There, values such as pools, images and accelerators can still be
made, because a module that a task imports may make them; they are just not checked."""

# The package imports this on any Python, to refuse it: nothing here may need a recent one.
import os
import sys
from typing import Any

OLDEST_PYTHON = (3, 11)


def compiled() -> Any:
    """The extension ``skyward._core``, or None on a machine that has none."""
    try:
        from skyward import _core
    except ImportError:
        return None
    return _core


def loaded() -> Any:
    """The extension. Raises ImportError if it is not there, or is there for other Pythons."""
    from importlib import import_module

    name = "skyward._core"
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
    raise unfit()


def unfit() -> ImportError:
    """Says that this Python cannot run the package, and which one can."""
    here = f"Python {sys.version_info[0]}.{sys.version_info[1]} ({sys.executable})"
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    versions = sorted(filter(None, map(_version_of, os.listdir(folder))))
    if not versions:
        return ImportError(
            f"skyward has no compiled extension: there is no _core*.so in {folder}. Install skyward"
            f" again, for {here}. (Nodes get the package without it.)"
        )
    built = " or ".join(f"{major}.{minor}" for major, minor in versions)
    return ImportError(
        f"skyward in {folder} was built for Python {built}, and this is {here}. Run the program"
        f" with Python {built}, or install skyward for this Python; it needs"
        f" {'.'.join(map(str, OLDEST_PYTHON))} or newer"
    )


def _version_of(file: str) -> Any:
    """(3, 11) of _core.cpython-311-x86_64-linux-gnu.so; None for other files."""
    tag = file[len("_core.cpython-") :].split("-")[0]
    if not (file.startswith("_core.cpython-") and file.endswith(".so") and tag.isdigit()):
        return None
    return int(tag[0]), int(tag[1:])
