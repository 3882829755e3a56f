"""Locks in forked children."""

import os
import threading

import pytest
from skyward.transport.forks import renewed


def outcome_in_child(work):
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if work() else 1)
        finally:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("make", [threading.Lock, threading.RLock])
def test_a_lock_that_another_thread_holds_is_free(make):
    lock, held, over = renewed(make()), threading.Event(), threading.Event()

    def hold():
        with lock:
            held.set()
            over.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(60)
    assert outcome_in_child(lambda: lock.acquire(timeout=1)) == 0
    over.set()
    thread.join()


def test_a_lock_that_the_forking_thread_holds_stays_its_own():
    lock = renewed(threading.RLock())

    def leave():
        lock.release()
        return True

    with lock:
        assert outcome_in_child(leave) == 0
