"""The short way for pickles of small values, against pickle itself."""

import pickle
import random
import sys

import pytest
from skyward.native import quick

PLAIN = [
    None,
    True,
    False,
    *(sign * (1 << bits) + by for bits in range(63) for by in (-1, 0, 1) for sign in (1, -1)),
    (1 << 63) - 1,
    -(1 << 63),
    0.0,
    -0.0,
    1.5,
    float("inf"),
    float("nan"),
    "",
    "text",
    "\0",
    "grün 漢 🚀",
    "x" * 255,
    b"",
    b"\x80\x05.",
    bytes(255),
    (),
    (1,),
    (1, 2.5),
    ("a", b"b", None),
    (1, 2, 3, 4),
    ((), ((1, 2, 3, 4), "x"), (((True,),),)),
    tuple(range(60)),
]


class Number(int):
    pass


OTHERS = [
    1 << 63,
    -(1 << 63) - 1,
    [],
    {"a": 1},
    {1},
    1j,
    Number(3),
    bytearray(b"x"),
    len,
    "\ud800",
    "x" * 256,
    bytes(256),
    tuple("abc" * 400),
    (1, [2]),
    (((((((((1,),),),),),),),),),
]
"""What is not written; much of it is not read, either."""


def random_value(dice, depth=0):
    kind = dice.randrange(7 if depth < 4 else 6)
    if kind == 6:
        return tuple(random_value(dice, depth + 1) for _ in range(dice.randrange(6)))
    return [
        None,
        dice.random() < 0.5,
        dice.randrange(-(1 << 63), 1 << 63) >> dice.randrange(64),
        dice.uniform(-1e300, 1e300),
        "".join(chr(dice.choice([*range(128), 0xE9, 0x6F22, 0x1F680])) for _ in range(3)),
        dice.randbytes(dice.randrange(9)),
    ][kind]


def same(one, other):
    """Types included, and which zero, and that nan is nan."""
    return repr(one) == repr(other) and type(one) is type(other)


@pytest.mark.parametrize("value", PLAIN, ids=lambda value: repr(value)[:40])
def test_small_values_are_written_as_pickle_reads_them(value):
    written = quick.write_atoms(value)
    assert written and same(pickle.loads(written), value)
    (again,) = quick.read_atoms(written)
    assert same(again, value)


@pytest.mark.parametrize("protocol", [4, 5])
def test_small_values_are_read_as_pickle_writes_them(protocol):
    dice = random.Random(1)
    values = [*PLAIN, *(random_value(dice) for _ in range(2000))]
    read = 0
    for value in values:
        answer = quick.read_atoms(pickle.dumps(value, protocol))
        assert answer == () or same(answer[0], value)
        read += answer != ()
    # Not those that are there twice (pickle refers to the first), nor the longest.
    assert read > 0.8 * len(values)


def test_random_values():
    dice = random.Random(2)
    for _ in range(5000):
        value = random_value(dice)
        if written := quick.write_atoms(value):
            assert same(pickle.loads(written), value)
            assert same(*quick.read_atoms(written), value)


@pytest.mark.parametrize("value", OTHERS, ids=lambda value: repr(value)[:40])
def test_everything_else_is_left_to_pickle(value):
    assert quick.write_atoms(value) == b""
    try:
        answer = quick.read_atoms(pickle.dumps(value, 5))
    except pickle.PicklingError:
        return
    assert answer == () or same(answer[0], value)


def test_long_texts_keep_no_second_copy():
    text = "é" * 1000
    size = sys.getsizeof(text)
    assert quick.write_atoms(text) == b"" and sys.getsizeof(text) == size


def test_what_pickle_refers_to_is_left_to_it():
    text = "there twice"
    assert quick.read_atoms(pickle.dumps((text, text), 5)) == ()
    assert quick.read_atoms(pickle.dumps(len, 5)) == ()


def test_damaged_bytes_are_left_to_pickle():
    """Or mean the same to both: they may come from another machine."""
    dice = random.Random(3)
    seeds = [pickle.dumps(value, 5) for value in PLAIN] + [quick.write_atoms(v) for v in PLAIN]
    for _ in range(40_000):
        data = bytearray(dice.choice(seeds))
        for _ in range(dice.randrange(1, 4)):
            where = dice.randrange(len(data))
            data[where] = dice.choice([dice.randrange(256), *b"()t\x85\x86\x87.N}\x94"])
        if dice.random() < 0.3:
            del data[dice.randrange(len(data)) :]
        if answer := quick.read_atoms(bytes(data)):
            assert same(answer[0], pickle.loads(bytes(data))), data


def test_pickles_that_are_too_deep_or_too_wide():
    assert quick.read_atoms(b"\x80\x05" + b"(" * 100 + b"t" * 100 + b".") == ()
    assert quick.read_atoms(b"\x80\x05" + b"N" * 100 + b".") == ()
    assert quick.read_atoms(b"\x80\x05(" + b"N" * 100 + b"t.") == ()
    assert quick.read_atoms(b"\x80\x05(NN\x87.") == ()  # the third one is below the mark
    assert quick.read_atoms(b"\x80\x05(K\x01(\x94tt.") == ()  # nothing above the mark to keep
    assert quick.read_atoms(b"\x80\x05K\x01(\x94t\x86.") == ()
    assert quick.read_atoms(b"\x80\x05t.") == quick.read_atoms(b"\x80\x05\x85.") == ()
    assert quick.read_atoms(b"\x80\x05X\xff\xff\xff\xffabc.") == ()
