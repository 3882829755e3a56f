"""Accelerators: what each machine of a pool must have.

``"A100"``, ``Accelerator.NVIDIA.H100(count=4, mig="3g.40gb")`` and
``sky.accelerators.H100(count=4)`` all end as one Accelerator. The catalogue behind them is
skyward/spec/accelerators.tsv."""

# ruff: noqa: N802 (the factories have the names of the models)

from collections.abc import Callable
from dataclasses import dataclass
from operator import getitem
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from skyward.base.extension import compiled
from skyward.exceptions import ConfigurationError, ConfigurationTypeError
from skyward.spec.options import is_standard, plain_number, standard, truth

if TYPE_CHECKING:
    from skyward.spec.nvidia import NVIDIAFactories

Mig = str | list[str] | tuple[str, ...]
"""A profile that fills each GPU ("3g.40gb"), or the profiles of one GPU, one by one."""


class AMDFactories:
    """``Accelerator.AMD``."""

    @staticmethod
    def MI(model: str, count: float = 1) -> "Accelerator":
        """``MI("300X")``: "50", "100", "210", "250", "250X", "300A", "300B" or "300X"."""
        return from_catalogue(f"MI{model}", count)

    @staticmethod
    def RadeonPro(model: str, count: float = 1) -> "Accelerator":
        """``RadeonPro("V520")`` or "V710"."""
        return from_catalogue(f"RadeonPro-{model}", count)

    @staticmethod
    def Instinct(model: str, count: float = 1) -> "Accelerator":
        """``Instinct("MI25")``."""
        return from_catalogue(f"Instinct-{model}", count)


class HabanaFactories:
    """``Accelerator.Habana``."""

    @staticmethod
    def Gaudi(version: int = 3, count: float = 1) -> "Accelerator":
        """Version 1, 2 or 3."""
        return from_catalogue("Gaudi" if version == 1 else f"Gaudi{version}", count)


class AWSFactories:
    """``Accelerator.AWS``."""

    @staticmethod
    def Trainium(version: int = 2, count: float = 1) -> "Accelerator":
        """Version 1, 2 or 3."""
        return from_catalogue(f"Trainium{version}", count)

    @staticmethod
    def Inferentia(version: int = 2, count: float = 1) -> "Accelerator":
        """Version 1 or 2."""
        return from_catalogue(f"Inferentia{version}", count)


class GoogleFactories:
    """``Accelerator.Google``."""

    @staticmethod
    def TPU(version: str = "v5p", count: float = 1) -> "Accelerator":
        """Version "v2", "v3", "v4", "v5e", "v5p" or "v6"."""
        return from_catalogue(f"TPU{version}", count)

    @staticmethod
    def TPUSlice(slice: str, count: float | None = None) -> "Accelerator":
        """A part of a pod, such as "v5p-8"; `count` is the number of its cores."""
        return from_catalogue(f"TPU{slice}", count)


