"""The compiled half of the package, where there is one.

Nodes have the package without it. There, values such as pools, images and accelerators can still be
made, because a module that a task imports may make them; they are just not checked."""

from typing import Any


def compiled() -> Any:
    """The extension ``skyward._core``, or None on a machine that has none."""
    try:
        from skyward import _core
    except ImportError:
        return None
    return _core
