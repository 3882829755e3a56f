"""What exceptions of the user's own classes bring home: their class, their fields, their text."""

import dataclasses
import pickle
import subprocess
import threading
import urllib.error

import pytest

import skyward as sky


@dataclasses.dataclass(frozen=True)
class QuotaError(Exception):
    limit: int


class LockedError(Exception):
    def __setattr__(self, name, value):
        raise RuntimeError("nobody writes here")


class ApiError(Exception):
    def __init__(self, code, text):
        super().__init__(f"{code}: {text}")
        self.code = code
        self.source = threading.Lock()  # does not travel


class KeywordError(Exception):
    __slots__ = ("where",)

    def __init__(self, *, code):
        super().__init__("by keyword")
        self.code = code
        self.where = "slot"


class PlacedError(Exception):
    def __init__(self, node):
        super().__init__(node)
        self.node = node
        self.task = "mine"


class PropertyError(Exception):
    @property
    def worker(self):
        return "its own"


class MuteError(Exception):
    def __init__(self, *, source):
        super().__init__("mute")
        self.source = source

    def __str__(self):
        return f"held: {self.source.locked()}"


class NeverToldError(Exception):
    def __str__(self):
        raise RuntimeError("no text")


@sky.compute
def throw(make):
    raise make()


@sky.compute
def throw_twice(make):
    try:
        raise make()
    except Exception as error:
        raise ValueError("outer") from error


@sky.compute
def yield_and_throw(make):
    yield 1
    raise make()


@sky.compute
def throw_http_error():
    with open("/dev/null", "rb") as body:
        raise urllib.error.HTTPError("http://x/", 404, "not found", {}, body)


@sky.compute
def fail_in_a_shell():
    subprocess.run(["sh", "-c", "echo said; exit 3"], check=True, capture_output=True)


@pytest.mark.parametrize("make", [lambda: QuotaError(3), lambda: LockedError(3)])
def test_a_class_that_lets_nobody_write_to_it(pool, make):
    with pytest.raises(type(make())) as caught:
        throw(make) >> pool
    assert isinstance(caught.value, sky.ExecutionError) and caught.value.args == (3,)
    assert getattr(caught.value, "limit", 3) == 3
    assert caught.value.__cause__ is not None and caught.value.node in (0, 1)
    with pytest.raises(ValueError, match="outer"):
        throw_twice(make) >> pool
    with pytest.raises(type(make())):
        list(yield_and_throw(make) >> pool)


def test_fields_of_its_own_are_left_to_it(pool):
    with pytest.raises(subprocess.CalledProcessError) as caught:
        fail_in_a_shell() >> pool
    assert caught.value.output == caught.value.stdout == b"said\n"
    assert caught.value.returncode == 3 and caught.value.worker == 0
    with pytest.raises(PlacedError) as caught:
        throw(lambda: PlacedError("a node")) >> pool
    assert (caught.value.node, caught.value.task) == ("a node", "mine")
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.node, again.task, again.worker) == ("a node", "mine", 0)
    with pytest.raises(PropertyError) as caught:
        throw(PropertyError) >> pool
    assert caught.value.worker == "its own" and caught.value.node in (0, 1)


def test_fields_come_along_when_the_class_cannot_be_made_from_its_arguments(pool):
    with pytest.raises(ApiError, match="404: nope") as caught:
        throw(lambda: ApiError(404, "nope")) >> pool
    assert caught.value.code == 404 and not hasattr(caught.value, "source")
    with pytest.raises(KeywordError, match="by keyword") as caught:
        throw(lambda: KeywordError(code=3)) >> pool
    assert caught.value.code == 3 and caught.value.where == "slot"
    again = pickle.loads(pickle.dumps(caught.value))
    assert again.code == 3 and again.where == "slot"


def test_an_error_of_a_builtin_kind_with_an_init_of_its_own(pool):
    with pytest.raises(urllib.error.HTTPError, match="404: not found") as caught:
        throw_http_error() >> pool
    assert (caught.value.code, caught.value.reason) == (404, "not found")
    assert caught.value.filename == "http://x/" and not hasattr(caught.value, "anything")


def test_an_error_whose_text_cannot_be_made_keeps_its_class(pool):
    with pytest.raises(MuteError, match="held: False"):
        throw(lambda: MuteError(source=threading.Lock())) >> pool
    with pytest.raises(NeverToldError, match="its __str__ raised RuntimeError"):
        throw(NeverToldError) >> pool
