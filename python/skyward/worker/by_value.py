"""Pickles by value, as cloudpickle does, but damages less. Driver and worker use it."""

import contextlib
import copyreg
import enum
import functools
import gc
import io
import os
import pickle
import pkgutil
import sys
import threading
import types
import typing
import weakref
from typing import Any

import cloudpickle
from cloudpickle.cloudpickle import (
    _DYNAMIC_CLASS_TRACKER_BY_ID,
    _class_setstate,
    _is_registered_pickle_by_value,
    _should_pickle_by_reference,
)

from . import caches, class_hooks, kernels, nested_code, sources, tensors, type_names
from .type_names import importable_name

NAME = "skyward.worker.by_value"
"""This module, as its readers import it."""


class Pickler(cloudpickle.Pickler):
    """Of calls: what the class has become since the last call reaches the worker, too."""

    set_class: Any = None  # None: set_class()
    set_member: Any = None  # of enums; None: pickle itself sets the attributes

    def reducer_override(self, obj):
        kind = type(obj)
        if issubclass(kind, enum.Enum):
            return self._reduce_member(obj)
        if kind is types.FunctionType and obj in _NAMED:  # by the name that readers know
            return pkgutil.resolve_name, (f"{NAME}:{obj.__name__}",)
        if kind is types.FunctionType and obj.__code__ is _DISPATCHER:
            return _reduce_dispatcher(obj)
        if kind is _VARIABLES:
            return self._reduce_variables(obj)
        for known in (_REDUCERS, tensors.reducers(), kernels.reducers()):
            if kind in known:
                return known[kind](obj)
        if issubclass(kind, BaseException):
            return _reduce_exception(obj)
        reduced = super().reducer_override(obj)
        if reduced is NotImplemented:
            return self._reduce_own(obj)
        if not issubclass(type(obj), type) or type(reduced) is not tuple or len(reduced) != 6:
            return reduced
        make, arguments, state, *_ = reduced
        early = []
        if issubclass(type(obj), enum.EnumMeta):
            arguments, state = _with_members(obj, arguments, state, self.attributes_of)
        else:
            if "__slots__" in vars(obj) and typing.NamedTuple not in arguments[2]:
                arguments, state = _with_slots(obj, arguments, state)
            early = class_hooks.early_members(obj, state[0])
        arguments = (arguments[-2], make, arguments, *early)
        return find_or_make_class, arguments, state, None, None, self.set_class or set_class

    def _reduce_own(self, obj):
        """An object of the program's own, whose class may say how it pickles."""
        kind = type(obj)
        is_plain = kind.__reduce__ is _REDUCE and kind.__reduce_ex__ is _REDUCE_EX
        if is_plain or kind in self.dispatch_table or getattr(obj, "__module__", "") != "__main__":
            return NotImplemented
        reduced = obj.__reduce_ex__(self.proto)
        if isinstance(reduced, str):
            raise pickle.PicklingError(
                f"cannot pickle {reduced!r}: its class {kind.__name__} pickles it by this name in"
                " __main__, which is another module on nodes: define both in a module that your"
                " program imports"
            )
        return reduced

    def _reduce_member(self, member):
        cls, name = type(member), member._name_
        is_named = cls._member_map_.get(name) is member  # not so are combinations of flags
        if not is_named or _should_pickle_by_reference(cls):
            return NotImplemented
        attributes = self.attributes_of(member) or None
        setter = (None, None, self.set_member) if attributes and self.set_member else ()
        return getattr, (cls, name), attributes, *setter

    @staticmethod
    def attributes_of(member):
        return _attributes_of(member)

    def _reduce_variables(self, variables):
        """``os.environ`` is that of the process that uses it: a copy would bring the variables of
        this one along, secrets among them."""
        for name in ("environ", "environb"):
            if getattr(os, name) is variables:
                return getattr, (os, name)
        return NotImplemented

    def _dynamic_function_reduce(self, fn):
        try:
            fn.__annotations__  # noqa: B018  # from Python 3.14 on, this evaluates them
        except Exception:
            fn = _with_written_annotations(fn)
        make, arguments, state, *rest = super()._dynamic_function_reduce(fn)
        nested_code.add_names(fn, state[1])
        if text := sources.lines_of(fn):
            code = fn.__code__
            arguments = (code.co_filename, code.co_firstlineno, text, make, arguments)
            make = sources.make_function
        return make, arguments, state, *rest


