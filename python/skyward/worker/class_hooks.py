"""Classes whose metaclass or ``__init_subclass__`` looks at them when they are made. cloudpickle
makes a class without its attributes, and sets these afterwards. Driver and worker use this."""

import contextlib
import gc
import os
import threading
import types

from cloudpickle.cloudpickle import _should_pickle_by_reference

_LIBRARY = ("abc", "builtins", "enum", "typing")
_ATOMS = frozenset({type(None), bool, int, float, complex, str, bytes})
_setting_aside = threading.RLock()


def _after_fork():
    if not _setting_aside._is_owned():  # by the thread that forked
        _setting_aside._at_fork_reinit()


os.register_at_fork(after_in_child=_after_fork)


def early_members(cls, fields):
    """What a hook may see of these attributes: the values that refer to nothing, and the names of
    functions. Empty if there is no hook."""
    bases = [base for base in cls.__mro__[1:] if "__init_subclass__" in vars(base)]
    if all(one.__module__ in _LIBRARY for one in (type(cls), *bases)):
        return ()
    fields = {name: value for name, value in fields.items() if not name.startswith("__")}
    values = {name: value for name, value in fields.items() if _refers_to_nothing(value)}
    return values, [name for name, one in fields.items() if type(one) is types.FunctionType]


def _refers_to_nothing(value):
    if type(value) is tuple:
        return all(map(_refers_to_nothing, value))
    return type(value) in _ATOMS


def make(make_class, arguments, *early):
    """cloudpickle's class without attributes. If a hook refuses that: with the early members, and
    without the program's own hooks, whose effect on the class is among its attributes."""
    try:
        return make_class(*arguments)
    except Exception as error:
        if not early:
            raise
        try:
            cls = _make_without_own_hooks(make_class, arguments, *early)
        except Exception:
            cls = None
        if cls is None:
            with contextlib.suppress(Exception):  # its class is read-only
                error.add_note(
                    f"the class {arguments[1]!r} of your program is made here without its"
                    " attributes at first, and without the arguments of its class statement. Its"
                    " metaclass or __init_subclass__ needs them: define the class in a module"
                )
            raise
    gc.collect(1)  # the class that the hook has refused: its bases know it as long as it exists
    return cls


def _make_without_own_hooks(make_class, arguments, values, functions):
    kind, name, bases, members, *others = arguments
    members = {**dict.fromkeys(functions, _not_yet), **values, **members}
    above = [one for base in types.resolve_bases(bases) for one in base.__mro__]
    hooks = [(one, "__init_subclass__") for one in above]
    hooks += [
        (one, each) for one in kind.__mro__ for each in ("__new__", "__init__", "__prepare__")
    ]
    with _setting_aside, contextlib.ExitStack() as without:
        for owner, hook in dict.fromkeys(hooks):
            if hook in vars(owner) and not _should_pickle_by_reference(owner):
                own = vars(owner)[hook]
                without.callback(type.__setattr__, owner, hook, own)
                type.__setattr__(owner, hook, _for_other_threads(owner, hook, own))
        return make_class(kind, name, bases, members, *others)


def _for_other_threads(owner, hook, own):
    """The hook, which this thread passes over: the program may make its own classes meanwhile."""
    this_thread = threading.get_ident()

    def stand_in(one, /, *args, **options):
        if threading.get_ident() == this_thread:
            function = getattr(super(owner, one), hook)
        elif hook == "__init__":
            function = own.__get__(one)
        else:
            function = own.__get__(None, one)
        if hook == "__new__":
            return function(one, *args, **options)
        return function(*args, **options)

    kinds = {"__init__": lambda function: function, "__new__": staticmethod}
    return kinds.get(hook, classmethod)(stand_in)


def _not_yet(*_args, **_options):
    raise RuntimeError("this class is still being made: its methods cannot be called yet")