@dataclass(frozen=True, init=False, repr=False)
class Accelerator:
    """What each machine must have. Immutable; compares by all but whether the memory was asked for.

    Attributes:
        name: the model in the catalogue's spelling; `accelerator` is the same.
        memory: of one device, such as "80GB"; "" means whatever the model has.
        count: devices; below 1, a share of one.
        multiple_instance: how each GPU is split (`mig` is the same), or None.
        memory_required: the memory was asked for, or partitions of it, so that devices with another
            one do not fit. An argument only for dataclasses.replace() and copy.replace().
        custom: the catalogue does not have the name.

    Raises ConfigurationError for models, memories, counts and partitions that do not exist, and
    names the nearest that do."""

    NVIDIA: ClassVar["NVIDIAFactories[Accelerator]"]  # set by skyward.accelerators
    AMD: ClassVar[type[AMDFactories]] = AMDFactories
    Habana: ClassVar[type[HabanaFactories]] = HabanaFactories
    AWS: ClassVar[type[AWSFactories]] = AWSFactories
    Google: ClassVar[type[GoogleFactories]] = GoogleFactories

    name: str
    memory: str
    count: float
    multiple_instance: str | tuple[str, ...] | None
    memory_required: bool
    custom: bool
    cuda_min: str
    cuda_max: str

    __match_args__ = ("name", "memory", "count", "multiple_instance")

    def __init__(
        self,
        name: str = "",
        memory: str = "",
        count: float = 1,
        multiple_instance: Mig | None = None,
        *,
        accelerator: str | None = None,
        mig: Mig | None = None,
        custom: bool = False,
        cuda_min: str = "",
        cuda_max: str = "",
        memory_required: bool | None = None,
    ) -> None:
        if accelerator is not None and name:
            raise ConfigurationError("name= and accelerator= mean the same; give one of them")
        if mig is not None and multiple_instance is not None:
            raise ConfigurationError("mig= and multiple_instance= mean the same; give one of them")
        wanted = _Plain(
            name=_text("name", name if accelerator is None else accelerator),
            memory=_text("memory", memory),
            count=_number(count),
            mig=_partitions(multiple_instance if mig is None else mig),
            memory_required=bool(memory) and not (memory_required is False and is_standard(memory)),
            custom=truth("custom", custom),
            cuda_min=_text("cuda_min", cuda_min),
            cuda_max=_text("cuda_max", cuda_max),
        )
        core = compiled()
        self._fill(wanted if core is None else _to_core(core, wanted).checked())

    def _fill(self, values: Any) -> None:
        mig, count = values.mig, values.count
        whole = int(count) if count >= 1 else count
        object.__setattr__(self, "count", whole)
        object.__setattr__(
            self, "multiple_instance", mig if isinstance(mig, str | None) else tuple(mig)
        )
        for name in ("name", "memory", "memory_required", "custom", "cuda_min", "cuda_max"):
            object.__setattr__(self, name, getattr(values, name))
        if not self.memory_required:  # for dataclasses.replace()
            object.__setattr__(self, "memory", standard(self.memory))

    @staticmethod
    def from_value(value: "Accelerator | str | None") -> "Accelerator | None":
        """None and an Accelerator as they are; a name becomes one device with that name."""
        if value is None or isinstance(value, Accelerator):
            return value
        if isinstance(value, str):
            count, times, name = value.partition("x")
            if times and count.isdecimal() and name:
                raise ConfigurationError(
                    f"accelerator={value!r}: give the count separately:"
                    f" Accelerator({name!r}, count={int(count)})"
                )
            return Accelerator(str(value))
        if callable(value) and getattr(value, "__module__", "") == "skyward.accelerators":
            raise ConfigurationError(
                f"accelerator={value.__name__}: call it: sky.accelerators.{value.__name__}()"
            )
        raise ConfigurationError(
            f"accelerator={value!r}: a name such as 'A100' is expected,"
            " or an Accelerator such as sky.accelerators.A100()"
        )

    @staticmethod
    def from_name(name: str, **overrides: Any) -> "Accelerator":
        """A model of the catalogue with the memory that it has there. `overrides` are count,
        memory, form_factor and mig. Raises ConfigurationError for an unknown name."""
        return from_catalogue(name, **overrides)

    def with_count(self, count: float) -> "Accelerator":
        """The same with another number of devices."""
        core = self.to_core()
        core.count = _number(count)
        return _made(core.checked())

    @property
    def accelerator(self) -> str:
        """The same as name."""
        return self.name

    @property
    def mig(self) -> str | tuple[str, ...] | None:
        """The same as multiple_instance."""
        return self.multiple_instance

    @property
    def fractional(self) -> bool:
        """True for a share of one device."""
        return 0 < self.count < 1

    @property
    def workers_per_node(self) -> int:
        """Workers on each machine: one for each partition of its GPUs, else one."""
        return int(self.to_core().workers_per_node())

    @property
    def metadata(self) -> dict[str, Any]:
        """What the catalogue knows: {"vendor", "architecture", "memory_gb", "form_factor", "cuda"};
        the last is {"min", "max"} or None without CUDA."""
        facts: dict[str, Any] = self.to_core().facts()
        return facts

    def to_core(self) -> Any:
        """The same for the extension."""
        from skyward import _core

        return _to_core(_core, self)

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Accelerator) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        mig, cuda = self.multiple_instance, (self.cuda_min, self.cuda_max)
        return (self.name, self.memory, self.count, mig, self.custom, cuda)

    def __str__(self) -> str:
        return self.name if self.count == 1 else f"{self.count:g}x{self.name}"

    def __repr__(self) -> str:
        parts = [repr(self.name)]
        if self.memory:
            parts.append(f"memory={self.memory!r}")
        if self.count != 1:
            parts.append(f"count={self.count!r}")
        if self.multiple_instance is not None:
            parts.append(f"mig={self.multiple_instance!r}")
        if self.custom:
            parts.append("custom=True")
        return f"Accelerator({', '.join(parts)})"