def dumps(value: Any, buffer_callback: Any = None, pickler: Any = Pickler) -> bytes:
    outer = is_pickling()
    _here.is_pickling = True
    try:
        with io.BytesIO() as file:
            pickler(file, 5, buffer_callback).dump(value)
            return file.getvalue()
    finally:
        _here.is_pickling = outer


def is_pickling() -> bool:
    """Whether this thread is inside dumps()."""
    return getattr(_here, "is_pickling", False)


_here = threading.local()


# ---- What cloudpickle changes on the way, or cannot send


def _reduce_code(code):
    """With the file that it is from: cloudpickle from 3.1.2 on leaves it out, and with it the
    source lines of tracebacks, warnings and profiles."""
    make, arguments = cloudpickle.Pickler.dispatch_table[types.CodeType](code)
    return make, tuple(
        code.co_filename if isinstance(part, str) and part == "<dynamic-code>" else part
        for part in arguments  # bytes among them: python -bb
    )


def _reduce_cached(function):
    """An ``lru_cache`` goes empty."""
    if importable_name(function):
        return NotImplemented
    wrapped, limits = function.__wrapped__, function.cache_parameters()
    if not any(part is wrapped for part in gc.get_referents(function)):
        raise TypeError(
            f"cannot pickle the lru_cache of {function.__qualname__!r}: functools.wraps() says that"
            " it wraps another function than it calls"
        )
    state = {name: value for name, value in vars(function).items() if name not in _OF_CACHES}
    return make_cached, (wrapped, limits["maxsize"], limits["typed"]), state


_REDUCE, _REDUCE_EX = object.__reduce__, object.__reduce_ex__
_OF_CACHES = ("__wrapped__", "cache_parameters")


def make_cached(function, maxsize, typed):
    return functools.lru_cache(maxsize, typed)(function)


_DISPATCHER = functools.singledispatch(len).__code__
_OF_DISPATCHERS = ("__wrapped__", "_clear_cache", "dispatch", "register", "registry")


def _reduce_dispatcher(function):
    """A ``singledispatch`` function goes without its cache, which refers to classes weakly."""
    if importable_name(function):
        return NotImplemented
    fields = {name: value for name, value in vars(function).items() if name not in _OF_DISPATCHERS}
    state = dict(function.registry), fields
    return functools.singledispatch, (function.__wrapped__,), state, None, None, set_dispatcher


def set_dispatcher(function, state):
    functions, fields = state
    for cls, one in functions.items():
        function.register(cls, one)
    vars(function).update(fields)


def _reduce_method(method):
    module = module_with(method)
    return NotImplemented if module is None else (getattr, (module, method.__name__))


def module_with(method: Any) -> Any:
    """The module whose function this method of a hidden object is, as those of ``random`` are: a
    copy of the object would draw the same numbers in each worker. None for other methods."""
    owner, name = getattr(method, "__self__", None), getattr(method, "__name__", "")
    module = sys.modules.get(type(owner).__module__)
    if not isinstance(module, types.ModuleType) or module.__name__ in ("builtins", "__main__"):
        return None
    found = vars(module).get(name)
    is_same = type(found) is type(method) and found == method
    return module if is_same and not _is_registered_pickle_by_value(module) else None


def _reduce_cached_property(cached):
    """Without its lock, which it has before Python 3.12."""
    return functools.cached_property, (cached.func,), {"attrname": cached.attrname}


