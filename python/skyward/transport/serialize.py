"""What travels between the caller and a worker: functions by value, arguments, results, exceptions.

A function goes as cloudpickle bytes, made once and used again as long as nothing that it refers to
has changed. Arguments and results go as pickle protocol 5, with large buffers (arrays) beside the
stream and not copied into it. cloudpickle is loaded when the first function is sent."""

import pickle
import sys
import threading
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

from skyward.exceptions import SerializationError

IN_BAND_BYTES = 16 << 10
"""Smaller buffers are copied into the stream: a buffer of its own costs more than that copy."""

PROGRAMS = ("__main__", "__mp_main__")
"""Names of the program itself; the second one in processes that multiprocessing spawned."""

_reducing = threading.local()  # .by_value: inside cloudpickle, which can take functions as they are


def reduce_by_value(make: Any, fields: tuple[Any, ...]) -> Any:
    """The ``__reduce__`` of objects that hold a decorated function.

    Its module holds the wrapper under the function's name, so plain pickle would refuse to refer to
    it: under plain pickle the fields become cloudpickle bytes of their own. Inside cloudpickle they
    go as they are, so that a function that refers to itself ends."""
    if getattr(_reducing, "by_value", False):
        return make, fields
    return _load_by_value, (make, dumps_by_value(fields))


def dumps_by_value(value: Any, buffer_callback: Any = None) -> bytes:
    """cloudpickle bytes of a value. Raises what cloudpickle raises."""
    import cloudpickle

    program: Any = sys.modules.get(PROGRAMS[1])
    if program is not None and program.__name__ == PROGRAMS[1]:
        cloudpickle.register_pickle_by_value(program)
    outer = getattr(_reducing, "by_value", False)
    _reducing.by_value = True
    try:
        data: bytes = cloudpickle.dumps(value, protocol=5, buffer_callback=buffer_callback)
        return data
    finally:
        _reducing.by_value = outer


def _load_by_value(make: Any, data: bytes) -> Any:
    return make(*pickle.loads(data))


def is_kept(fn: Any) -> bool:
    """Whether the body of this very function was made before."""
    return _bodies.has(fn)


def dumps_function(fn: Any, name: str) -> bytes:
    """The body of a function, as a worker loads it."""
    kept = _bodies.get(fn)
    if kept is not None:
        return kept
    try:
        body = dumps_by_value(fn)
    except Exception as error:
        from skyward.transport.unpicklable import explain

        text = explain(f"function {name!r}", fn, error)
        raise SerializationError(text) from error.with_traceback(None)
    _bodies.put(fn, body)
    return body


