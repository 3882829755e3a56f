"""Classes and functions of the program itself, on their way to a worker and back."""

import dataclasses
import datetime
import enum
import fnmatch
import functools
import io
import os
import pickle
import sys
import threading
import types

import cloudpickle.cloudpickle
import pytest
from other_process import ANSWER, in_another_process, run_program
from skyward.transport import functions
from skyward.worker.by_value import AnswerPickler, Pickler, dumps

import skyward as sky

PROGRAM = """
import dataclasses, enum
import skyward as sky

class Colour(enum.Enum):
    RED = "r", 1
    BLUE = "b", 2
    CRIMSON = "r", 1

    def __init__(self, short, number):
        super().__init__()
        self.short, self.number = short, number

class Access(enum.Flag):
    READ, WRITE, BOTH = 4, 2, 6

@dataclasses.dataclass
class Point:
    x: int
    tags: list = dataclasses.field(default_factory=list)

class Counter:
    count = 0

    def factor(self):
        return FACTOR

FACTOR = 1

@sky.compute
def sentinels(given, default=dataclasses.KW_ONLY):
    @dataclasses.dataclass
    class Named(Point):
        name: str = ""

    assert given is dataclasses.MISSING and default is dataclasses.KW_ONLY
    assert Named(1) == Named(1, [], ""), Named(1)
    return dataclasses.MISSING, [dataclasses.KW_ONLY]

@sky.compute
def colours(red):
    assert red is Colour.RED is Colour["CRIMSON"] and red.short == "r" and Colour.BLUE.number == 2
    assert Access["BOTH"] is Access.READ | Access.WRITE
    Colour.BLUE.number = 3

    class Answer(enum.Enum):
        YES = 1

        def __init__(self, number):
            self.text = str(number)

    return Colour.BLUE, Answer.YES

@sky.compute
def counted(counter):
    Counter.count += 1
    if Counter.count > 1:
        raise LookupError(counter, Counter.count)
    return counter

class Trainer:
    count = 0

    @sky.compute
    def fit(self, counter: Counter):
        Trainer.count += 1
        return self

with sky.ComputePool(display="quiet", collect_metrics=False) as pool:
    missing, [kw_only] = sentinels(dataclasses.MISSING) >> pool
    assert missing is dataclasses.MISSING and kw_only is dataclasses.KW_ONLY
    blue, yes = colours(Colour.RED) >> pool
    assert blue is Colour.BLUE and blue.number == 2 and yes.text == "1"
    factor = Counter.factor
    answer = counted(Counter()) >> pool
    FACTOR = 2
    assert type(answer) is Counter and answer.factor() == 2
    assert Counter.count == 0 and Counter.factor is factor
    Counter.count = 5  # reaches the worker
    try:
        counted(Counter()) >> pool
    except LookupError as error:
        assert error.args[1] == 6 and type(error.args[0]) is Counter
    assert Counter.count == 5 and Counter.factor is factor
    fit = Trainer.fit
    trained = Trainer().fit(Counter()) >> pool
    assert type(trained) is Trainer and Trainer.fit is fit and Trainer.count == 0
    assert Counter.count == 5 and Counter.factor is factor
    print("done")
"""


def test_classes_arrive_whole_and_answers_do_not_change_the_drivers(tmp_path):
    done = run_program(tmp_path, PROGRAM)
    assert done.stdout == "done\n", done.stderr


def test_a_class_that_the_reader_does_not_know_is_made_once():
    program = (
        "import pickle, sys\n"
        "first, second = pickle.loads(sys.stdin.buffer.read())\n"
        "one = pickle.loads(first)\n"
        "kind = type(one)\n"
        "kind.number = 2\n"
        "two = pickle.loads(second)\n"
        "print(type(two) is kind, two.number, two.twice())\n"
    )

    class Local:
        number = 1

        def twice(self):
            return 2 * self.number

    data = pickle.dumps([dumps(Local(), pickler=AnswerPickler) for _ in range(2)])
    assert in_another_process(program, data) == b"True 2 4\n"


COMPUTED = """
import functools, pickle, sys, types
import skyward as sky
from skyward.worker.by_value import AnswerPickler, dumps
from skyward.worker.results import dump

class Config:
    count = 0

    def own(self):
        return Config

class Trainer:
    @sky.compute
    def fit(self, config: Config):
        return self

@sky.compute
def given(config: Config):
    return config

if __name__ == "__main__":
    own, fit = Config.own, Trainer.fit
    plain = functools.partial(len, given)  # which plain pickle takes
    sys.modules["_skyward_worker"] = types.ModuleType("_skyward_worker")
    for data in (dumps(Trainer(), pickler=AnswerPickler), dump(plain)[0]):
        Config.count, Config.own = 1, None
        pickle.loads(data)
        assert Config.count == 1 and Config.own is None and Trainer.fit is fit
        Config.count, Config.own = 0, own
    print("kept")
"""