def _reduce_exception(error):
    """By its class, arguments and fields: pickle would call an ``__init__`` of the program's own
    with arguments that it may not take."""
    cls = type(error)
    has_own_way = cls in copyreg.dispatch_table or any(
        getattr(cls, name) is not getattr(BaseException, name)
        for name in ("__reduce__", "__reduce_ex__", "__setstate__")
    )
    if has_own_way:
        return NotImplemented
    has_slots = any(vars(base).get("__slots__") for base in cls.__mro__)
    if not has_slots and not isinstance(cls.__init__, types.FunctionType):
        return NotImplemented
    fields = {**slots_of(error), **vars(error)}
    return make_exception, (cls, error.args), fields, None, None, set_fields


_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: made by a class statement


def make_exception(cls, arguments):
    error = cls.__new__(cls, *arguments)
    builtin = next(base for base in cls.__mro__ if not base.__flags__ & _HEAP_TYPE)
    with contextlib.suppress(TypeError):  # its arguments may not be the builtin class's
        builtin.__init__(error, *arguments)
    return error


def set_fields(error, fields):
    for name, value in fields.items():
        with contextlib.suppress(AttributeError, TypeError):  # a field that only its class writes
            object.__setattr__(error, name, value)


def slots_of(error):
    """What an exception keeps beside ``__dict__``: slots, and fields of builtin classes such as
    OSError."""
    found = {}
    for base in type(error).__mro__:
        for name, member in vars(base).items():
            if isinstance(member, types.MemberDescriptorType) and not name.startswith("__"):
                with contextlib.suppress(AttributeError):  # not set
                    value = getattr(error, name)
                    if value is not None or base.__flags__ & _HEAP_TYPE:
                        found.setdefault(name, value)
    return found


_REDUCERS = {
    types.CodeType: _reduce_code,
    functools._lru_cache_wrapper: _reduce_cached,
    functools.cached_property: _reduce_cached_property,
    types.BuiltinFunctionType: _reduce_method,
    types.MethodType: _reduce_method,
    **type_names.REDUCERS,
}
_VARIABLES = type(os.environ)


# ---- Slots


def _with_slots(cls, arguments, state):
    """cloudpickle's arguments and state of a class, with its slots: instances of a class without
    them do not fit into this one."""
    descriptors = types.MemberDescriptorType, types.GetSetDescriptorType
    slots = tuple(  # by their names in the class, where ``__x`` is ``_Class__x``
        name
        for name, member in vars(cls).items()
        if isinstance(member, descriptors) and member.__name__ == name
    )
    make_type, name, bases, members, *rest = arguments
    fields = {name: value for name, value in state[0].items() if name not in slots}
    members = {**members, "__slots__": slots}
    return (make_type, name, bases, members, *rest), (fields, *state[1:])


# ---- Enums

_FIRST_SEEN = "__skyward_first_seen__"  # of a member: its attributes then


def _with_members(cls, arguments, state, attributes_of):
    """cloudpickle's arguments and state of an enum, with its aliases, and with what its members
    hold beside their value."""
    members = cls.__members__
    values = {name: member._value_ for name, member in members.items()}
    fields = {name: value for name, value in state[0].items() if name not in members}
    if not _values_make_members(cls):
        parts = {name: [one._value_, _payload_of(one)] for name, one in members.items()}
        values = {"__new__": new_member, "__init__": enum.Enum.__init__, **parts}
        for name in ("__new_member__", "__init__"):  # the program's own, once the members are made
            if hasattr(cls, name):
                fields.setdefault(name, getattr(cls, name))
    # Nothing reads the second part of the state: a member sets its own when it is unpickled.
    return (
        (*arguments[:3], values, *arguments[4:]),
        (fields, {"members": [one for one in members.values() if attributes_of(one)]}),
    )


def _values_make_members(cls):
    """Whether Enum makes the same members from their values, without the class's own methods."""
    new, kind = cls._new_member_, cls._member_type_
    has_own_new = isinstance(new, types.FunctionType) and new.__module__ != "enum"
    is_simple = kind is object or hasattr(kind, "__getnewargs__")
    return is_simple and not has_own_new and cls.__init__ is enum.Enum.__init__


