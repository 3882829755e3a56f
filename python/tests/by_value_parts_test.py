"""What a function refers to, on its way to another process: variables, random numbers, types for
annotations, caches, and classes with hooks."""

import os
import pickle
import random
import sys
import threading
import types
import typing

import numpy
import pytest
from other_process import ANSWER, ENVIRONMENT, in_another_process
from skyward.transport import functions
from skyward.worker.by_value import dumps, module_with

import skyward as sky
from skyward.worker import class_hooks


def test_variables_are_those_of_the_process_that_uses_them(monkeypatch):
    variables, encoded = os.environ, os.environb
    monkeypatch.setenv("MARKED", "s3cret")

    def find(given=os.environ):
        return given is variables is os.environ and encoded is os.environb, "MARKED" in variables

    body = functions.dumps_function(find, "find")
    assert b"s3cret" not in body and functions.is_kept(find)
    monkeypatch.setitem(ENVIRONMENT, "MARKED", "there")
    assert pickle.loads(in_another_process(ANSWER, body)) == (True, True)
    answer = pickle.loads(in_another_process(ANSWER, dumps(lambda: os.environ)))
    assert type(answer) is dict and answer["MARKED"] == "there"


def test_functions_of_modules_that_are_methods_of_hidden_objects_go_by_name():
    draw, pick, uniform = random.random, random.randint, numpy.random.rand
    own = random.Random(5).random

    def drawn():
        assert draw == random.random and uniform == numpy.random.rand
        return draw(), pick(1, 1 << 60), float(uniform()), own()

    bodies = [functions.dumps_function(drawn, "drawn") for _ in range(2)]
    first, second = (pickle.loads(in_another_process(ANSWER, body)) for body in bodies)
    assert all(one != other for one, other in zip(first[:3], second[:3], strict=True))
    assert first[3] == second[3], "a generator of the program's own brings its state along"
    for fn in (lambda: (draw(), pick(1, 2)), lambda: uniform()):
        assert len(functions.dumps_function(fn, "fn")) < 2000 and functions.is_kept(fn)
    assert module_with(len) is module_with([].append) is module_with(str.upper) is None
    assert pickle.loads(dumps([len, dict.fromkeys])) == [len, dict.fromkeys]


NESTED = """
import dataclasses, xml.dom.minidom as _
import xml

LR, DATA = 0.5, object()

class Marker:
    pass

def mark(cls):
    cls.marked = Marker
    return cls

def steps(factor=2):
    @mark
    @dataclasses.dataclass
    class Step:
        marker: Marker = None
        rate: float = LR * factor
        DATA = 1
        twice = DATA * 2

        class Inner:
            rate = LR

    parse = lambda text: xml.dom.minidom.parseString(text).documentElement.tagName
    return Step(), Step.marked, Step.twice, Step.Inner.rate, parse("<a/>")

def generator():
    return list(xml.dom.minidom.parseString(text).firstChild.tagName for text in ["<a/>"])
"""


def test_names_that_only_nested_code_uses_travel():
    names = {"__name__": "__main__"}
    exec(NESTED, names)
    steps, generator, unsendable = names["steps"], names["generator"], threading.Lock()
    names["DATA"] = unsendable  # the class has its own

    def run():
        step, marked, *others = steps()
        return step.rate, step.marker, marked.__name__, others, generator()

    answer = pickle.loads(in_another_process(ANSWER, dumps(run)))
    assert answer == (1.0, None, "Marker", [2, 0.5, "a"], ["a"])


TYPED = """
import typing

UserId = typing.NewType("UserId", int)
P, R = typing.ParamSpec("P"), typing.TypeVar("R")
Ts = typing.TypeVarTuple("Ts")

def traced(fn: typing.Callable[P, R]) -> typing.Callable[P, R]:
    def inner(*args: P.args, **kwargs: P.kwargs) -> R:
        return fn(*args, **kwargs)
    return inner

class Task(typing.Generic[P, R]):
    pass

@traced
def number(user: UserId, *rest: typing.Unpack[Ts]):
    Task()
    return user, UserId, P, Ts
"""
TYPED_BY_SYNTAX = """
if False:
    from elsewhere import Unknown

type Json = dict[str, Json] | int
type Rows[T] = list[T]
type Late = Unknown

def kept[**Q](fn: typing.Callable[Q, int], x: Json = 1, y: Late = 2):
    assert Json.__value__.__args__[0].__args__[1] is Json
    assert Rows.__value__.__args__ == Rows.__type_params__
    return Late.__name__, kept.__annotations__["fn"].__args__[0].__name__
"""


def test_types_for_annotations_travel_and_each_exists_once():
    names = {"__name__": "__main__"}
    exec(TYPED, names)
    answer = pickle.loads(in_another_process(ANSWER, dumps(lambda: names["number"](5))))
    assert answer == (5, names["UserId"], names["P"], names["Ts"])
    assert pickle.loads(dumps(typing.AnyStr)) is typing.AnyStr


@pytest.mark.skipif(sys.version_info < (3, 12), reason="has no syntax for them")
def test_types_with_a_syntax_of_their_own_travel():
    names = {"__name__": "__main__", "typing": typing}
    exec(TYPED_BY_SYNTAX, names)
    answer = pickle.loads(in_another_process(ANSWER, dumps(lambda: names["kept"](len))))
    assert answer == ("Late", "Q")


def test_an_object_that_pickles_by_its_name_in_the_program_is_refused_here():
    names = {"__name__": "__main__"}
    exec("class Unset:\n    def __reduce__(self): return 'UNSET'\nUNSET = Unset()", names)
    with pytest.raises(sky.SerializationError, match="'UNSET': its class Unset pickles it by"):
        functions.dumps_function(lambda x=names["UNSET"]: x, "fn")


