"""When the inputs of pool.map() are drawn."""

import array
import collections
import itertools

import numpy as np
import pytest
from skyward.pool.drawn_inputs import DrawnInputs, keeps_its_items


def drawn(inputs, room, **options):
    source = DrawnInputs(iter(inputs), **options)
    return list(source.draw(room)), source


def test_draws_as_many_as_there_is_room_for():
    parts, source = drawn([(x,) for x in range(100)], 60)
    assert parts == [[(x,) for x in range(60)]] and not source.is_dry
    assert list(source.draw(60)) == [[(x,) for x in range(60, 100)]] and source.is_dry


def test_what_is_put_back_is_drawn_first():
    def inputs():
        yield from [(0,), (1,), (2,)]
        raise LookupError("no more rows")

    parts, source = drawn(inputs(), 10)
    assert source.is_dry
    source.put_back(parts[0][2:])
    source.put_back(parts[0][1:2])
    assert not source.is_dry
    assert list(source.draw(1)) == [[(1,)]] and not source.is_dry
    assert list(source.draw(5)) == [[(2,)]] and source.is_dry


def test_what_can_be_changed_is_given_out_before_the_next_one_is_drawn():
    had = []

    def inputs():
        for x in range(6):
            had.append(x)
            yield ([x],) if x in (2, 3) else (x, (x, "fixed"))

    parts = []
    source = DrawnInputs(inputs(), one_by_one=True)
    for part in source.draw(10):
        parts.append((len(part), had[-1]))
    assert parts == [(2, 2), (1, 2), (1, 3), (2, 5)] and source.is_dry


@pytest.mark.parametrize("one_by_one", [False, True])
def test_an_error_of_the_iterable_ends_it_behind_what_was_drawn(one_by_one):
    def inputs():
        yield from [(1,), (2,)]
        raise LookupError("no more rows")

    parts, source = drawn(inputs(), 10, one_by_one=one_by_one)
    assert parts == [[(1,), (2,)]]
    assert source.is_dry and str(source.failure) == "no more rows"


@pytest.mark.parametrize(
    "iterable, keeps",
    [
        ([], True),
        (range(3), True),
        ({}.values(), True),
        (collections.deque(), True),
        (itertools.repeat([]), True),
        (np.zeros(3), True),
        (iter([]), False),
        ((x for x in []), False),
        (map(len, []), False),
        (array.array("d"), False),  # unknown: careful
    ],
)
def test_which_iterables_keep_their_items(iterable, keeps):
    assert keeps_its_items(iterable) == keeps