def _payload_of(member):
    """What the type that an enum is mixed with makes its part of the member from."""
    kind, value = type(member)._member_type_, member._value_
    if kind.__new__ is object.__new__:
        return ()
    if hasattr(kind, "__getnewargs__"):  # text, bytes, numbers, tuples
        return kind.__getnewargs__(member)
    reduced = value.__reduce__() if type(value) is kind else ()  # dates
    if len(reduced) == 2 and reduced[0] is kind:
        return reduced[1]
    return value if isinstance(value, tuple) else (value,)


def new_member(cls, parts):
    """A member as it was, in place of the ``__new__`` that first made it."""
    while isinstance(parts, tuple):  # for an enum of tuples
        (parts,) = parts
    value, payload = parts
    member = cls._member_type_.__new__(cls, *payload)
    member._value_ = value
    return member


def _attributes_of(member):
    """What an enum's own ``__init__`` or ``__new__`` has given the member, as far as it can be
    pickled, and as it was when first seen here: what a member keeps to save time may be large."""
    fields = vars(member)
    if _FIRST_SEEN not in fields:
        found = {
            name: value
            for name, value in list(fields.items())
            if _is_attribute(type(member), name) and _can_travel(value)
        }
        fields.setdefault(_FIRST_SEEN, found)
    return fields[_FIRST_SEEN]


def _is_attribute(cls, name):
    if name.startswith("_") and name.endswith("_"):  # Enum's
        return False
    of_class = next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), None)
    return not isinstance(of_class, functools.cached_property)


def _can_travel(value):
    try:
        dumps(value, lambda _: False, _Trial)
    except Exception:
        return False
    return True


class _Trial(Pickler):
    """Of one attribute of a member. It may refer to the member, whose attributes are not known."""

    @staticmethod
    def attributes_of(member):
        return {}


def _with_written_annotations(fn):
    """The function with its annotations as they are written. Names that only type checkers know
    have no value."""
    import annotationlib

    copy = types.FunctionType(
        fn.__code__, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__
    )
    for name in ("__kwdefaults__", "__qualname__", "__module__", "__doc__"):
        setattr(copy, name, getattr(fn, name))
    copy.__dict__.update(fn.__dict__)
    copy.__annotations__ = annotationlib.get_annotations(fn, format=annotationlib.Format.STRING)
    return copy


# ---- Classes are made once

_unfinished = weakref.WeakSet()  # classes that were made here and are not yet filled


def find_or_make_class(name, make, arguments, *early):
    """The class of this process that cloudpickle calls so, or a new one. cloudpickle itself makes
    one first, which metaclasses and ``__init_subclass__`` would note."""
    cls = _DYNAMIC_CLASS_TRACKER_BY_ID.get(name)
    if cls is None:
        cls = class_hooks.make(make, arguments, *early)
        _unfinished.add(cls)
    return cls


def set_class(cls, state):
    if cls not in _unfinished:
        fields = state[0]
        for name in caches.kept_names(cls, fields):
            del fields[name]
    _class_setstate(cls, state)
    _unfinished.discard(cls)


# ---- Answers: the driver's classes stay as they are


def set_class_if_new(cls, state):
    """Fills a class that find_or_make_class() has made."""
    if cls in _unfinished:
        set_class(cls, state)


def set_member_if_new(member, attributes):
    if type(member) in _unfinished:
        vars(member).update(attributes)


class AnswerPickler(Pickler):
    """Of answers: a class that the reader knows is the reader's own, and is not changed."""

    set_class = staticmethod(set_class_if_new)
    set_member = staticmethod(set_member_if_new)

    def _reduce_variables(self, variables):
        return dict, (dict(variables),)  # whoever returns them wants those of the node


_NAMED = frozenset(
    {
        find_or_make_class,
        make_cached,
        make_exception,
        new_member,
        set_class,
        set_class_if_new,
        set_dispatcher,
        set_fields,
        set_member_if_new,
    }
)
sys.modules.setdefault(NAME, sys.modules[__name__])  # for a worker that reads what it writes
