"""Errors of a worker, as the caller sees them."""

import asyncio
import gc
import importlib.metadata
import pickle
import sys
import traceback
import types
import weakref
import zipfile

import cloudpickle
import numpy
import pytest
from skyward.transport import remote_error, shipping

import skyward as sky
from skyward.worker import failures


class FieldsError(Exception):
    def __init__(self, code, *, detail):
        super().__init__(f"code {code}")
        self.code = code
        self.detail = detail

    def __reduce__(self):
        return _make_fields, (self.code, self.detail)


def _make_fields(code, detail):
    return FieldsError(code, detail=detail)


class NeedsTwoError(Exception):
    def __init__(self, a, b):
        super().__init__(f"{a}{b}")


class FinalError(Exception):
    def __init_subclass__(cls):
        raise TypeError("final")


def outcome(**changes):
    values = {
        "node": 1,
        "worker": 0,
        "instance_id": "i-1",
        "tail": ["last words"],
        "error_kind": "task",
        "preempted": False,
        "attempts": 0,
    }
    return types.SimpleNamespace(**{**values, "error_message": "", "error_hint": "", **changes})


def raised(error, **changes):
    try:
        pickled = cloudpickle.dumps(error)
        pickle.loads(pickled)
    except Exception:
        pickled = None
    report = {
        "type": type(error).__qualname__,
        "module": type(error).__module__,
        "message": str(error),
        "traceback": "Traceback (most recent call last):\n  on the node",
        "exception": pickled,
        "notes": list(getattr(error, "__notes__", ())),
    }
    return remote_error.raised({**report, **changes}, 7, outcome())


def hint_of(error):
    (hint,) = [note for note in raised(error).__notes__ if note.startswith("hint")]
    return hint


def test_a_module_of_an_archive_is_no_package_to_install(tmp_path, monkeypatch):
    archive = tmp_path / "app.pyz"
    with zipfile.ZipFile(archive, "w") as opened:
        opened.writestr("private_module_of_ours.py", "")
    monkeypatch.syspath_prepend(str(archive))
    name = "private_module_of_ours"
    hint = hint_of(lacking(name))
    assert f"is in the archive {archive}" in hint and "pip" not in hint
    with pytest.raises(sky.ConfigurationError, match="no file, folder or module"):
        shipping.modules_archive([name], [])


def test_an_absolute_path_of_this_machine_gets_a_hint(tmp_path):
    missing = FileNotFoundError(2, "No such file", str(tmp_path / "nowhere"))
    assert not [note for note in raised(missing).__notes__ if "hint" in note]
    (tmp_path / "prompts.json").touch()
    hint = hint_of(FileNotFoundError(2, "No such file", str(tmp_path / "prompts.json")))
    assert "exists on this machine, and the node had no such file" in hint


def lacking(name):
    return ModuleNotFoundError(f"No module named {name!r}", name=name)


