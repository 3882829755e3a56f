"""What a function refers to, and whether that can change unnoticed."""

import dis
import functools
import os
import sys
from collections.abc import Iterator
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from skyward.call.by_value import PROGRAMS
from skyward.call.function import ComputeFunction
from skyward.call.starts import STARTS_ATTRIBUTE, Starts

MISSING = object()
SIZE = object()
"""As the key of a dictionary: how many it has."""
# Attributes of functions that travel with them.
_KNOWN = {"__wrapped__", "__skyward_distributed__", STARTS_ATTRIBUTE}
_ATTRIBUTES = ("__code__", "__defaults__", "__kwdefaults__")


def look_up(place: Any, key: Any) -> Any:
    if key is None:  # a closure's cell
        try:
            return place.cell_contents
        except ValueError:
            return MISSING
    if type(place) is dict:
        return len(place) if key is SIZE else place.get(key, MISSING)
    return getattr(place, key, MISSING)


def note_references(fn: Any, seen: list[tuple[Any, Any, Any]], visited: set[int]) -> bool:
    """Records every place that the pickle of `fn` depends on, with its current value.

    False when one of them holds something that could change without being replaced (a list, an
    object): such a function is pickled for every call."""
    if id(fn) in visited:
        return True
    visited.add(id(fn))
    if type(fn) is not FunctionType or fn.__dict__.keys() - _KNOWN or len(visited) > 64:
        return False
    # Annotations are pickled too, but nobody replaces them; people change defaults and cells.
    for attribute in _ATTRIBUTES:
        seen.append((fn, attribute, getattr(fn, attribute)))
    seen.append((fn.__dict__, SIZE, len(fn.__dict__)))  # one that is added later travels, too
    values = list(fn.__defaults__ or ())
    for mapping in (fn.__kwdefaults__ or {}, fn.__dict__):
        for name, value in mapping.items():
            seen.append((mapping, name, value))
            values.append(value)
    for cell in fn.__closure__ or ():
        value = look_up(cell, None)
        seen.append((cell, None, value))
        values.append(value)
    for name in names_in(fn.__code__):
        value = fn.__globals__.get(name, MISSING)
        seen.append((fn.__globals__, name, value))
        values.append(value)
    if any(map(_is_package, values)):
        seen.extend(_missing_parts(fn))
    return all(_is_fixed(value, seen, visited) for value in values)


def _is_package(value: Any) -> bool:
    return isinstance(value, ModuleType) and "__path__" in vars(value)


def _missing_parts(fn: FunctionType) -> Iterator[tuple[Any, Any, Any]]:
    """Where submodules that the function names will be once the program has imported them: the body
    makes workers import those that the program has."""
    for name, *attributes in _chains_in(fn.__code__):
        value = fn.__globals__.get(name)
        for attribute in attributes:
            if not _is_package(value):
                break
            place = vars(value)
            value = place.get(attribute, MISSING)
            if value is MISSING:
                yield place, attribute, MISSING


@functools.lru_cache(maxsize=256)
def _chains_in(code: CodeType) -> frozenset[tuple[str, ...]]:
    """Of the code and the functions inside it: ``("xml", "dom", "minidom")`` for
    ``xml.dom.minidom``, where ``xml`` is a global."""
    chains, chain = [], None
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            chain = [step.argval]
            chains.append(chain)
        elif step.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            if chain is not None:
                chain.append(step.argval)
        elif step.opname != "EXTENDED_ARG":
            chain = None
    found = {tuple(chain) for chain in chains if len(chain) > 1}
    inside = (_chains_in(one) for one in code.co_consts if isinstance(one, CodeType))
    return frozenset(found.union(*inside))


def _is_fixed(value: Any, seen: list[tuple[Any, Any, Any]], visited: set[int]) -> bool:
    if value is None or value is MISSING or value is Ellipsis:
        return True
    kind: Any = type(value)
    if kind in (bool, int, float, complex, str, bytes):
        return True
    if kind in (tuple, frozenset, Starts):
        return all(_is_fixed(item, seen, visited) for item in value)
    if value is os.environ or value is os.environb:  # the worker's own, there
        return True
    if isinstance(value, ModuleType):
        return sys.modules.get(value.__name__) is value and value.__name__ not in PROGRAMS
    if kind in (BuiltinFunctionType, MethodType) and _is_of_hidden_object(value):
        return True
    if kind is BuiltinFunctionType:
        return _travels_by_name(value)
    if kind is ComputeFunction:
        return note_references(value.local, seen, visited)
    if kind is FunctionType or isinstance(value, type):
        if _travels_by_name(value):  # until a reload gives its name to another
            names = vars(_module_of(value))
            first = value.__qualname__.partition(".")[0]
            seen.append((names, first, look_up(names, first)))
            return True
        return kind is FunctionType and note_references(value, seen, visited)
    return False


def _is_of_hidden_object(method: Any) -> bool:
    from skyward.worker.by_value import module_with  # has cloudpickle, which takes long to load

    return module_with(method) is not None


def _travels_by_name(value: Any) -> bool:
    """True for functions and classes that pickle refers to by module and name."""
    module = _module_of(value)
    if module is None or module.__name__ in PROGRAMS:
        return False
    found: Any = module
    for part in value.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is value


def _module_of(value: Any) -> Any:
    return sys.modules.get(getattr(value, "__module__", None) or "builtins")


def names_in(code: CodeType) -> set[str]:
    """Every global name (and, harmlessly, attribute name) that the code or a function inside it
    uses."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= names_in(constant)
    return names


def imports_of(fn: Any) -> set[str]:
    """The modules that the function imports inside, or a function that travels with it, by their
    full names. Some may be names of something else in a module."""
    found: set[str] = set()
    visited: set[int] = set()
    left = [fn]
    while left and len(visited) < 64:
        one = left.pop()
        one = one.local if type(one) is ComputeFunction else one
        is_new = type(one) is FunctionType and id(one) not in visited
        if is_new and (one is fn or not _travels_by_name(one)):
            visited.add(id(one))
            found |= _imports_in(one.__code__)
            left.extend(one.__globals__.get(name) for name in names_in(one.__code__))
    return found


@functools.lru_cache(maxsize=256)
def _imports_in(code: CodeType) -> frozenset[str]:
    found, module = set(), ""
    for step in dis.get_instructions(code):
        if step.opname == "IMPORT_NAME":
            module = step.argval
            found.add(module)
        elif step.opname == "IMPORT_FROM":
            found.add(f"{module}.{step.argval}")
    inside = (_imports_in(one) for one in code.co_consts if isinstance(one, CodeType))
    return frozenset(found.union(*inside))


def heaviest(fn: Any) -> str:
    """ " ('table')": the largest global or variable around that a function refers to, if any."""
    if type(fn) is not FunctionType:
        return ""
    found = {name: fn.__globals__[name] for name in names_in(fn.__code__) & fn.__globals__.keys()}
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=False):
        found[name] = look_up(cell, None)
    if not found:
        return ""

    def size(name: str) -> int:
        value = found[name]
        known = getattr(value, "nbytes", None)
        return known if isinstance(known, int) else sys.getsizeof(value, 0)

    return f" ({max(found, key=size)!r})"