def test_answers_with_compute_functions_leave_classes_alone(tmp_path):
    done = run_program(tmp_path, COMPUTED)
    assert done.stdout == "kept\n", done.stderr


def test_an_enum_whose_own_code_makes_its_members_arrives_whole():
    class Tag(enum.StrEnum):
        ONE = "a", 1
        TWO = "a", 2
        THIRD = "c", 2

        def __new__(cls, text, number):
            member = str.__new__(cls, text)
            member._value_ = number
            return member

    class Coordinate(bytes, enum.Enum):
        X = 0, "km"
        Y = 1, "m"

        def __new__(cls, value, unit):
            member = bytes.__new__(cls, [value])
            member._value_ = value
            member.unit = unit
            return member

    class Numbered(enum.Enum):
        def __new__(cls):
            member = object.__new__(cls)
            member._value_ = len(cls.__members__) + 1
            return member

    class Colour(Numbered):
        RED = ()
        BLUE = ()

    @dataclasses.dataclass(frozen=True)
    class Size:
        size: str
        legs: int = 4

    class Animal(Size, enum.Enum):
        BEETLE = "small", 6
        DOG = ("medium",)

    class Holiday(datetime.date, enum.Enum):
        NEW_YEAR = 2020, 1, 1

    class Pair(tuple, enum.Enum):
        LEFT = 1, 2

        def __init__(self, *_):
            super().__init__()
            self.total = 3

    class Access(enum.IntFlag):
        READ, WRITE = 4, 2

    def members():
        assert Tag(1) is Tag.ONE == "a" and Tag(2) is Tag.TWO is Tag["THIRD"] == "a"
        assert Coordinate(1) is Coordinate.Y == b"\x01" and Coordinate.Y.unit == "m"
        assert Colour(2) is Colour.BLUE and Colour.__new__ is enum.Enum.__new__
        assert Animal.BEETLE.legs == 6 and Animal.DOG.legs == 4
        assert Animal(Size("small", 6)) is Animal.BEETLE
        assert Holiday.NEW_YEAR == datetime.date(2020, 1, 1)
        assert Pair.LEFT == (1, 2) and Pair.LEFT.total == 3
        assert both == 6 and both is Access.READ | Access.WRITE
        return [list(kind) for kind in kinds], both

    kinds, both = [Tag, Coordinate, Colour, Animal, Holiday, Pair], Access.READ | Access.WRITE
    answer, same = pickle.loads(in_another_process(ANSWER, dumps(members)))
    assert same is both and isinstance(same, Access)
    for kind, found in zip(kinds, answer, strict=True):
        assert all(one is two for one, two in zip(kind, found, strict=True))


def test_what_a_member_keeps_beside_its_fields_stays_here():
    class Measure:
        factor = 1.0
        computed = property(lambda self: 1)
        if sys.version_info >= (3, 12):  # before, one holds a lock, and no class may
            computed = functools.cached_property(lambda self: None)

    class Unit(Measure, enum.Enum):
        METRE = 1
        MILE = 1609

        def __init__(self, factor):
            super().__init__()
            self.factor = float(factor)
            self.lock = threading.Lock()
            self.table = None
            self.others = type(self)

    def fields():
        assert (Unit.METRE.factor, Unit.MILE.factor) == (1.0, 1609.0)
        assert Unit.MILE.table is None and Unit.MILE.others is Unit
        assert "computed" not in vars(Unit.MILE)
        return hasattr(Unit.MILE, "lock")

    assert Unit.MILE.computed in (None, 1)
    size = len(dumps(fields))
    Unit.MILE.table = bytes(1 << 20)
    Unit.MILE.more = bytes(1 << 20)
    assert len(dumps(fields)) == size
    assert pickle.loads(in_another_process(ANSWER, dumps(fields))) is False


def test_an_enum_is_reduced_once_however_many_members_have_fields(monkeypatch):
    class Port(enum.Enum):
        def __init__(self, number):
            super().__init__()
            self.number = number

    many = Port("Many", {f"port_{number}": number for number in range(100)}, module=__name__)
    reduced = []
    original = cloudpickle.cloudpickle._enum_getstate
    monkeypatch.setattr(
        cloudpickle.cloudpickle,
        "_enum_getstate",
        lambda cls: reduced.append(cls) or original(cls),
    )
    dumps(list(many))
    assert reduced == [many, Port]


