"""Pickles what the program has made with `typing` for its annotations: a new type, a parameter
specification, an alias. They themselves pickle by name, and nodes have none of the program's names.
Driver and worker use this."""

import sys
import typing

from cloudpickle.cloudpickle import (
    _get_or_create_tracker_id,
    _is_registered_pickle_by_value,
    _lookup_class_or_track,
    _lookup_module_and_qualname,
)

NAME = "skyward.worker.type_names"
"""This module, as its readers import it."""


def importable_name(value, name=None):
    """The name (or this one) by which readers find it in a module that they import; else None."""
    found = _lookup_module_and_qualname(value, name=name)
    return None if found is None or _is_registered_pickle_by_value(found[0]) else found[1]


def _reduce_new_type(kind):
    if importable_name(kind):
        return NotImplemented
    parts = kind.__qualname__, kind.__supertype__, kind.__module__
    return make_new_type, (*parts, _get_or_create_tracker_id(kind))


def make_new_type(name, supertype, module, identity):
    made = typing.NewType(name, supertype)
    made.__module__ = module
    return _lookup_class_or_track(identity, made)


_OPTIONS = ["bound", "covariant", "contravariant"]
if sys.version_info >= (3, 12):
    _OPTIONS.append("infer_variance")
if sys.version_info >= (3, 13):
    _OPTIONS.append("default")


def _reduce_parameter(parameter):
    name, missing = parameter.__name__, object()
    if importable_name(parameter, name):
        return NotImplemented
    found = ((option, getattr(parameter, f"__{option}__", missing)) for option in _OPTIONS)
    options = {option: value for option, value in found if value is not missing}
    identity = _get_or_create_tracker_id(parameter)
    return make_parameter, (type(parameter), name, options, identity)


def make_parameter(kind, name, options, identity):
    return _lookup_class_or_track(identity, kind(name, **options))


def _reduce_arguments(arguments):
    which = "args" if type(arguments) is typing.ParamSpecArgs else "kwargs"
    return getattr, (arguments.__origin__, which)


def _reduce_alias(alias):
    name, parameters = alias.__name__, alias.__type_params__
    if importable_name(alias, name):
        return NotImplemented
    if parameters:
        return make_generic_alias, (type(alias), name, alias.__value__, parameters)
    variables = {"__name__": alias.__module__}
    try:
        value = alias.__value__
    except NameError:  # of what only type checkers know
        return make_alias, (name, variables)
    return make_alias, (name, variables), (variables, value), None, None, set_alias


def make_generic_alias(kind, name, value, parameters):
    return kind(name, value, type_params=parameters)


def make_alias(name, variables):
    """An alias that is evaluated when it is used: its value may refer to it."""
    exec(f"type {name} = __value__", variables)
    return variables[name]


def set_alias(alias, state):
    variables, value = state
    variables["__value__"] = value


REDUCERS = {
    typing.NewType: _reduce_new_type,
    typing.ParamSpec: _reduce_parameter,
    typing.TypeVarTuple: _reduce_parameter,
    typing.ParamSpecArgs: _reduce_arguments,
    typing.ParamSpecKwargs: _reduce_arguments,
}
"""What reduces objects of a class, by the class."""
if sys.version_info >= (3, 12):
    REDUCERS[typing.TypeAliasType] = _reduce_alias

# In a worker, whose modules have names of their own, this one has both.
for _make in (make_new_type, make_parameter, make_generic_alias, make_alias, set_alias):
    _make.__module__ = NAME
sys.modules.setdefault(NAME, sys.modules[__name__])
