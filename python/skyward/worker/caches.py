"""What classes keep with ``functools.cache`` when they arrive again: each call brings the classes
that it names, whose caches are new and empty. Driver and worker use this."""

import functools
from types import CellType, FunctionType

from cloudpickle.cloudpickle import _extract_code_globals

_CACHE = functools._lru_cache_wrapper
_METHODS = staticmethod, classmethod
_LOOKED_AT = frozenset({FunctionType, _CACHE, *_METHODS})
_ATOMS = frozenset({type(None), bool, int, float, complex, str, bytes, type(...)})
_MISSING = object()
MOST_PAIRS, MOST_ITEMS = 100, 1000
"""What takes longer to compare counts as different."""


def kept_names(cls, fields):
    """Of these attributes, with which a known class arrives again: those that are, or use, caches,
    and calculate the same as the attribute that the class has."""
    known, without, kept = vars(cls), set(), []
    for name, new in fields.items():
        kind = type(new)
        if kind is FunctionType and id(new.__globals__) in without:
            continue
        if kind in _LOOKED_AT and name in known and _has_cache(cls, new, without):
            if _is_same(known[name], new, set()):
                kept.append(name)
    return kept


def _has_cache(cls, value, without):
    """`without`: the globals that have no cache. The functions of one module share theirs."""
    if type(value) is _CACHE:
        # Each call has its own copy of the object. Where copies are not equal, the cache would
        # keep them all and never find one.
        return cls.__hash__ is not object.__hash__
    function = value.__func__ if type(value) in _METHODS else value
    if type(function) is not FunctionType:
        return type(function) is _CACHE
    variables = function.__globals__
    # In one step: other threads may assign to a global meanwhile.
    if any(type(one) is _CACHE for one in list(variables.values())):
        return True
    without.add(id(variables))
    return False


def _is_same(one, other, seen):
    """Whether two values are known to be the same for a function that uses them."""
    kind = type(one)
    if one is other or kind is not type(other) or kind in _ATOMS:
        return one is other or (kind is type(other) and one == other)
    pair = id(one), id(other)
    if pair in seen or len(seen) >= MOST_PAIRS:
        return pair in seen
    seen.add(pair)
    if kind in (tuple, list):
        return _are_same(one, other, seen)
    if kind is dict:
        return _are_same(one, other, seen) and _are_same(one.values(), other.values(), seen)
    if kind is CellType:
        return _is_same(*map(_content, (one, other)), seen)
    if kind in _METHODS:
        return _is_same(one.__func__, other.__func__, seen)
    if kind is _CACHE:
        are_alike = one.cache_parameters() == other.cache_parameters()
        return are_alike and _is_same(one.__wrapped__, other.__wrapped__, seen)
    if kind is FunctionType:
        return one.__code__ == other.__code__ and _are_same(_parts(one), _parts(other), seen)
    return False


def _are_same(ones, others, seen):
    return len(ones) == len(others) <= MOST_ITEMS and all(
        _is_same(one, other, seen) for one, other in zip(ones, others, strict=True)
    )


def _parts(function):
    variables, names = function.__globals__, _extract_code_globals(function.__code__)
    used = [variables.get(name, _MISSING) for name in names]
    others = function.__defaults__, function.__kwdefaults__, function.__closure__
    return (*used, *others, function.__dict__)


def _content(cell):
    try:
        return cell.cell_contents
    except ValueError:  # empty
        return _MISSING
