"""Storage that tasks see as a directory."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from skyward.base.extension import compiled
from skyward.exceptions import ConfigurationTypeError
from skyward.spec.options import truth


@runtime_checkable
class Volume(Protocol):
    """Storage of a kind that you define: the shell commands that install what it needs and mount
    it. Each runs as root on the node, in order."""

    @property
    def mount_path(self) -> str:
        """Where tasks see it; an absolute path."""

    def install_commands(self) -> list[str]: ...

    def mount_commands(self) -> list[str]: ...


@dataclass(frozen=True)
class S3Volume:
    """A bucket, or the part of it under a prefix, as a directory."""

    mount_path: str
    bucket: str
    prefix: str = ""
    read_only: bool = True

    def __post_init__(self) -> None:
        _check([self])


VolumeLike = Sequence[Volume | S3Volume] | Mapping[str, str]
"""Volumes, or a mapping from path to address: ``{"/data": "s3://bucket/prefix"}``."""


def normalize_volumes(value: VolumeLike | None) -> tuple[Any, ...]:
    """The volumes that a pool is given. Raises ConfigurationTypeError for anything else, and
    ConfigurationError for two at one path."""
    if value is None:
        return ()
    if isinstance(value, Mapping):
        volumes: list[Any] = []
        for path, uri in value.items():
            if not isinstance(path, str) or not isinstance(uri, str):
                raise ConfigurationTypeError(f"volume={{{path!r}: {uri!r}}}: both must be strings")
            if core := compiled():
                core.parse_volume(path, uri)
            bucket, _, prefix = uri.removeprefix("s3://").partition("/")
            volumes.append(S3Volume(path, bucket, prefix))
    elif isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        volumes = list(value)
    else:
        fix = ": write volume=[…]" if isinstance(value, (S3Volume, Volume)) else ""
        raise ConfigurationTypeError(
            f"volume={value!r}: a list of volumes is expected, or a mapping such as"
            f' {{"/data": "s3://bucket/prefix"}}{fix}'
        )
    for volume in volumes:
        if not isinstance(volume, (S3Volume, Volume)):
            raise ConfigurationTypeError(
                f"volume: {volume!r} ({type(volume).__name__}) is not a volume;"
                " S3Volume(mount_path, bucket) is one"
            )
    _check(volumes)
    return tuple(volumes)


def to_core(volume: Any) -> Any:
    from skyward import _core

    for name in ("mount_path", "bucket", "prefix"):
        value = getattr(volume, name, "")
        if not isinstance(value, str):
            raise ConfigurationTypeError(f"volume: {name}={value!r}: a string is expected")
    core = _core.Volume()
    core.mount_path = volume.mount_path
    if isinstance(volume, S3Volume):
        core.bucket, core.prefix = volume.bucket, volume.prefix
        core.read_only = truth("volume: read_only", volume.read_only)
    else:
        core.install_commands = list(volume.install_commands())
        core.mount_commands = list(volume.mount_commands())
    return core


def _check(volumes: Sequence[Any]) -> None:
    if core := compiled():
        core.validate_volumes([to_core(volume) for volume in volumes])
