"""Pickles results."""

import functools
import os
import pickle
import types

from . import tensors
from .protocol import BLOB_THRESHOLD, ENTRY, MOST_BUFFERS, SMALL_BUFFER
from .result_memory import ResultMemory

memory = ResultMemory(limit=0)
"""Of this process, which sets the limit at its start."""


class SerializationError(Exception):
    """A result that does not pickle. Travels by name: the face has the class itself."""

    __module__ = "skyward.exceptions"


def dump(value):
    """Every buffer of the pickled value, the stream first."""
    if type(value) in ATOMS:
        return [pickle.dumps(value, 5)]
    if type(value) is bytes and len(value) >= BESIDE_BYTES:
        return [BYTES_BESIDE, value]
    if type(value) is types.GeneratorType:
        raise SerializationError(
            "the function returned a generator, which cannot be sent back as a value: make the "
            "function itself a generator (yield), or return a list"
        )
    buffers = []
    try:  # the plain pickler first: it is ten times as fast
        stream = tensors.dumps(value, buffer_callback=functools.partial(stays_in_stream, buffers))
    except Exception:
        buffers = []
        stream = dump_by_value(value, buffers)
    return [stream, *buffers]


def pack(pieces):
    """(number of buffers, table, inline bytes, memfd or -1); no table for one small buffer.
    SerializationError: there is no room for it."""
    if len(pieces) == 1 and len(pieces[0]) < BLOB_THRESHOLD:
        return 1, None, pieces[0], -1
    shared = []
    if sum(map(size_of, pieces)) >= BLOB_THRESHOLD:
        shared = [at for at, piece in enumerate(pieces) if size_of(piece) >= SMALL_BUFFER]
    descriptor, offsets = store(pieces, shared) if shared else (-1, {})
    table, tail = [], []
    for position, piece in enumerate(pieces):
        if position in offsets:
            table.append(ENTRY.pack(size_of(piece), offsets[position], 0, 0, 0))
        else:
            table.append(ENTRY.pack(size_of(piece), 0, 0, -1, 0))
            tail.append(piece)
    return len(pieces), b"".join(table), b"".join(tail), descriptor


ATOMS = frozenset({type(None), bool, int, float, str})
IN_BAND_BYTES = 16 << 10  # smaller buffers are copied into the stream; as in serialize.py
BESIDE_BYTES = 1 << 20  # pickle would copy such bytes into its stream; as in serialize.py


class Beside:
    """What it pickles as: bytes whose buffer is not in the stream."""

    def __reduce_ex__(self, protocol):
        return bytes, (pickle.PickleBuffer(b""),)


BYTES_BESIDE = pickle.dumps(Beside(), 5, buffer_callback=lambda _: None)


def stays_in_stream(buffers, buffer):
    """Whether pickle copies the buffer into its stream. If not, it is among `buffers` from now on,
    of which an answer takes so many."""
    try:
        view = buffer.raw()
    except BufferError:  # not contiguous
        return True
    if view.nbytes < IN_BAND_BYTES or len(buffers) + 1 >= MOST_BUFFERS:
        return True
    buffers.append(view)
    return False


def dump_by_value(value, buffers):
    from .by_value import AnswerPickler, dumps
    from .unpicklable import Search, reason_of

    try:
        return dumps(value, functools.partial(stays_in_stream, buffers), AnswerPickler)
    except Exception as error:
        path, cause = Search(lambda part: dumps(part, lambda _: False)).find("result", value, error)
        reason = reason_of(cause)
        raise SerializationError(f"the result cannot be sent back: {path}: {reason}") from None


def store(pieces, positions):
    """Copies the pieces into one memfd, at multiples of 64: it, and offsets by position."""
    offsets, end = {}, 0
    for position in positions:
        offsets[position] = end
        end = (end + size_of(pieces[position]) + 63) & ~63
    views = [(offset, memoryview(pieces[at]).cast("B")) for at, offset in offsets.items()]
    try:
        return memory.store(end, views), offsets
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else error
        size = sum(map(size_of, pieces))
        raise SerializationError(
            f"the result of {size} bytes could not be stored: {reason}"
        ) from error


def size_of(buffer):
    return buffer.nbytes if type(buffer) is memoryview else len(buffer)