CACHED = """
import dataclasses, functools

SCALE, TABLE = 2, {"a": [1]}

def load(name):
    print(name)
    return SCALE

@functools.cache
def shared():
    return load("shared")

@dataclasses.dataclass(frozen=True)
class Predictor:
    path: str = "model"

    @functools.cache
    def model(self):
        return load("model") + TABLE["a"][0]

    @staticmethod
    @functools.lru_cache(maxsize=None)
    def tokens():
        return load("tokens")

    def predict(self):
        return self.model(), self.tokens(), shared()

class Plain:
    @functools.cache
    def model(self):
        return load("plain")
"""
CACHES = """
import pickle, sys
for predictor, plain in map(pickle.loads, pickle.loads(sys.stdin.buffer.read())):
    print(*predictor.predict(), plain.model())
"""


def test_caches_of_classes_stay_while_what_they_calculate_from_does():
    names, sent = {"__name__": "__main__"}, []
    exec(CACHED, names)
    for names["SCALE"] in (2, 2, 3):
        sent.append(dumps((names["Predictor"](), names["Plain"]())))
    shown = in_another_process(CACHES, pickle.dumps(sent)).decode().splitlines()
    first = ["model", "tokens", "shared", "plain", "3 2 2 2"]
    assert shown == [*first, "plain", "3 2 2 2", *first[:4], "4 3 3 3"]


PLUGINS = """
KINDS = {}

class Plugin:
    def __init_subclass__(cls):
        KINDS[cls.name] = cls
        assert callable(cls.run)

class Keyed:
    def __init_subclass__(cls, *, key):
        cls.key = key
"""
HOOKED = """
import plugins_of_ours

class Keyed:
    def __init_subclass__(cls, *, key):
        cls.key = key

class Sub(Keyed, key="z"):
    pass

class Task:
    def __init_subclass__(cls):
        if not hasattr(cls, "run"):
            raise TypeError(f"{cls.__name__} has no run()")

class Run(Task):
    def run(self):
        return 1

class Checked(type):
    def __new__(meta, name, bases, members):
        if bases and "field" not in members:
            raise TypeError(f"{name} has no field")
        return super().__new__(meta, name, bases, members)

class Root(metaclass=Checked):
    pass

class Leaf(Root):
    field = [1]

class Plugin(plugins_of_ours.Plugin):
    name = "a"

    def run(self):
        return 2

class Refused(plugins_of_ours.Keyed, key=1):
    pass

def use():
    class More(Keyed, key="y"):
        pass

    assert plugins_of_ours.KINDS == {"a": Plugin} and More.key == "y"
    assert plugins_of_ours.Plugin.__subclasses__() == [Plugin] and Task.__subclasses__() == [Run]
    try:
        type(Root)("Other", (Root,), {})
    except TypeError:
        return Sub.key, Run().run(), Leaf.field, Plugin().run(), Plugin.name
"""
REFUSED = """
import pickle, sys
try:
    pickle.loads(sys.stdin.buffer.read())
except TypeError as error:
    print(*error.__notes__)
"""


def test_classes_whose_hooks_look_at_them_travel(tmp_path, monkeypatch):
    (tmp_path / "plugins_of_ours.py").write_text(PLUGINS)
    monkeypatch.syspath_prepend(str(tmp_path))
    path = os.pathsep.join([str(tmp_path), ENVIRONMENT["PYTHONPATH"]])
    monkeypatch.setitem(ENVIRONMENT, "PYTHONPATH", path)
    names = {"__name__": "__main__"}
    exec(HOOKED, names)
    answer = pickle.loads(in_another_process(ANSWER, dumps(names["use"])))
    assert answer == ("z", 1, [1], 2, "a")
    note = in_another_process(REFUSED, dumps(names["Refused"])).decode()
    assert "the class 'Refused' of your program" in note and "define the class in a module" in note


def test_hooks_hold_for_classes_that_other_threads_make_meanwhile():
    seen = []

    class Kind(type):
        @classmethod
        def __prepare__(cls, name, bases, **options):
            seen.append((name, "prepare"))
            return super().__prepare__(name, bases, **options)

        def __new__(kind, name, bases, members, **options):
            seen.append((name, "new"))
            return super().__new__(kind, name, bases, members, **options)

        def __init__(cls, name, bases, members, **options):
            seen.append((name, "init"))
            super().__init__(name, bases, members)

    class Base(metaclass=Kind):
        def __init_subclass__(cls, *, key):
            seen.append((cls.__name__, key))

    def make_other():
        class Other(Base, key=1):
            pass

    def make_class(kind, name, bases, members):
        if ("Received", "new") in seen:  # its hooks have refused it
            thread = threading.Thread(target=make_other)
            thread.start()
            thread.join(60)
        return types.new_class(
            name, bases, {"metaclass": kind}, lambda space: space.update(members)
        )

    kept = {name: vars(Kind)[name] for name in ("__prepare__", "__new__", "__init__")}
    seen.clear()
    received = class_hooks.make(make_class, (Kind, "Received", (Base,), {}), {"field": 2}, ["run"])
    assert type(received) is Kind and received.field == 2
    refused = [("Received", "prepare"), ("Received", "new")]
    assert seen == [*refused, *(("Other", what) for what in ("prepare", "new", 1, "init"))]
    assert kept == {name: vars(Kind)[name] for name in kept}
    with pytest.raises(TypeError, match="key"):
        type("More", (Base,), {})
