"""Classes and functions of the program itself, on their way to a worker and back."""

import os
import pickle
import subprocess
import sys

from skyward.worker.by_value import AnswerPickler, dumps

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
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
    print("done")
"""


def test_classes_arrive_whole_and_answers_do_not_change_the_drivers(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, program],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
        env=ENVIRONMENT,
    )
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
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=data,
        capture_output=True,
        timeout=60,
        check=False,
        env=ENVIRONMENT,
    )
    assert done.stdout == b"True 2 4\n", done.stderr
