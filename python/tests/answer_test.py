"""Futures whose condition and lists are made on demand behave as those of concurrent.futures."""

import sys
import threading
import time
from concurrent import futures

import pytest
from skyward.pool.answer import AnswerFuture, _OnDemand, set_results

ENDED = {
    "result": lambda future: future.set_result(7),
    "error": lambda future: future.set_exception(LookupError("seven")),
    "batch": lambda future: set_results([future], [7]),
    "cancelled": lambda future: future.cancel() and future.set_running_or_notify_cancel(),
}


@pytest.mark.parametrize("end", ENDED.values(), ids=ENDED)
@pytest.mark.parametrize("waiting", ["before", "after"])
def test_whoever_waits_is_told(end, waiting):
    future, other = AnswerFuture(), AnswerFuture()
    seen, called = [], threading.Event()

    def wait():
        seen.append(futures.wait([future, other], 60, futures.FIRST_COMPLETED).done)
        seen.append(next(futures.as_completed([future, other], 60)))
        if not future.cancelled():
            seen.append(future.exception(60))

    waiter = threading.Thread(target=wait)
    if waiting == "before":
        future.add_done_callback(lambda _: called.set())
        waiter.start()
    assert not future.done() and not future.running()
    end(future)
    if waiting == "after":
        waiter.start()
        future.add_done_callback(lambda _: called.set())
    assert called.wait(60) and future.done()
    waiter.join(60)
    assert seen[:2] == [{future}, future] and not other.done()


def test_a_cancelled_future_is_waited_for_until_that_is_noted():
    future, seen = AnswerFuture(), []
    assert future.cancel()
    waiter = threading.Thread(target=lambda: seen.extend(futures.as_completed([future], 60)))
    waiter.start()
    deadline = time.monotonic() + 60
    while not future.__dict__.get("_waiters"):
        assert waiter.is_alive() and time.monotonic() < deadline
    assert not future.set_running_or_notify_cancel()
    waiter.join(60)
    assert seen == [future]


def test_an_answer_comes_once():
    future = AnswerFuture()
    assert future.set_running_or_notify_cancel() and future.running() and not future.cancel()
    future.set_result(1)
    with pytest.raises(futures.InvalidStateError):
        future.set_result(2)
    with pytest.raises(futures.InvalidStateError):
        future.set_exception(LookupError())
    set_results([future], [3])
    assert future.result() == 1 and future.exception() is None
    cancelled = AnswerFuture()
    assert cancelled.cancel() and not cancelled.set_running_or_notify_cancel()
    set_results([cancelled], [3])
    with pytest.raises(futures.CancelledError):
        cancelled.result()


def test_a_thread_that_blocks_is_woken():
    for _ in range(200):
        future, got = AnswerFuture(), []
        waiter = threading.Thread(
            target=lambda future=future, got=got: got.append(future.result(60))
        )
        waiter.start()
        set_results([future], [5])
        waiter.join(60)
        assert got == [5]


def test_a_limit_is_kept():
    started = time.monotonic()
    with pytest.raises(TimeoutError):
        AnswerFuture().result(0.01)
    assert time.monotonic() - started < 30


def test_those_that_have_ended_share_no_lock():
    """Two threads that wait for several futures each take the locks of all of them."""
    one, other = AnswerFuture(), AnswerFuture()
    one.set_result(1)
    other.set_result(2)
    with one._condition:
        entered = threading.Event()
        thread = threading.Thread(target=lambda: futures.wait([other]) and entered.set())
        thread.start()
        assert entered.wait(20)
    thread.join()


def test_a_condition_that_is_made_meanwhile_is_the_one_that_counts():
    future, before = AnswerFuture(), sys.gettrace()

    def work():
        assert not future.cancelled()  # makes the condition
        future.set_result(1)

    def trace(frame, *_):
        if frame.f_code is _OnDemand.__get__.__code__:  # this thread has found none
            sys.settrace(before)
            thread = threading.Thread(target=work)
            thread.start()
            thread.join(60)

    sys.settrace(trace)
    try:
        assert futures.wait([future], 60).done == {future}
    finally:
        sys.settrace(before)
    assert future.result(0) == 1