class Unevaluated:
    """Looks like a function of Python 3.14, of which an annotation has no value."""

    def __init__(self, fn):
        self.fn = fn

    def __getattr__(self, name):
        return getattr(self.fn, name)

    @property
    def __annotations__(self):
        raise NameError("name 'Known' is not defined")


def test_annotations_without_a_value_travel_as_they_are_written(monkeypatch):
    library = types.SimpleNamespace(
        Format=types.SimpleNamespace(STRING=4),
        get_annotations=lambda fn, format: {"x": "Known"} if format == 4 else {},
    )
    monkeypatch.setitem(sys.modules, "annotationlib", library)
    fn = Unevaluated(lambda x, y=2: x + y)
    pickler = Pickler(io.BytesIO())
    make, arguments, state, _, _, set_state = pickler._dynamic_function_reduce(fn)
    rebuilt = make(*arguments)
    set_state(rebuilt, state)
    assert rebuilt(1) == 3 and rebuilt.__annotations__ == {"x": "Known"}


@pytest.mark.skipif(sys.version_info < (3, 14), reason="evaluates annotations when it defines f")
def test_a_function_annotated_for_type_checkers_alone_is_sent():
    names = {}
    exec("def f(x: Known, y: 'Known' = 2) -> Known:\n    return x + y", names)
    f = sky.compute(names["f"])
    body = functions.dumps_function(f(1).fn, "f")
    assert pickle.loads(body)(1) == 3
    with pytest.raises(TypeError):
        f(1, 2, 3)


KEEPS = """
import functools, inspect
import skyward as sky

@functools.lru_cache(maxsize=8)
def table(size):
    return [*table(size - 1), size] if size else []  # calls itself

class Lazy:
    @functools.cached_property
    def value(self):
        return 42

class RequestError(Exception):
    def __init__(self, code, *, detail):
        super().__init__(f"{code}: {detail}")
        self.code = code

@sky.compute
def predict():
    assert table(3) is table(3) == [1, 2, 3]
    return table.__name__, table.cache_parameters(), Lazy().value

@sky.compute
def divide(by):
    return 1 / by

@sky.compute
def request():
    raise ExceptionGroup("two", [RequestError(500, detail="down"), ValueError("x")])

with sky.ComputePool(nodes=1, display="quiet") as pool:
    assert predict() >> pool == ("table", {"maxsize": 8, "typed": False}, 42)
    try:
        divide(0) >> pool
    except ZeroDivisionError as error:
        line = inspect.getsourcelines(divide.local)[1] + 2
        assert f'File "{__file__}", line {line}, in divide\\n    return 1 / by\\n' in (
            error.remote_traceback), error.remote_traceback
    try:
        request() >> pool
    except* ValueError as group:
        assert group.exceptions[0].args == ("x",)
    except* RequestError as group:
        (error,) = group.exceptions
        assert error.code == 500 and str(error) == "500: down"
print("all of it arrived")
"""


def test_caches_source_lines_and_groups_of_errors_arrive(tmp_path):
    done = run_program(tmp_path, KEEPS)
    assert done.stdout == "all of it arrived\n", done.stderr


def test_caches_of_modules_are_found_there():
    assert pickle.loads(dumps(functools.cache(os.getpid))).__wrapped__ is os.getpid
    assert pickle.loads(dumps(fnmatch._compile_pattern)) is fnmatch._compile_pattern


class SlottedError(Exception):
    __slots__ = ("code", "unset")

    def __init__(self, text, code=None):
        super().__init__(text)
        self.code = code


class PeerError(Exception):
    def __init__(self, *, name):
        super().__init__()
        self.name = name


def test_errors_keep_empty_slots_and_may_refer_to_each_other():
    error = pickle.loads(dumps(SlottedError("text")))
    assert error.args == ("text",) and error.code is None and not hasattr(error, "unset")
    one, other = PeerError(name="one"), PeerError(name="other")
    one.peer, other.peer, one.me = other, one, one
    found = pickle.loads(dumps(one))
    assert found.me is found and found.peer.peer is found and found.peer.name == "other"


def test_a_cache_that_does_not_say_what_it_calls_is_refused():
    def remember(function):
        @functools.wraps(function)
        @functools.lru_cache
        def inner(*args):
            return function(*args) + 1000

        return inner

    with pytest.raises(TypeError, match="wraps another function"):
        dumps(remember(lambda x: x))
    marked = functools.cache(lambda: 1)
    marked.version = 3
    assert pickle.loads(dumps(marked)).version == 3
