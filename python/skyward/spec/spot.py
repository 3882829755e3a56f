"""How far a pool relies on spot machines, which are cheaper and can be preempted."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from skyward.base.extension import compiled
from skyward.exceptions import ConfigurationError
from skyward.spec.options import plain_number


@dataclass(frozen=True)
class _Always:
    """Only spot machines; an error if there is no capacity after `retries` attempts, `interval`
    seconds apart."""

    retries: int = 10
    interval: float = 1.0

    def __post_init__(self) -> None:
        _check(self)


@dataclass(frozen=True)
class _IfAvailable:
    """Spot machines; on-demand machines if there is no spot capacity."""

    retries: int = 10
    interval: float = 1.0

    def __post_init__(self) -> None:
        _check(self)


@dataclass(frozen=True)
class _Percent:
    """At least this share of the machines, from 0 to 1, are spot machines."""

    percentage: float

    def __post_init__(self) -> None:
        _check(self)


@dataclass(frozen=True)
class _Cheapest:
    """Whatever costs least."""


class _Never:
    """No spot machines. A constant: it is not called."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "Spot.Never"

    def __reduce__(self) -> str:
        return "_NEVER"


_NEVER = _Never()
for _kind, _name in (
    (_Always, "Always"),
    (_IfAvailable, "IfAvailable"),
    (_Percent, "Percent"),
    (_Cheapest, "Cheapest"),
):
    _kind.__name__, _kind.__qualname__ = _name, f"Spot.{_name}"


class Spot:
    """The strategies: ``Spot.Always(retries=10, interval=1.0)``, ``Spot.IfAvailable()``,
    ``Spot.Never``, ``Spot.Percent(0.8)``, ``Spot.Cheapest()``."""

    Always: ClassVar[type[_Always]] = _Always
    IfAvailable: ClassVar[type[_IfAvailable]] = _IfAvailable
    Percent: ClassVar[type[_Percent]] = _Percent
    Cheapest: ClassVar[type[_Cheapest]] = _Cheapest
    Never: ClassVar[_Never] = _NEVER


SpotStrategy = _Always | _IfAvailable | _Percent | _Cheapest | _Never
SpotLike = (
    Literal[
        "always",
        "if-available",
        "never",
        "cheapest",
        "spot",
        "always-spot",
        "spot-if-available",
        "on-demand",
    ]
    | float
    | SpotStrategy
)
"""A word, the minimum share of spot machines (0 to 1), or a strategy."""

_WORDS: dict[str, type] = {
    **dict.fromkeys(("always", "always-spot", "spot"), _Always),
    **dict.fromkeys(("if-available", "spot-if-available"), _IfAvailable),
    **dict.fromkeys(("never", "on-demand"), _Never),
    "cheapest": _Cheapest,
}
_KINDS: dict[str, type] = {
    "always": _Always,
    "if-available": _IfAvailable,
    "percent": _Percent,
    "cheapest": _Cheapest,
    "never": _Never,
}


def normalize_spot(value: SpotLike) -> SpotStrategy:
    """The strategy that a word or a share stands for. Raises ConfigurationError, a ValueError, for
    anything else."""
    if isinstance(value, SpotStrategy):
        return value
    if isinstance(value, str):
        if kind := _WORDS.get(value):
            strategy: SpotStrategy = _NEVER if kind is _Never else kind()
            return strategy
        if core := compiled():
            core.parse_spot(value)  # says what is known
    value = plain_number(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return _Percent(float(value))
    if isinstance(value, type) and value in _KINDS.values():
        raise ConfigurationError(f"spot={value.__qualname__}: call it: {value.__qualname__}(…)")
    raise ConfigurationError(
        f"spot={value!r}: choose 'always', 'if-available', 'never' or 'cheapest', the minimum"
        " share of spot machines from 0 to 1, or a strategy such as Spot.Always(retries=3)"
    )


def to_core(strategy: SpotStrategy) -> Any:
    from skyward import _core

    spot = _core.Spot()
    spot.kind = next(kind for kind, cls in _KINDS.items() if isinstance(strategy, cls))
    for name in ("percentage", "retries", "interval"):
        if hasattr(strategy, name):
            setattr(spot, name, getattr(strategy, name))
    return spot


def _check(strategy: Any) -> None:
    for name in ("percentage", "retries", "interval"):
        if not hasattr(strategy, name):
            continue
        value = plain_number(getattr(strategy, name))
        if isinstance(value, bool) or not isinstance(
            value, int if name == "retries" else (int, float)
        ):
            raise ConfigurationError(f"Spot: {name}={value!r} is not a number")
        object.__setattr__(strategy, name, value)
    if core := compiled():
        core.validate_spot(to_core(strategy))
