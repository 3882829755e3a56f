"""This machine."""

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from skyward.base.programs import find_uv, unicode_path
from skyward.base.suggest import suggesting_class

if TYPE_CHECKING:
    from skyward.spec.instances import InstanceSpec


@suggesting_class
@dataclass(frozen=True)
class Local:
    """Nodes as processes of this machine: for trying things out, for tests, and for using all
    of its cores.

    An empty image runs the caller's own interpreter with all its packages; an image with packages
    gets its own environment, which uv installs and Skyward keeps for the next time."""

    name: ClassVar[str] = "local"

    @property
    def remote(self) -> bool:
        """Whether its nodes share no files with this machine."""
        return False

    def settings(self) -> dict[str, str]:
        """What the engine's provider needs to know of this side."""
        settings = {"python": unicode_path("this program's Python", sys.executable)}
        uv = find_uv()
        if uv:
            settings["uv"] = unicode_path("uv", uv)
        return settings

    def available_instances(self) -> "tuple[InstanceSpec, ...]":
        """This machine, alone."""
        from skyward.spec.instances import available_instances

        return available_instances(self)
