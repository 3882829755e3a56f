"""What each worker process does once, before the first of some calls."""

import pickle
import sys
from collections.abc import Callable
from functools import partial, wraps
from types import FunctionType, MethodType
from typing import Any
from uuid import uuid4

from skyward.call.by_value import dumps_by_value
from skyward.call.text import name_of
from skyward.exceptions import SerializationError
from skyward.transport.unpicklable import explain

Initial = tuple[str, bytes, Callable[[], None] | None]
"""Who it is, the function with its arguments, and an empty function of the same globals. It travels
with functions, which have the globals of that one then."""


def initial_of(function: Callable[..., Any], args: tuple[Any, ...]) -> Initial:
    """Serializes them now. Raises SerializationError."""
    try:
        body = dumps_by_value((function, args))
    except Exception as error:
        text = explain("the initializer with its arguments", (function, args), error)
        raise SerializationError(text) from error.with_traceback(None)
    plain = _plain(function)
    anchor = None if plain is None else FunctionType(_nothing.__code__, plain.__globals__)
    return uuid4().hex, body, anchor


def after(initial: Initial, fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn`, which runs `initial` first in each process."""

    @wraps(fn, updated=())
    def call(*args: Any, **kwargs: Any) -> Any:
        run_once(initial)
        return fn(*args, **kwargs)

    call.__name__ = name_of(fn)
    return call


def run_once(initial: Initial) -> None:
    """In this process; again when it has raised. What it has done to the globals of a program, of
    which each function brings a copy, is there for the functions that `initial` has come with."""
    key, body, anchor = initial
    if key not in _done:
        function, args = pickle.loads(body)
        function(*args)
        _done[key] = _globals_of(function)
    if anchor is not None and not anchor.__dict__:
        anchor.__globals__.update(_done[key])
        anchor.__dict__["is_done"] = True  # functions may change these globals from here on


_done: dict[str, dict[str, Any]] = {}
"""The globals that each has left."""


def _globals_of(function: Any) -> dict[str, Any]:
    """None of a module that workers import: all its functions share them anyway."""
    plain = _plain(function)
    names = {} if plain is None else plain.__globals__
    module = sys.modules.get(names.get("__name__", ""))
    if module is not None and names is vars(module):
        return {}
    return {name: value for name, value in names.items() if not name.startswith("__")}


def _plain(function: Any) -> FunctionType | None:
    while isinstance(function, (partial, MethodType)):
        function = function.func if isinstance(function, partial) else function.__func__
    return function if isinstance(function, FunctionType) else None


def _nothing() -> None: ...
