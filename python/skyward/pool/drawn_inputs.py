"""The inputs of many calls, as they are drawn from the caller's iterables."""

import time
from collections import deque
from collections.abc import Generator, Iterable, Iterator, KeysView, ValuesView
from itertools import count, islice, repeat
from typing import Any

STEP_SECONDS = 0.01
"""How long inputs are drawn before those that are there are sent."""
DRAWN_TOGETHER = 8
"""Inputs between two looks at the clock, where drawing them is quick."""

_Keeping = (
    *(list, tuple, range, str, bytes, dict, set, frozenset, deque, KeysView, ValuesView),
    *(repeat, count),
)
_FIXED = frozenset((int, float, complex, bool, str, bytes, type(None)))


def keeps_its_items(iterable: Iterable[Any]) -> bool:
    """Whether its items stay as they are when the next one is drawn. A generator may fill one
    object again and again."""
    return isinstance(iterable, _Keeping) or hasattr(type(iterable), "__array__")


class DrawnInputs:
    """`inputs`: the arguments of each call.

    With `one_by_one`, what can be changed is to be serialized before the next input is drawn."""

    def __init__(self, inputs: Iterator[tuple[Any, ...]], one_by_one: bool = False) -> None:
        self._inputs = inputs
        self.may_put_back = not one_by_one
        self._back: deque[tuple[Any, ...]] = deque()
        self._step = 1  # inputs to draw before it looks at the clock
        self.is_dry = False
        """All have been drawn, as far as that was possible."""
        self.failure: Exception | None = None
        """Of the caller's iterables, behind those that were drawn."""

    def draw(self, room: int) -> Generator[list[tuple[Any, ...]], None, None]:
        """So many inputs, in parts; fewer if that takes long."""
        if self.may_put_back:
            yield self._together(room)
            return
        end = time.monotonic() + STEP_SECONDS
        fixed: list[tuple[Any, ...]] = []
        drawn = 0
        for args in self._some(room):
            drawn += 1
            if _is_fixed(args):
                fixed.append(args)
            else:
                if fixed:
                    yield fixed
                    fixed = []
                yield [args]
            if time.monotonic() >= end:
                break
        else:
            self.is_dry = drawn < room
        if fixed:
            yield fixed

    def put_back(self, inputs: list[tuple[Any, ...]]) -> None:
        """They are drawn first, next time."""
        self._back.extendleft(reversed(inputs))
        self.is_dry = False

    def _together(self, room: int) -> list[tuple[Any, ...]]:
        end = time.monotonic() + STEP_SECONDS
        inputs = [self._back.popleft() for _ in range(min(room, len(self._back)))]
        while room > len(inputs):
            wanted = len(inputs) + min(self._step, room - len(inputs))
            inputs.extend(self._some(wanted - len(inputs)))
            if len(inputs) < wanted:
                self.is_dry = True
                break
            if time.monotonic() >= end:
                self._step = 1
                break
            self._step = min(2 * self._step, DRAWN_TOGETHER)
        return inputs

    def _some(self, most: int) -> Iterator[tuple[Any, ...]]:
        if self.failure is not None:
            return
        try:
            yield from islice(self._inputs, most)
        except Exception as error:
            self.failure = error


def _is_fixed(args: tuple[Any, ...]) -> bool:
    for value in args:
        kind = type(value)
        if kind not in _FIXED and not (kind is tuple and _FIXED.issuperset(map(type, value))):
            return False
    return True
