"""The notice of the machine's end, as the function sees it."""

import sys
import threading
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from worker_agent import Agent, by_value

import skyward as sky

__all__ = ["by_value"]

NOTICE = 1 << 62


@pytest.fixture
def agent():
    made = Agent()
    made.hello()
    yield made
    made.close()


def listen():
    """Waits for the notice; what came of it."""
    import threading

    import skyward as sky

    said, heard = threading.Event(), []

    def warned(left):
        heard.append((left, threading.current_thread() is threading.main_thread()))
        said.set()

    sky.on_preemption(warned)
    print("listening", flush=True)
    said.wait(20)
    return heard


def test_a_running_function_hears_of_it_beside_itself(agent):
    agent.run(1, listen)
    agent.wait_output(b"listening")
    agent.interrupt(NOTICE | 90_000)
    ((left, on_main),) = agent.answer().value()
    assert 60 < left <= 90
    assert not on_main


def test_who_asks_later_hears_at_once_and_others_never(agent):
    agent.run(1, lambda: __import__("skyward").on_preemption(print))
    agent.answer()
    agent.interrupt(NOTICE | 90_000)
    agent.run(2, lambda: 7)
    assert agent.answer().value() == 7
    agent.run(3, listen)
    assert len(agent.answer().value()) == 1
    assert b"89." not in agent.output(), "the first function's callback is forgotten"


def test_what_a_callback_raises_is_printed(agent):
    def careless():
        import threading

        import skyward as sky

        said = threading.Event()

        def warned(left):
            said.set()
            raise OSError("no room to save")

        sky.on_preemption(warned)
        said.wait(20)
        return threading.active_count() > 0

    agent.interrupt(NOTICE | 1)
    agent.run(1, careless)
    assert agent.answer().value() is True
    agent.wait_output(b"no room to save", stream=2)


def test_a_notice_without_a_thread_is_told_and_the_function_goes_on(agent):
    def alone():
        import _thread
        import time

        import skyward as sky

        def refuse(*_):
            told.append(1)
            raise RuntimeError("can't start new thread")

        told, real = [], _thread.start_new_thread
        sky.on_preemption(print)
        _thread.start_new_thread = refuse
        print("listening", flush=True)
        end = time.monotonic() + 20
        while not told and time.monotonic() < end:
            time.sleep(0.01)  # on a worker
        _thread.start_new_thread = real
        return "went on"

    agent.run(1, alone)
    agent.wait_output(b"listening")
    agent.interrupt(NOTICE | 90_000)
    assert agent.answer().value() == "went on"
    agent.wait_output(b"on_preemption: not called: can't start new thread", stream=2)


def test_outside_a_function_it_is_never_called():
    called = threading.Event()
    sky.on_preemption(lambda left: called.set())
    assert not called.is_set()
    with pytest.raises(TypeError, match="on_preemption"):
        sky.on_preemption(7)
