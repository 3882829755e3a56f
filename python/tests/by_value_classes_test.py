"""What the program itself defines: classes with their slots, each made once in a process, and
functions that dispatch by class. Comparing bytes with text is an error, as with ``python -bb``."""

import pytest
from other_process import run_program

SLOTTED = """
import dataclasses, typing, weakref
import skyward as sky

@dataclasses.dataclass(slots=True)
class Result:
    score: float

@dataclasses.dataclass(slots=True, weakref_slot=True)
class Reported(Result):
    name: str = ""

class One:
    __slots__ = "x"
    def __init__(self, x):
        self.x = x

class Two(One):
    __slots__ = {"__y": "of this class only", "__dict__": "and whatever else"}
    def __init__(self, x):
        super().__init__(x)
        self.__y, self.z = x + 1, x + 2
    def y(self):
        return self.__y

class Pair(typing.NamedTuple):
    first: int
    second: int = 2

class Refused(Exception):
    __slots__ = ("code",)

@sky.compute
def make(kind, *args):
    return kind(*args)

@sky.compute
def back(value):
    return value

@sky.compute
def refuse():
    error = Refused("no")
    error.code = 4
    raise error

@sky.compute
def names(kind):
    weakref.ref(Reported(1.0))
    return hasattr(kind(1), "__dict__"), kind.__slots__

with sky.ComputePool(display="quiet", collect_metrics=False) as pool:
    for kind in (Result, Reported, One, Two, Pair):
        for one in (make(kind, 5) >> pool, *pool.map(back, [kind(5)]), back(kind(5)) >> pool):
            assert type(one) is kind, one
            assert getattr(one, kind.__match_args__[0] if kind in (Result, Pair) else "x", 5) == 5
    two = make(Two, 5) >> pool
    assert (two.x, two.y(), two.z) == (5, 6, 7)
    assert make(Reported, 5, "a") >> pool == Reported(5, "a")
    assert names(Reported) >> pool == (False, ("name", "__weakref__"))
    assert names(One) >> pool == (False, "x") and (names(Two) >> pool)[0]
    try:
        refuse() >> pool
    except Refused as error:
        assert error.args == ("no",) and error.code == 4
    print("done")
"""

REGISTERED = """
import skyward as sky

KINDS, MADE = {}, []

class Counting(type):
    def __new__(meta, name, bases, members):
        MADE.append(name)
        return super().__new__(meta, name, bases, members)

class Step(metaclass=Counting):
    def __init_subclass__(cls):
        KINDS[cls.__name__] = cls

class Scale(Step):
    def __init__(self, factor):
        self.factor = factor

@sky.compute
def fit(step):
    step.factor += 1
    return step, KINDS["Scale"] is Scale is type(step), Step.__subclasses__() == [Scale]

with sky.ComputePool(display="quiet", collect_metrics=False) as pool:
    for _ in range(2):
        fitted, *facts = fit(Scale(2)) >> pool
        assert type(fitted) is Scale and fitted.factor == 3 and facts == [True, True], facts
    assert KINDS == {"Scale": Scale} and MADE == ["Step", "Scale"], (KINDS, MADE)
    assert Step.__subclasses__() == [Scale]
    print("done")
"""


DISPATCHED = """
import collections.abc, functools
import skyward as sky

class Point:
    x = 1

@functools.singledispatch
def show(value):
    return repr(value)

@show.register(collections.abc.Sequence)
def show_all(values):
    return [show(value) for value in values]

@show.register
def _(point: Point):
    return "point", show(point.x)

show.kind = "text"

@sky.compute
def shown(values):
    return show(values), show.kind

class Shown:
    @functools.singledispatchmethod
    def show(self, value):
        return show(value)

    @show.register
    def _(self, value: bytes):
        return "bytes"

@sky.compute
def shown_by(by):
    return by.show(1), by.show(b"")

show(Point())  # fills the cache
with sky.ComputePool(display="quiet", collect_metrics=False) as pool:
    for _ in range(2):
        assert shown([1, Point()]) >> pool == (["1", ("point", "1")], "text")
    assert sky.compute(show)(2) >> pool == "2"
    assert shown_by(Shown()) >> pool == ("1", "bytes")
    print("done")
"""

STRICT = """
import skyward as sky

@sky.compute
def double(x):
    return 2 * x

with sky.ComputePool(display="quiet", collect_metrics=False) as pool:
    assert double(b"1") >> pool == b"11"
    print("done")
"""


@pytest.mark.parametrize(
    "program",
    [SLOTTED, REGISTERED, DISPATCHED, STRICT],
    ids=["slots", "registered", "dispatched", "strict"],
)
def test_what_the_program_defines_travels(program, tmp_path):
    done = run_program(tmp_path, program, "-bb")
    assert done.stdout == "done\n", done.stderr
