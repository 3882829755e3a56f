"""Pickles by value, as cloudpickle does, but damages less. Driver and worker use it."""

import enum
import io
import pkgutil
import sys
import types
import weakref
from typing import Any

import cloudpickle
from cloudpickle.cloudpickle import _DYNAMIC_CLASS_TRACKER_BY_ID, _class_setstate

NAME = "skyward.worker.by_value"
"""This module, as its readers import it."""


class Pickler(cloudpickle.Pickler):
    """Of calls: what the class has become since the last call reaches the worker, too."""

    make_class = None  # what finds or makes a class; None: what cloudpickle takes
    set_state = staticmethod(_class_setstate)  # of classes, and of the members of enums

    def reducer_override(self, obj):
        if issubclass(type(obj), enum.Enum):
            return self._reduce_member(obj)
        reduced = super().reducer_override(obj)
        if not issubclass(type(obj), type) or type(reduced) is not tuple or len(reduced) != 6:
            return reduced
        make, arguments, state, *_ = reduced
        if issubclass(type(obj), enum.EnumMeta):
            arguments, state = _with_members(obj, arguments, state)
        if self.make_class is not None:
            make, arguments = self.make_class, (arguments[-2], make, arguments)
        return make, arguments, state, None, None, self.set_state

    def _reduce_member(self, member):
        attributes = _attributes_of(member)
        reduced = member.__reduce_ex__(self.proto) if attributes else ()
        by_value = len(reduced) == 2 and type(super().reducer_override(type(member))) is tuple
        if not by_value:
            return NotImplemented
        return *reduced, (attributes, {}), None, None, self.set_state

    def _dynamic_function_reduce(self, fn):
        try:
            fn.__annotations__  # noqa: B018  # from Python 3.14 on, this evaluates them
        except Exception:
            fn = _with_written_annotations(fn)
        return super()._dynamic_function_reduce(fn)


def dumps(value: Any, buffer_callback: Any = None, pickler: Any = Pickler) -> bytes:
    with io.BytesIO() as file:
        pickler(file, 5, buffer_callback).dump(value)
        return file.getvalue()


def _with_members(cls, arguments, state):
    """cloudpickle's arguments and state of an enum, with its aliases, and with what its members
    hold beside their value."""
    members = cls.__members__
    values = {name: member.value for name, member in members.items()}
    fields = {name: value for name, value in state[0].items() if name not in members}
    # Nothing reads the second part of the state: a member sets its own when it is unpickled.
    return (
        (*arguments[:3], values, *arguments[4:]),
        (fields, {"members": [one for one in members.values() if _attributes_of(one)]}),
    )


def _attributes_of(member):
    """What an enum's own ``__init__`` or ``__new__`` has given the member."""
    cls = type(member)
    if cls.__setattr__ is not object.__setattr__:
        return {}
    return {
        name: value
        for name, value in vars(member).items()
        if not (name.startswith("_") and name.endswith("_")) and not hasattr(cls, name)
    }


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


# ---- Answers: the driver's classes stay as they are

_unfinished = weakref.WeakSet()  # classes that an answer has made here and not yet filled


def find_or_make_class(name, make, arguments):
    """The class of this process that cloudpickle calls so, or a new one."""
    cls = _DYNAMIC_CLASS_TRACKER_BY_ID.get(name)
    if cls is None:
        cls = make(*arguments)
        _unfinished.add(cls)
    return cls


def set_state_if_new(obj, state):
    """Fills a class that find_or_make_class() has made, or sets the attributes of its member."""
    cls = obj if isinstance(obj, type) else type(obj)
    if cls in _unfinished:
        _class_setstate(obj, state)
    if cls is obj:
        _unfinished.discard(cls)


class AnswerPickler(Pickler):
    """Of answers: a class that the reader knows is the reader's own, and is not changed."""

    make_class = staticmethod(find_or_make_class)
    set_state = staticmethod(set_state_if_new)

    def reducer_override(self, obj):
        if obj is find_or_make_class or obj is set_state_if_new:  # by the name that readers know
            return pkgutil.resolve_name, (f"{NAME}:{obj.__name__}",)
        return super().reducer_override(obj)


sys.modules.setdefault(NAME, sys.modules[__name__])  # for a worker that reads what it writes
