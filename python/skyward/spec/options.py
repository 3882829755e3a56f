"""The parameters of a pool, in the two vocabularies that it accepts.

Some parameters have a second name: ``allocation`` (spot), ``ttl`` (timeout), ``vcpus`` (cpu),
``memory_gb`` (memory), ``volumes`` (volume) and ``worker`` (concurrency). Giving both is an error,
even if they agree."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal, TypeVar

from skyward.base.extension import compiled
from skyward.exceptions import ConfigurationError, ConfigurationTypeError

T = TypeVar("T")


class _StandardText(str):
    """A default that is told apart from the same text given by the caller."""

    __slots__ = ()


class _StandardNumber(int):
    __slots__ = ()


class _StandardFraction(float):
    __slots__ = ()


class _StandardTuple(tuple[Any, ...]):
    __slots__ = ()


_STANDARD: dict[Any, Any] = {
    str: _StandardText,
    int: _StandardNumber,
    float: _StandardFraction,
    tuple: _StandardTuple,
}

MAX_CPU = 10_000
MAX_NODES = 10_000
MAX_CONCURRENCY = 1024
"""As in skyward/spec/limits.h."""
_VARIABLE = re.compile("[A-Za-z_][A-Za-z_0-9]*")
STANDARD_SPOT: Any = _StandardText("always")
STANDARD_TIMEOUT: int = _StandardNumber(3600)
STANDARD_CONCURRENCY: int = _StandardNumber(1)


@dataclass(frozen=True)
class Worker:
    """How a node runs tasks: ``worker=Worker(concurrency=4)``.

    Each of the `concurrency` tasks runs in a process of its own, which is what `executor` "auto"
    and "process" say."""

    concurrency: int = 1
    executor: Literal["auto", "process"] = "auto"

    def __post_init__(self) -> None:
        whole("concurrency", self.concurrency, MAX_CONCURRENCY)
        if self.executor not in ("auto", "process"):
            raise ConfigurationError(
                f"Worker(executor={self.executor!r}): tasks run in processes of their own, so one"
                " that crashes does not take others down; choose 'auto' or 'process'"
            )


def either(name: str, value: T, given: bool, synonym: str, other: Any) -> T | Any:
    """The value of a parameter that has two names."""
    if other is None:
        return value
    if given:
        raise ConfigurationError(
            f"{name}={value!r} and {synonym}={other!r} mean the same; give one of them"
        )
    return other


def standard(value: Any) -> Any:
    """An equal value, told apart from one given by the caller. None, True and False stay as they
    are."""
    return _STANDARD.get(type(value), lambda same: same)(value)


def is_standard(value: Any) -> bool:
    return type(value) in _STANDARD.values()


def concurrency_of(worker: Any) -> int | None:
    if worker is None:
        return None
    if not isinstance(worker, Worker):
        raise ConfigurationError(f"worker={worker!r}: Worker(concurrency=…) is expected")
    return worker.concurrency


def processors(value: Any) -> float | None:
    """The `cpu` of a pool: a positive number, or None."""
    if value is None:
        return None
    value = plain_number(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= MAX_CPU:
        raise ConfigurationError(
            f"cpu={value!r}: a positive number of processors is expected, at most {MAX_CPU}"
        )
    return value


def memory_mb(value: Any) -> int | None:
    """The `memory` of a pool in MB."""
    if value is None:
        return None
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        raise ConfigurationTypeError(
            f'memory={value!r} has no unit; write memory="{value:g}GB", or memory_gb={value:g}'
        )
    if not isinstance(value, str):
        raise ConfigurationTypeError(f'memory={value!r}: text such as "32GB" is expected')
    core = compiled()
    return None if core is None else int(core.parse_memory_mb(value))


def memory_from_gb(value: Any) -> str | None:
    """The `memory_gb` of a pool as its `memory`."""
    if value is None:
        return None
    value = plain_number(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1e9:
        raise ConfigurationError(f"memory_gb={value!r}: a positive number is expected")
    return f"{value:g}GB"


def dollars(name: str, value: Any) -> float | None:
    if value is None:
        return None
    value = plain_number(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1e9:
        raise ConfigurationError(f"{name}={value!r}: a positive number of dollars is expected")
    return float(value)


def one_of_architectures(value: Any) -> Any:
    if value not in (None, "x86_64", "arm64"):
        raise ConfigurationError(
            f"architecture={value!r}: choose 'x86_64' or 'arm64', or leave it out"
        )
    return value


SELECTIONS = ("first", "cheapest", "available")


def one_of_selections(value: Any) -> Any:
    if value not in SELECTIONS:
        near = get_close_matches(str(value), SELECTIONS, 1)
        hint = f"did you mean {near[0]!r}? Choose one of" if near else "choose one of"
        raise ConfigurationError(f"selection={value!r}: {hint} {', '.join(map(repr, SELECTIONS))}")
    return value


def whole(name: str, value: Any, most: int) -> int:
    value = plain_number(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise ConfigurationError(f"{name}={value!r}: a whole number is expected, from 1 to {most}")
    return value


def plain_number(value: Any) -> Any:
    """A number of numpy as one of Python; anything else as it is."""
    if isinstance(value, (bool, int, float)) or type(value).__module__ != "numpy":
        return value
    try:
        return value.item()
    except (AttributeError, ValueError):  # an array
        return value


def truth(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ConfigurationTypeError(f"{name}={value!r}: True or False is expected")
    return value


def text_or_none(name: str, value: Any) -> str | None:
    if value is not None and (not isinstance(value, str) or not value):
        raise ConfigurationTypeError(f"{name}={value!r}: a string is expected, or None")
    if value is not None:
        _check_text(name, value)
    return value


def _check_text(name: str, text: str) -> None:
    """Half a surrogate pair, as in names of files that are no UTF-8, is a str but no text; and no
    program takes a NUL in one. It is not quoted: it may be a secret."""
    if "\0" in text:
        raise ConfigurationError(f"{name}: character {text.index(chr(0))} is NUL")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ConfigurationTypeError(
            f"{name}: character {error.start} is not valid Unicode"
        ) from None


def texts(name: str, value: Any) -> list[str]:
    """A list of texts, copied, since the caller may change it. A single string is refused."""
    if not isinstance(value, (list, tuple)) or not all(isinstance(item, str) for item in value):
        fix = f": write [{value!r}]" if isinstance(value, str) else ""
        raise ConfigurationTypeError(f"{name}={value!r}: a list of strings is expected{fix}")
    for position, item in enumerate(value):
        if not item:
            raise ConfigurationError(f"{name}={value!r}: item {position} is empty")
        _check_text(name, item)
    return list(value)


def variables(name: str, value: Any) -> dict[str, str]:
    """Environment variables, copied."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ConfigurationTypeError(
            f'{name}={value!r}: a mapping is expected, such as {{"NAME": "value"}}'
        )
    for key, text in value.items():
        if not isinstance(key, str) or not isinstance(text, str):
            raise ConfigurationTypeError(
                f"{name}={{{key!r}: {text!r}}}: names and values must be strings"
            )
        if not _VARIABLE.fullmatch(key):
            raise ConfigurationError(
                f"{name}: {key!r} is not a valid environment variable name; use letters, digits and"
                " underscores, not starting with a digit"
            )
        _check_text(f"{name}[{key!r}]", text)
        if key == "COMPUTE_POOL":
            raise ConfigurationError(
                f"{name}: COMPUTE_POOL tells tasks where they are, and is set by the pool"
            )
    return dict(value)


def positive_seconds(name: str, value: Any, less_than: float = 1e9) -> float:
    value = plain_number(value)
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not 0 < value < less_than:
        raise ConfigurationError(f"{name}={value!r}: a positive number of seconds is expected")
    return float(value)


def seconds_or_none(name: str, value: Any) -> float | None:
    return None if value is None else positive_seconds(name, value)


def lifetime(value: Any, name: str = "timeout") -> float:
    """The `timeout` of a pool. As `ttl`, 0 means no limit."""
    least = 0 if name == "ttl" else 1e-9
    value = plain_number(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value < 1e9:
        raise ConfigurationError(f"{name}={value!r}: a positive number of seconds is expected")
    return float(value)
