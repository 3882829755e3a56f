"""Where machines come from."""

import os
import shutil
import sys
from dataclasses import dataclass
from typing import Any

from skyward.exceptions import ConfigurationError

_MEMORY_UNITS = {"": 1, "M": 1, "MB": 1, "MIB": 1, "G": 1024, "GB": 1024, "GIB": 1024}


@dataclass(frozen=True)
class Local:
    """Nodes as processes of this machine: for trying out, for tests, and for using all of its
    cores.

    An empty image runs the caller's own interpreter with all its packages; an image with packages
    gets an environment of its own, made by uv and kept for the next time."""

    name: str = "local"

    def settings(self) -> dict[str, str]:
        """What the engine's provider needs to know of this side."""
        import cloudpickle

        settings = {"python": sys.executable, "cloudpickle": cloudpickle.__version__}
        uv = _find_uv()
        if uv:
            settings["uv"] = uv
        return settings

    def check(self, accelerator: Any, cpu: int | None, memory: str | None, volume: Any) -> None:
        """Refuses what this machine cannot give."""
        if accelerator is not None:
            raise ConfigurationError(
                f"accelerator={accelerator!r}: the local provider offers none;"
                " leave accelerator out to use this machine"
            )
        if volume:
            raise ConfigurationError(
                "volume: the local provider mounts none; tasks see this machine's files as they are"
            )
        cores = len(os.sched_getaffinity(0))
        if cpu is not None and cpu > cores:
            raise ConfigurationError(f"cpu={cpu}: this machine has {cores}")
        if memory is not None:
            total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20
            if parse_memory_mb(memory) > total:
                raise ConfigurationError(f"memory={memory!r}: this machine has {total} MB")


def resolve_provider(provider: Any) -> Local:
    """The provider that a pool is given: none means this machine, a name means its defaults."""
    if provider is None or provider == "local":
        return Local()
    if isinstance(provider, Local):
        return provider
    raise ConfigurationError(
        f"provider={provider!r}: there is no such provider; Local(), or its name 'local', is known"
    )


def parse_memory_mb(memory: str | int) -> int:
    """ "32GB" → 32768. A number without a unit is in megabytes."""
    text = str(memory).strip().upper()
    digits = text.rstrip("GMIB ")
    unit = text[len(digits) :].strip()
    try:
        value = float(digits) * _MEMORY_UNITS[unit]
    except (ValueError, KeyError):
        value = 0
    if not 0 < value < 1 << 40:
        raise ConfigurationError(
            f'memory={memory!r}: write a number with a unit, such as "32GB" or "512MB"'
        )
    return int(value)


def _find_uv() -> str | None:
    try:
        import uv

        return str(uv.find_uv_bin())
    except (ImportError, FileNotFoundError):
        return shutil.which("uv")
