"""Arguments and results: pickle protocol 5, with large buffers (arrays) beside the stream and not
copied into it."""

import pickle
from collections.abc import Callable
from typing import Any

from skyward.call.by_value import dumps_by_value, plain_dumps, registered_by_value
from skyward.exceptions import SerializationError
from skyward.transport.unpicklable import explain_arguments

IN_BAND_BYTES = 16 << 10
"""Smaller buffers are copied into the stream: a buffer of its own costs more than that copy."""
BESIDE_BYTES = 1 << 20
"""``bytes`` of this size are a buffer of their own, too. A worker's results.py and pickling.cc have
the same number."""
MOST_BUFFERS = 65_536
"""Of one call, the stream among them (kMaxBuffers); further ones are copied into the stream."""


class _Beside:
    """Stands for large ``bytes``, which pickle would copy into the stream, and is read as such."""

    def __init__(self, value: bytes) -> None:
        self._value = value

    def is_in(self, stream: bytes) -> bool:
        return len(self._value) < len(stream) and self._value in stream

    def __reduce_ex__(self, protocol: Any) -> tuple[type[bytes], tuple[pickle.PickleBuffer]]:
        return bytes, (pickle.PickleBuffer(self._value),)


def dumps_arguments(
    fn: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[bytes, list[memoryview]]:
    """The stream and the large buffers beside it. The buffers are views of the caller's memory."""
    try:
        stream, buffers = _dumped(_plain, args, kwargs)
        # Plain pickle refers to the classes of the program itself by name, but a worker has another
        # __main__.
        if b"_main__" not in stream and not registered_by_value():
            return stream, buffers
    except Exception:  # a lambda, a local class, a decorated function: cloudpickle can
        pass
    return dumps_arguments_by_value(fn, name, args, kwargs)


def dumps_arguments_by_value(
    fn: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[bytes, list[memoryview]]:
    """The same with cloudpickle, for what plain pickle cannot."""
    try:
        return _dumped(dumps_by_value, args, kwargs)
    except Exception as error:
        text = explain_arguments(fn, name, args, kwargs, error)
        raise SerializationError(text) from error.with_traceback(None)


def dumps_beyond_plain(
    fn: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[bytes, list[memoryview]]:
    """The same for arguments that the core leaves to Python. It pickles all that plain pickle can,
    but no large ``bytes``."""
    has_large = any(map(_is_large, (*args, *kwargs.values())))
    dumps = dumps_arguments if has_large else dumps_arguments_by_value
    return dumps(fn, name, args, kwargs)


def _dumped(
    dumps: Callable[[Any, Any], bytes], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[bytes, list[memoryview]]:
    """The arguments, with large ``bytes`` among them left where they are."""
    marked = {id(value): _Beside(value) for value in (*args, *kwargs.values()) if _is_large(value)}
    if marked:
        beside, buffers = collector()
        stream = dumps(
            (
                tuple(marked.get(id(value), value) for value in args),
                {name: marked.get(id(value), value) for name, value in kwargs.items()},
            ),
            beside,
        )
        if not any(mark.is_in(stream) for mark in marked.values()):
            return stream, buffers
        # They are inside another argument, too: pickle sends them once, as one object.
    beside, buffers = collector()
    return dumps((args, kwargs), beside), buffers


def _plain(value: Any, beside: Any) -> bytes:
    return plain_dumps(value, buffer_callback=beside)


def _is_large(value: Any) -> bool:
    return type(value) is bytes and len(value) >= BESIDE_BYTES


def collector(
    reference: Callable[[memoryview], Any] | None = None,
) -> tuple[Callable[[pickle.PickleBuffer], bool], list[Any]]:
    """A ``buffer_callback``, and the list into which it puts the large buffers, or what
    `reference` makes of them."""
    buffers: list[Any] = []

    def beside(buffer: pickle.PickleBuffer) -> bool:
        try:
            view = buffer.raw()
        except BufferError:  # not contiguous
            return True
        if view.nbytes < IN_BAND_BYTES or len(buffers) + 1 >= MOST_BUFFERS:
            return True
        buffers.append(view if reference is None else reference(view))
        return False

    return beside, buffers


def _was_interrupted(error: BaseException, stream: Any, buffers: list[Any]) -> bool:
    """Whether a signal's handler has called sys.exit() while something loaded that can be."""
    if isinstance(error, Exception):
        return False
    try:
        pickle.loads(stream, buffers=buffers)
    except KeyboardInterrupt:
        raise
    except BaseException:
        return False
    return True


def loads(payload: tuple[Any, list[Any]], name: str) -> Any:
    """A result, from its (stream, buffers). SerializationError: it cannot be rebuilt here."""
    stream, buffers = payload
    try:
        return pickle.loads(stream, buffers=buffers)
    except KeyboardInterrupt:  # most likely the user's, at this very moment
        raise
    except BaseException as error:  # sys.exit() of what travels would end the caller
        if _was_interrupted(error, stream, buffers):
            raise
        raise SerializationError(
            f"{name} returned, but its result cannot be rebuilt here: {type(error).__name__}:"
            f" {error}."
            " The modules of its classes must be importable on this side too"
        ) from error
