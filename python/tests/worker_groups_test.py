"""Groups of calls (skyward/wire/group.h) in the Python worker, both with and without its compiled
half."""

import os
import struct

import pytest
from worker_agent import (
    CANCELLED,
    CLAIMS,
    COMPILED,
    OK,
    RAISED,
    WITHDRAW,
    agent,
    call,
)

__all__ = ["agent"]


def test_a_group_sends_an_outcome_for_each_call_but_the_last(agent):
    agent.group(1, lambda x: (x, -x), range(50))
    assert [agent.outcome(1) for _ in range(49)] == [(x, -x) for x in range(49)]
    answer = agent.answer()
    assert (answer.task, answer.status, answer.value()) == (1, OK, (49, -49))
    agent.group(2, str, [7])
    assert agent.answer().value() == "7"
    assert call(agent, int).value() == 0


def test_a_call_that_raises_ends_its_group(agent):
    for task in (1, 2):  # the second time, the function is loaded
        agent.group(task, lambda x: 1 / x, [2, 1, 0, 5])
        assert [agent.outcome(task) for _ in range(2)] == [0.5, 1.0]
        answer = agent.answer()
        assert (answer.task, answer.status) == (task, RAISED)
        assert answer.value()["type"] == "ZeroDivisionError"
    assert call(agent, int).value() == 0


def test_a_large_result_ends_its_group(agent):
    for task in (1, 2):
        agent.group(task, lambda n: "x" * n, [1, 100_000, 2])
        assert agent.outcome(task) == "x"
        assert agent.answer().value() == "x" * 100_000


def test_interrupts_a_group(agent):
    def nap_at(x):
        import time

        if x == 2:
            print("napping", flush=True)
            time.sleep(30)  # on a worker
        return x

    for task in (1, 2):
        agent.group(task, nap_at, range(5))
        assert [agent.outcome(task) for _ in range(2)] == [0, 1]
        agent.wait_output(b"napping")
        agent.interrupt(task)
        assert agent.answer()[1:3] == (CANCELLED, task)
    agent.run(3, nap_at, 0)
    assert agent.answer().value() == 0


@pytest.mark.parametrize("agent", [COMPILED], ids=["compiled"], indirect=True)
def test_calls_that_the_agent_takes_are_not_begun(agent, tmp_path):
    go = tmp_path / "go"

    def wait_at(x):
        import time

        if x == 1:
            print("waiting", flush=True)
            while not go.exists():
                time.sleep(0.01)  # on a worker
        return x

    for task in (1, 2):
        agent.group(task, wait_at, range(5))
        assert agent.outcome(task) == 0
        agent.wait_output(b"waiting")
        assert agent.number(CLAIMS) == (task << 32) + 2
        agent.shared[CLAIMS : CLAIMS + 8] = struct.pack("<Q", (task << 32) + 5)
        go.touch()
        answer = agent.answer()
        assert (answer.task, answer.status, answer.value()) == (task, OK, 1)
        go.unlink()


def test_a_child_that_is_forked_in_a_group_answers_nothing(agent):
    def fork_at(x):
        import os

        if x == 1 and os.fork() == 0:
            return "child"
        return x

    for task in (1, 2):
        agent.group(task, fork_at, range(4))
        assert [agent.outcome(task) for _ in range(3)] == [0, 1, 2]
        assert agent.answer().value() == 3


def test_a_group_that_has_begun_is_not_withdrawn(agent):
    def signal_between_calls(x):
        import os
        import signal
        import sys

        class Output:
            closed = False

            def write(self, text):
                pass

            def flush(self):  # when the call has ended
                os.kill(os.getpid(), signal.SIGINT)

        sys.stdout = Output()
        return x

    for task in (1, 2):
        os.write(agent.cancel, struct.pack("<Q", task | WITHDRAW))  # read at the first signal
        agent.group(task, signal_between_calls, range(5))
        assert [agent.outcome(task) for _ in range(4)] == [0, 1, 2, 3]
        answer = agent.answer()
        assert (answer.task, answer.status, answer.value()) == (task, OK, 4)