# Whoever gets the class by its name gets NVIDIA's functions, too.
Accelerator.__module__ = "skyward.accelerators"


def from_catalogue(
    name: str,
    count: float | None = None,
    memory: str | None = None,
    mig: Mig | None = None,
    form_factor: str | None = None,
) -> Accelerator:
    """A model of the catalogue, with its memory filled in."""
    core = compiled()
    if core is None:
        return Accelerator(name, memory or "", 1 if count is None else count, mig)
    return _made(
        core.catalogue_accelerator(
            _text("name", name),
            None if count is None else _number(count),
            _text("memory", memory or ""),
            _text("form_factor", form_factor or ""),
            _partitions(mig),
        )
    )


def custom(
    name: str,
    memory: str = "",
    count: float = 1,
    cuda_min: str | None = None,
    cuda_max: str | None = None,
) -> Accelerator:
    """A model that the catalogue does not have; the name is passed to the provider as it is."""
    return Accelerator(
        name, memory, count, custom=True, cuda_min=cuda_min or "", cuda_max=cuda_max or ""
    )


class _Name(str):
    """A model's name that can also be called: ``NVIDIA.A100`` and ``NVIDIA.A100(count=2)``."""

    __slots__ = ()

    def __call__(self, count: float | None = None, **options: Any) -> Accelerator:
        return from_catalogue(str(self), count, **options)

    def __reduce__(self) -> tuple[Callable[[str], str], tuple[str]]:
        return str, (str(self),)


def namespace_of(names: Any) -> Any:
    """The Literal type itself, on which each of its names is also an attribute."""
    alias: Any = getitem(Literal, get_args(names))
    for name in get_args(names):
        attribute = name.replace(" ", "_").replace("-", "_")
        alias.__dict__[attribute] = _Name(name)
    return alias


@dataclass(frozen=True)
class _Plain:
    """A request as the caller wrote it."""

    name: str
    memory: str
    count: float
    mig: str | list[str] | None
    memory_required: bool
    custom: bool
    cuda_min: str
    cuda_max: str


def _to_core(core: Any, values: Any) -> Any:
    wanted = core.Accelerator()
    for name in ("name", "memory", "count", "memory_required", "custom", "cuda_min", "cuda_max"):
        setattr(wanted, name, getattr(values, name))
    wanted.mig = _partitions(values.mig)
    return wanted


def _made(values: Any) -> Accelerator:
    made = object.__new__(Accelerator)
    made._fill(values)
    return made


def _text(what: str, value: Any) -> str:
    if isinstance(value, str):
        return str(value)
    raise ConfigurationTypeError(f"{what}={value!r}: a string is expected")


def _number(count: Any) -> float:
    count = plain_number(count)
    if isinstance(count, bool) or not isinstance(count, (int, float)):
        raise ConfigurationError(f"count={count!r}: a number of devices is expected")
    return float(count)


def _partitions(mig: Any) -> str | list[str] | None:
    if mig is None or isinstance(mig, str):
        return mig
    if isinstance(mig, (list, tuple)) and all(isinstance(profile, str) for profile in mig):
        return list(mig)
    raise ConfigurationError(
        f"mig={mig!r}: a profile such as '3g.40gb' is expected, or a list of them"
    )
