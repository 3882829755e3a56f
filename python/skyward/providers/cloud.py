"""What the classes of clouds.py have in common."""

from dataclasses import Field, dataclass, fields
from types import UnionType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, Union, get_args, get_origin

from skyward.base.extension import compiled
from skyward.exceptions import ConfigurationTypeError
from skyward.spec.options import is_standard, standard

if TYPE_CHECKING:
    from skyward.spec.instances import InstanceSpec


LINES = {"separator": "\n"}
"""The metadata of a field whose texts may have commas: what stands between them."""


@dataclass(frozen=True)
class Cloud:
    """What the clouds have in common: their settings as text, checked against one table.

    Settings that were left out stay so in copies of dataclasses.replace() and copy.replace(), and
    so do True and False where they equal the default."""

    name: ClassVar[str]
    _said: ClassVar[frozenset[str]]  # of each value: the settings that its maker gave

    def __new__(cls, *values: Any, **named: Any) -> Self:
        cloud = super().__new__(cls)
        defaults = {setting.name: setting.default for setting in fields(cls)}
        given = {**dict(zip(defaults, values, strict=False)), **named}
        is_copy = len(named) == len(defaults)  # dataclasses.replace() passes every field
        said = [
            name
            for name, value in given.items()
            if not is_standard(value)
            and not (is_copy and isinstance(value, bool | None) and value is defaults.get(name))
        ]
        object.__setattr__(cloud, "_said", frozenset(said))
        return cloud

    def __post_init__(self) -> None:
        for setting in fields(self):
            value = getattr(self, setting.name)
            if isinstance(value, list):
                value = tuple(value)
                object.__setattr__(self, setting.name, value)
            if isinstance(value, dict) and _fits(value, setting.type):
                value = tuple(f"{name}={text}" for name, text in value.items())
                object.__setattr__(self, setting.name, value)
            if not _fits(value, setting.type):
                shown = "…" if not setting.repr else repr(value)
                raise ConfigurationTypeError(
                    f"{type(self).__name__}({setting.name}={shown}) is not valid: expected"
                    f" {_words(setting.type)}"
                )
            if setting.name not in self._said:
                object.__setattr__(self, setting.name, standard(value))
        if core := compiled():
            core.validate_settings(self.name, self.settings())

    def __repr__(self) -> str:
        """What its maker gave. The rest may be said elsewhere, and is not known before it is
        needed."""
        shown = [one.name for one in fields(self) if one.repr and one.name in self._said]
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
        return f"{type(self).__name__}({values})"

    @property
    def remote(self) -> bool:
        """Whether its nodes share no files with this machine."""
        return True

    def available_instances(self) -> "tuple[InstanceSpec, ...]":
        """Everything that the provider sells, by accelerator, its count, processors and memory.

        Asks the cloud, with the credentials that renting needs. Raises ProvisioningError."""
        from skyward.spec.instances import available_instances

        return available_instances(self)

    def settings(self) -> dict[str, str]:
        """What was given, as the engine's provider reads it. The engine takes the rest from the
        environment and from skyward.toml; what is in neither is as the fields have it."""
        settings = {}
        for one in fields(self):
            value = getattr(self, one.name)
            if one.name not in self._said or value == () or (value is None and one.default is None):
                continue
            settings[one.name] = "none" if value is None else _text(value, one)
        return settings


class NvidiaImages:
    """A provider that starts images of NVIDIA's."""

    @staticmethod
    def ubuntu(version: str = "24.04", cuda: str = "12.9.1", cuda_dist: str = "runtime") -> str:
        """The name of NVIDIA's container image with these versions, for `docker_image`."""
        return f"nvcr.io/nvidia/cuda:{cuda}-{cuda_dist}-ubuntu{version}"


def _text(value: Any, setting: "Field[Any]") -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (tuple, list)):
        return str(setting.metadata.get("separator", ",")).join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _fits(value: Any, kind: Any) -> bool:
    """Whether a setting's value is of the kind that its field is declared with. What else it must
    be is checked with all settings at once."""
    if get_origin(kind) in (Union, UnionType):
        return any(_fits(value, part) for part in get_args(kind))
    if get_origin(kind) is Literal:
        return isinstance(value, str)
    if get_origin(kind) is dict:
        return isinstance(value, dict) and all(
            isinstance(text, str) for pair in value.items() for text in pair
        )
    if get_origin(kind) is tuple:
        return isinstance(value, tuple) and all(isinstance(item, str) for item in value)
    if kind in (int, float):
        return isinstance(value, (int, kind)) and not isinstance(value, bool)
    return isinstance(value, kind)


def _words(kind: Any) -> str:
    if isinstance(kind, UnionType):
        return " or ".join(map(_words, get_args(kind)))
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(map(repr, get_args(kind)))
    if get_origin(kind) is dict:
        return "a dict of strings"
    if get_origin(kind) is tuple:
        return "a list of strings"
    names = {str: "text", bool: "True or False", int: "a whole number", float: "a number"}
    return names.get(kind, "None")
