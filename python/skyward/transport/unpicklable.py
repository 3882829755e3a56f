"""Finds the object that cannot be pickled, and names the path to it: ``argument
'data'['x'][3].lock``."""

import time
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any

from skyward.call.by_value import StaysHere, dumps_by_value
from skyward.call.function import signature_of
from skyward.transport.references import names_in

MAX_TRIES = 500
MAX_SECONDS = 2.0
MAX_DEPTH = 24


def explain(what: str, value: Any, error: Exception) -> str:
    """The message for a value that could not be pickled."""
    path, cause = _Search().find(what, value, error)
    return f"{path}: {_reason(cause)}. It cannot travel with the function: create it inside"


def explain_arguments(
    fn: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], error: Exception
) -> str:
    """The same for the arguments of a call, each by the name of its parameter."""
    search = _Search()
    for label, value in _named(fn, args, kwargs):
        failure = search.failure(value)
        if failure is not None:
            path, cause = search.find(f"argument {label}", value, failure)
            return (
                f"{path}: {_reason(cause)}. It cannot be sent to {name}(): create it there, or"
                " pass what it is created from"
            )
    return f"the arguments of {name}() cannot be sent: {_reason(error)}"


def _reason(error: Exception) -> str:
    text = str(error).strip()
    return (
        text
        if text.lower().startswith(("cannot pickle", "can't pickle"))
        else f"cannot pickle it: {text or type(error).__name__}"
    )


def _named(fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    try:
        parameters = list(signature_of(fn).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    for position, value in enumerate(args):
        known = position < len(parameters) and parameters[position].kind.name.startswith(
            "POSITIONAL"
        )
        yield (repr(parameters[position].name) if known else str(position), value)
        if known and parameters[position].kind.name == "VAR_POSITIONAL":
            parameters = parameters[:position]
    for name, value in kwargs.items():
        yield repr(name), value


class _Search:
    """Descends from a failing value to its first part that fails by itself, until none does."""

    def __init__(self) -> None:
        self._tries = 0
        self._end = time.monotonic() + MAX_SECONDS

    def failure(self, value: Any) -> Exception | None:
        """Why a value cannot be pickled; None if it can, or if the search takes too long."""
        if self._tries >= MAX_TRIES or time.monotonic() > self._end:
            return None
        self._tries += 1
        try:
            dumps_by_value(value)
        except Exception as error:
            return error
        return None

    def find(self, path: str, value: Any, error: Exception) -> tuple[str, Exception]:
        on_the_way = {id(value)}
        for _ in range(MAX_DEPTH):
            for step, part in _parts(value):
                if id(part) in on_the_way or isinstance(part, (str, bytes, int, float, type(None))):
                    continue
                failure = self.failure(part)
                if failure is not None:
                    path, value, error = path + step, part, failure
                    on_the_way.add(id(part))
                    break
            else:
                break
        return path, error


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """The parts that pickling a value would pickle, each with its path from the value."""
    if isinstance(value, StaysHere):  # it says itself why
        return
    if isinstance(value, dict):
        for key, part in list(value.items()):
            yield f" key {key!r}", key
            yield f"[{key!r}]", part
    elif isinstance(value, (list, tuple)):
        for position, part in enumerate(value):
            yield f"[{position}]", part
    elif isinstance(value, (set, frozenset)):
        for part in value:
            yield " item", part
    elif isinstance(value, FunctionType):
        yield from _parts_of_function(value)
    if isinstance(value, (type, ModuleType, FunctionType)):
        return
    local = getattr(value, "local", None)
    if isinstance(local, FunctionType):  # a ComputeFunction
        yield f" function {local.__name__!r}", local
    for name, part in list(getattr(value, "__dict__", {}).items()):
        yield f".{name}", part
    for cls in type(value).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(value, name) and not name.startswith("__"):
                yield f".{name}", getattr(value, name)


def _parts_of_function(fn: FunctionType) -> Iterator[tuple[str, Any]]:
    for position, part in enumerate(fn.__defaults__ or ()):
        yield f" default {position}", part
    for name, part in (fn.__kwdefaults__ or {}).items():
        yield f" default {name!r}", part
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=False):
        try:
            yield f" variable {name!r}", cell.cell_contents
        except ValueError:
            continue
    for name in sorted(names_in(fn.__code__)):
        if name in fn.__globals__:
            yield f" global {name!r}", fn.__globals__[name]