def test_a_package_that_lacks_a_part_is_no_package_that_is_missing(tmp_path, monkeypatch):
    version = importlib.metadata.version("numpy")
    for name in ("numpy.part.of_another_version", "numpy.linalg"):
        assert f"Image(pip=['numpy=={version}'])" in hint_of(lacking(name))
    package = tmp_path / "package_of_ours"
    package.mkdir()
    for name in ("__init__", "models"):
        (package / f"{name}.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, package.name, raising=False)
    importlib.import_module(package.name)
    hint = hint_of(lacking("package_of_ours.models"))
    assert "without 'package_of_ours.models'" in hint and "includes" not in hint
    for name in ("package_of_ours.typo", "numpy.typo", "json.typo"):  # missing here, too
        assert not [note for note in raised(lacking(name)).__notes__ if "hint" in note]


def test_the_worker_names_the_part_that_its_package_lacks():
    error = lacking("numpy.part")
    failures.explain_missing_module(error, "the function")
    assert error.__notes__ == [
        "the function needs the module 'numpy.part'; the worker has 'numpy'"
        f" ({numpy.__version__}) without it"
    ]


ORIGINALS = [
    MemoryError("no room"),
    ValueError("bad", 3),
    KeyError("x"),
    FileNotFoundError(2, "No such file", "/data"),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
    ImportError("no", name="torch", path="/p"),
    FieldsError(4, detail="d"),
    ExceptionGroup("several", [ValueError("a"), TypeError("b")]),
    ZeroDivisionError("division by zero"),
]


@pytest.mark.parametrize("original", ORIGINALS, ids=lambda error: type(error).__name__)
def test_both_classes_catch_it(original):
    error = raised(original)
    assert isinstance(error, sky.ExecutionError) and isinstance(error, type(original))
    assert str(error) == str(original) and repr(error.args) == repr(original.args)
    for name in ("errno", "filename", "reason", "name", "path", "code", "detail", "exceptions"):
        if hasattr(original, name):
            seen, expected = getattr(error, name), getattr(original, name)
            assert repr(seen) == repr(expected), name
    assert type(error).__name__ == type(original).__name__


def test_where_it_happened():
    error = raised(ValueError("bad"))
    assert (error.node, error.worker, error.instance_id, error.task) == (1, 0, "i-1", 7)
    assert error.output == ("last words",)
    assert "on the node" in error.remote_traceback
    text = "".join(traceback.format_exception(error))
    assert "on the node" in text and "node 1, worker 0" in text and "| last words" in text


def test_notes_come_along_once():
    original = ValueError("bad")
    original.add_note("try again")
    assert raised(original).__notes__.count("try again") == 1


@pytest.mark.parametrize(
    "original", [KeyboardInterrupt(), GeneratorExit(), StopIteration(3), asyncio.CancelledError()]
)
def test_what_would_steer_the_caller_becomes_plain(original):
    error = raised(original)
    assert type(error) is sky.ExecutionError
    assert type(original).__name__ in str(error)


def test_sys_exit():
    assert str(raised(SystemExit(3))) == "the task called sys.exit(3)"
    assert type(raised(SystemExit(3))) is sky.ExecutionError


def test_a_class_whose_pickle_cannot_be_read():
    error = raised(NeedsTwoError("a", "b"))
    assert isinstance(error, NeedsTwoError) and isinstance(error, sky.ExecutionError)
    assert str(error) == "ab"


def test_a_class_that_nobody_knows_or_may_extend():
    for error in (
        raised(ValueError("v"), exception=None, module="nowhere", type="Odd"),
        raised(FinalError("v")),
    ):
        assert type(error) is sky.ExecutionError
        assert str(error) in ("Odd: v", "FinalError: v")


def test_the_worker_cannot_send_its_result():
    error = raised(
        ValueError(),
        type="SerializationError",
        module="skyward.exceptions",
        message="result.lock",
        of_result=True,
    )
    assert type(error) is sky.SerializationError
    assert error.node == 1


def test_it_pickles_again():
    error = pickle.loads(pickle.dumps(raised(ValueError("bad"))))
    assert isinstance(error, ValueError) and isinstance(error, sky.ExecutionError)
    assert error.node == 1 and str(error) == "bad"


@pytest.mark.parametrize(
    ("kind", "cls"),
    [
        ("timeout", sky.TimeoutError),
        ("cancelled", sky.CancelledError),
        ("over_budget", sky.BudgetExceededError),
        ("lost", sky.InstanceTerminatedError),
        ("unreachable", sky.ConnectionLostError),
        ("task", sky.ExecutionError),
    ],
)
def test_no_answer(kind, cls):
    error = remote_error.failed(
        7, outcome(error_kind=kind, error_message="worker died", error_hint="see the log")
    )
    assert isinstance(error, cls) and type(error).__name__ == cls.__name__
    assert str(error).endswith("worker died. See the log")
    assert error.node == 1 and error.output == ("last words",)


@pytest.mark.parametrize("kind", ["over_budget", "unreachable", "lost", "timeout", "denied"])
def test_what_ends_a_call_is_no_failure_to_provision(kind):
    """Programs that catch that open a pool elsewhere, and pay again."""
    error = remote_error.failed(7, outcome(error_kind=kind, error_message="spent"))
    assert not isinstance(error, sky.ProvisioningError)


def test_a_preempted_machine():
    error = remote_error.failed(
        7, outcome(error_kind="lost", error_message="node 1 was lost", preempted=True, attempts=4)
    )
    assert type(error) is sky.PreemptionError and isinstance(error, sky.InstanceTerminatedError)
    assert str(error) == "instance i-1 was preempted: node 1 was lost"
    assert (error.instance_id, error.attempts) == ("i-1", 4)
    copied = pickle.loads(pickle.dumps(error))
    assert (copied.instance_id, copied.reason, copied.attempts) == ("i-1", "node 1 was lost", 4)


CRASH = """step 7
terminate called after throwing an instance of 'std::bad_alloc'
  what():  std::bad_alloc
Fatal Python error: Segmentation fault

Current thread 0x00007f (most recent call first):
  File "/usr/lib/python3/ctypes/__init__.py", line 519 in string_at
  File "/srv/train.py", line 4 in step
  File "/node/skyward/worker/loop.py", line 267 in run
  File "/node/skyward/worker/start.py", line 17 in <module>

Extension modules: numpy.core._multiarray_umath"""


def test_a_crash_shows_the_function_and_not_its_worker():
    place = "(node 1, worker 0, i-1)"
    error = remote_error.failed(
        7,
        outcome(error_message=f"step: the worker died {place}", tail=CRASH.splitlines()),
    )
    assert error.__notes__ == [
        """last output of the task:
  | terminate called after throwing an instance of 'std::bad_alloc'
  |   what():  std::bad_alloc
  | Fatal Python error: Segmentation fault
  | Current thread 0x00007f (most recent call first):
  |   File "/usr/lib/python3/ctypes/__init__.py", line 519 in string_at
  |   File "/srv/train.py", line 4 in step"""
    ]


def test_a_lost_connection_is_a_failed_task_and_a_broken_way():
    error = remote_error.failed(
        7, outcome(error_kind="unreachable", error_message="no route", error_hint="")
    )
    assert (error.instance_id, error.reason) == ("i-1", "no route")
    assert isinstance(error, sky.ExecutionError) and isinstance(error, ConnectionError)
    assert isinstance(error, sky.ConnectionError)
    copied = pickle.loads(pickle.dumps(error))
    assert type(copied) is type(error) and copied.args == error.args and str(copied) == str(error)


def test_names_of_builtins_are_inherited():
    assert issubclass(sky.TimeoutError, TimeoutError) and issubclass(
        sky.ConnectionError, ConnectionError
    )
    assert issubclass(sky.ConfigurationError, ValueError)


def test_classes_that_functions_define_are_not_kept_for_ever():
    made = []
    for _ in range(remote_error.CLASSES_KEPT + 10):
        cls = type("LocalError", (Exception,), {})
        assert isinstance(remote_error._combined(cls, (), None), cls)
        made.append(weakref.ref(cls))
    del cls
    gc.collect()
    assert len(remote_error._classes) == remote_error.CLASSES_KEPT
    assert [ref() is None for ref in made].count(True) == 10
