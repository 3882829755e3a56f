"""Whose output is seen, and that a task leaves the streams of its worker as they were."""

import logging
import os
import sys

import pytest

import skyward as sky


def test_each_of_many_quick_calls_keeps_what_it_wrote():
    @sky.compute
    def speak(number):
        print("from", number, end="" if number % 3 else "\n")
        if number % 50 == 49:
            raise ValueError(number)

    with sky.ComputePool(nodes=1, display="quiet", collect_metrics=False) as pool:
        calls = [speak(number) for number in range(1000)]
        errors = sky.gather(*calls, return_exceptions=True) >> pool
    failed = {number: error for number, error in enumerate(errors) if error is not None}
    assert sorted(failed) == list(range(49, 1000, 50))
    for number, error in failed.items():
        assert error.output == (f"from {number}",)


@pytest.fixture
def said():
    """A pool of two nodes, and after its block all lines that were written there."""

    class Said:
        def __init__(self):
            self.lines = []
            self.pool = sky.ComputePool(
                nodes=2, display="quiet", collect_metrics=False, on_event=self.hear
            )

        def hear(self, event):
            if isinstance(event, sky.LogLine):
                self.lines.append((event.node, event.stream, event.line))

        def texts(self):
            return [line for _, _, line in self.lines]

    return Said()


def write_everywhere(word):
    print(f"{word} print")
    sys.__stdout__.write(f"{word} stream\n")
    os.system(f"echo {word} child; echo {word} child >&2")
    os.write(1, f"{word} descriptor\n".encode())
    logging.basicConfig()
    logging.warning("%s log", word)


@sky.compute
@sky.silent
def silent(word):
    write_everywhere(word)
    return word


@sky.compute
@sky.silent
def silent_items(word):
    for number in range(3):
        write_everywhere(word)
        yield number


@sky.compute
@sky.stdout(only="head")
def head_items(word):
    print(f"{word} {sky.instance_info().node}")
    print(f"{word} error", file=sys.stderr)
    yield sky.instance_info().node


@sky.stderr(only=lambda info: info.node == 1)
@sky.compute
def heard_of_one(word):
    os.system(f"echo {word} {sky.instance_info().node} >&2")


@sky.compute
def say(word):
    write_everywhere(word)


@sky.compute
@sky.silent
def crash():
    print("never heard")
    os.abort()


def test_a_silent_function_is_silent_whoever_writes(said):
    with said.pool as pool:
        assert silent("hush") @ pool == ("hush", "hush")
        assert [list(items) for items in silent_items("hush") @ pool] == [[0, 1, 2]] * 2
        say("heard") @ pool
    assert not any("hush" in text for text in said.texts())
    wanted = {"print", "stream", "child", "descriptor"}
    for node in (0, 1):
        heard = [line for at, _, line in said.lines if at == node and line.startswith("heard")]
        assert {line.split()[1] for line in heard} == wanted and len(heard) == 5
        assert (node, "stderr", "WARNING:root:heard log") in said.lines


def test_some_workers_are_heard(said):
    with said.pool as pool:
        assert [list(items) for items in head_items("mine") @ pool] == [[0], [1]]
        heard_of_one("loud") @ pool
    lines = sorted(line for line in said.lines if line[2].startswith(("mine", "loud")))
    assert lines == [
        (0, "stderr", "mine error"),
        (0, "stdout", "mine 0"),
        (1, "stderr", "loud 1"),
        (1, "stderr", "mine error"),
    ]


def test_a_crash_of_a_silent_function_is_told(pool):
    with pytest.raises(sky.ExecutionError, match="SIGABRT") as caught:
        crash() >> pool
    assert any("in crash" in line for line in caught.value.output)
    assert not any("never heard" in line for line in caught.value.output)


@sky.compute
def spoil(how):
    print(f"{how} begins")
    if how == "close":
        sys.stdout.close()
        sys.__stderr__.close()
    else:
        sys.stdout = sys.stderr = open(os.devnull, "w")


@sky.compute
def speak(word):
    print(word)
    print(word, file=sys.stderr)


@pytest.mark.parametrize("how", ["close", "replace"])
def test_a_task_finds_the_streams_as_they_should_be(said, how):
    with said.pool as pool:
        spoil(how) @ pool
        speak("again") @ pool
    assert f"{how} begins" in said.texts()
    assert sorted(line for line in said.lines if line[2] == "again") == [
        (node, stream, "again") for node in (0, 1) for stream in ("stderr", "stdout")
    ]