def dumps_arguments(
    fn: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[bytes, list[memoryview]]:
    """The stream and the large buffers beside it. The buffers are views of the caller's memory."""
    buffers: list[memoryview] = []

    def beside(buffer: pickle.PickleBuffer) -> bool:
        try:
            view = buffer.raw()
        except BufferError:  # not contiguous
            return True
        if view.nbytes < IN_BAND_BYTES:
            return True
        buffers.append(view)
        return False

    value = (args, kwargs)
    try:
        stream = pickle.dumps(value, protocol=5, buffer_callback=beside)
        # Plain pickle refers to the classes of the program itself by name, but a worker has another
        # __main__.
        if b"_main__" not in stream and not _registered_by_value():
            return stream, buffers
    except Exception:  # a lambda, a local class, a decorated function: cloudpickle can
        pass
    buffers.clear()
    try:
        return dumps_by_value(value, beside), buffers
    except Exception as error:
        from skyward.transport.unpicklable import explain_arguments

        text = explain_arguments(fn, name, args, kwargs, error)
        raise SerializationError(text) from error.with_traceback(None)


def loads(payload: tuple[Any, list[Any]], name: str) -> Any:
    """A result, from its (stream, buffers). SerializationError: it cannot be rebuilt here."""
    stream, buffers = payload
    try:
        return pickle.loads(stream, buffers=buffers)
    except KeyboardInterrupt:  # most likely the user's, at this very moment
        raise
    except BaseException as error:  # sys.exit() of what travels would end the caller
        raise SerializationError(
            f"{name} returned, but its result cannot be rebuilt here: {type(error).__name__}:"
            f" {error}."
            " The modules of its classes must be importable on this side too"
        ) from error


def _registered_by_value() -> bool:
    """True when the user asked cloudpickle to take some importable modules by value."""
    cloudpickle = sys.modules.get("cloudpickle")
    return cloudpickle is not None and bool(
        cloudpickle.list_registry_pickle_by_value() - {PROGRAMS[1]}
    )


class _Bodies:
    """Pickled functions, each with what it referred to at that time."""

    LIMIT = 256
    LIMIT_BYTES = 64 << 20  # of bodies; the newest stays, whatever it has

    def __init__(self) -> None:
        self._lock = threading.RLock()  # any thread may send
        self._bytes = 0
        # By id; the function is kept in the entry, so that its id stays its own.
        self._entries: dict[int, tuple[Any, list[tuple[Any, Any, Any]], bytes]] = {}

    def has(self, fn: Any) -> bool:
        return id(fn) in self._entries

    def get(self, fn: Any) -> bytes | None:
        entry = self._entries.get(id(fn))
        if entry is None or _registered_by_value():
            return None
        for place, key, value in entry[1]:
            if _look_up(place, key) is not value:
                self._drop(id(fn))
                return None
        return entry[2]

    def put(self, fn: Any, body: bytes) -> None:
        seen: list[tuple[Any, Any, Any]] = []
        if _registered_by_value() or not _note_references(fn, seen, set()):
            return
        with self._lock:
            self._drop(id(fn))
            self._entries[id(fn)] = (fn, seen, body)
            self._bytes += len(body)
            for oldest in list(self._entries)[:-1]:
                if len(self._entries) <= self.LIMIT and self._bytes <= self.LIMIT_BYTES:
                    break
                self._drop(oldest)

    def _drop(self, key: int) -> None:
        with self._lock:
            entry = self._entries.pop(key, None)
            if entry is not None:
                self._bytes -= len(entry[2])


_bodies = _Bodies()
_MISSING = object()
_KNOWN = {"__wrapped__", "__skyward_distributed__"}  # attributes of functions that travel with them
_ATTRIBUTES = ("__code__", "__defaults__", "__kwdefaults__", "__closure__")


def _look_up(place: Any, key: Any) -> Any:
    if key is None:  # a closure's cell
        try:
            return place.cell_contents
        except ValueError:
            return _MISSING
    if type(place) is dict:
        return place.get(key, _MISSING)
    return getattr(place, key, _MISSING)


def _note_references(fn: Any, seen: list[tuple[Any, Any, Any]], visited: set[int]) -> bool:
    """Notes every place that the pickle of `fn` depends on, with what is there now.

    False when one of them holds something that could change without being replaced (a list, an
    object): such a function is pickled for every call."""
    if id(fn) in visited:
        return True
    visited.add(id(fn))
    if type(fn) is not FunctionType or fn.__dict__.keys() - _KNOWN or len(visited) > 64:
        return False
    # Annotations travel too, but are replaced as a whole by nobody; defaults and cells are what
    # people change.
    for attribute in _ATTRIBUTES:
        seen.append((fn, attribute, getattr(fn, attribute)))
    values = list(fn.__defaults__ or ())
    for mapping in (fn.__kwdefaults__ or {}, fn.__dict__):
        for name, value in mapping.items():
            seen.append((mapping, name, value))
            values.append(value)
    for cell in fn.__closure__ or ():
        value = _look_up(cell, None)
        seen.append((cell, None, value))
        values.append(value)
    for name in names_in(fn.__code__):
        value = fn.__globals__.get(name, _MISSING)
        seen.append((fn.__globals__, name, value))
        values.append(value)
    return all(_is_fixed(value, seen, visited) for value in values)


def heaviest(fn: Any) -> str:
    """ " ('table')": the largest global or variable around that a function refers to, if any."""
    if type(fn) is not FunctionType:
        return ""
    found = {name: fn.__globals__[name] for name in names_in(fn.__code__) & fn.__globals__.keys()}
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=False):
        found[name] = _look_up(cell, None)
    if not found:
        return ""

    def size(name: str) -> int:
        value = found[name]
        known = getattr(value, "nbytes", None)
        return known if isinstance(known, int) else sys.getsizeof(value, 0)

    return f" ({max(found, key=size)!r})"


def names_in(code: CodeType) -> set[str]:
    """Every global name (and, harmlessly, attribute name) that the code or a function inside it
    uses."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= names_in(constant)
    return names


def _is_fixed(value: Any, seen: list[tuple[Any, Any, Any]], visited: set[int]) -> bool:
    if value is None or value is _MISSING or value is Ellipsis:
        return True
    kind: Any = type(value)
    if kind in (bool, int, float, complex, str, bytes):
        return True
    if kind is tuple or kind is frozenset:
        return all(_is_fixed(item, seen, visited) for item in value)
    if isinstance(value, ModuleType):
        return sys.modules.get(value.__name__) is value and value.__name__ not in PROGRAMS
    if kind is BuiltinFunctionType or isinstance(value, type):
        return _travels_by_name(value)
    from skyward.call.function import ComputeFunction

    if kind is ComputeFunction:
        return _note_references(value.local, seen, visited)
    if kind is FunctionType:
        return _travels_by_name(value) or _note_references(value, seen, visited)
    return False


def _travels_by_name(value: Any) -> bool:
    """True for functions and classes that pickle refers to by module and name."""
    module = sys.modules.get(getattr(value, "__module__", None) or "builtins")
    if module is None or module.__name__ in PROGRAMS:
        return False
    found: Any = module
    for part in value.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is value
