"""Which folders belong to the interpreter, and which to the program."""

import functools
import os
import site
import sysconfig
from pathlib import Path


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
    roots.add(os.path.dirname(os.__file__))  # the library of an interpreter that was just compiled
    return frozenset(os.path.realpath(root) for root in roots if root)
