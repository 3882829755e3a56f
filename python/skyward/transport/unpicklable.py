"""Finds the object that cannot be pickled, and names the path to it: ``argument
'data'['x'][3].lock``."""

from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any

from skyward.call.by_value import StaysHere, dumps_by_value
from skyward.call.function import signature_of
from skyward.transport.references import names_in
from skyward.worker.unpicklable import Search, reason_of


def explain(what: str, value: Any, error: Exception) -> str:
    """The message for a value that could not be pickled."""
    path, cause = _Search().find(what, value, error)
    return f"{path}: {reason_of(cause)}. It cannot travel with the function: create it inside"


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
                f"{path}: {reason_of(cause)}. It cannot be sent to {name}(): create it there, or"
                " pass what it is created from"
            )
    return f"the arguments of {name}() cannot be sent: {reason_of(error)}"


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


class _Search(Search):
    """Through functions, too."""

    def __init__(self) -> None:
        super().__init__(dumps_by_value)

    def parts(self, value: Any) -> Iterator[tuple[str, Any]]:
        if isinstance(value, (StaysHere, ModuleType)):  # the first says itself why
            return
        if isinstance(value, FunctionType):
            yield from _parts_of_function(value)
            return
        local = getattr(value, "local", None)
        if isinstance(local, FunctionType):  # a ComputeFunction
            yield f" function {local.__name__!r}", local
        yield from super().parts(value)


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
