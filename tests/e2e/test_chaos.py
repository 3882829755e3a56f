"""1,000 tasks on four nodes while workers are killed at random.

Every result is right, every failure is reported, nothing hangs.
"""

import os
import random
import signal
import threading
import time
from concurrent.futures import wait
from pathlib import Path

import pytest

import skyward as sky

TASKS = 1_000
NODES = 4
DEADLINE = 120  # seconds; the watchdog of the whole test


@sky.compute
def work(number):
    """Takes a moment, touches some memory, and tells which process ran it."""
    total = 0
    stop = time.monotonic() + 0.004
    while time.monotonic() < stop:
        total += sum(range(100))
    return number, number * number, os.getpid()


def children(pid):
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == pid:
                found.append(int(entry.name))
    return found


def workers():
    """Worker processes: children of the agents that are children of this process."""
    found = []
    for agent in children(os.getpid()):
        try:
            name = Path(f"/proc/{agent}/comm").read_text().strip()
        except OSError:
            continue
        if name.startswith("skyward-agent"):
            found += children(agent)
    return found


def state_of(pid):
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError as error:
        return f"{pid}: {error}"
    return f"{pid}: " + ", ".join(
        line for line in lines if line.startswith(("Name", "State", "PPid"))
    )


def kill_at_random(stop, killed, seed):
    choose = random.Random(seed)
    while not stop.wait(choose.uniform(0.01, 0.06)):
        candidates = workers()
        if candidates:
            victim = choose.choice(candidates)
            try:
                os.kill(victim, signal.SIGKILL)
                killed.append(victim)
            except ProcessLookupError:
                pass


@pytest.mark.parametrize("seed", [1, 2])
def test_killed_workers_cost_only_their_task(seed):
    stop, killed = threading.Event(), []
    with sky.ComputePool(nodes=NODES, display="quiet") as pool:
        killer = threading.Thread(target=kill_at_random, args=(stop, killed, seed))
        killer.start()
        try:
            futures = [pool.submit(work(number)) for number in range(TASKS)]
            done, pending = wait(futures, timeout=DEADLINE)
        finally:
            stop.set()
            killer.join()
        assert not pending, f"{len(pending)} of {TASKS} tasks hang"

        failures = 0
        for number, future in enumerate(futures):
            error = future.exception()
            if error is None:
                got, square, _ = future.result()
                assert (got, square) == (number, number * number)
            else:
                assert isinstance(error, sky.ExecutionError), repr(error)
                assert "SIGKILL" in str(error)
                assert error.node in range(NODES)
                failures += 1
        assert killed, "the killer never found a worker: the test tests nothing"
        # A killed worker fails the task that it ran, and no other one.
        assert failures <= len(killed)
        # The pool is whole again, once the agents have seen the last one die.
        until = time.monotonic() + DEADLINE
        while left := set(killed) & set(workers()):
            assert time.monotonic() < until, [state_of(pid) for pid in left]
        assert sorted(r[0] for r in sky.gather(*[work(n) for n in range(40)]) >> pool) == list(
            range(40)
        )
    assert not [state_of(pid) for pid in workers()]


def test_lost_agents_are_replaced_and_their_tasks_run_again():
    """Whole nodes die: their tasks run elsewhere or on the replacement, under the same rank."""
    events = []
    with sky.ComputePool(nodes=NODES, display="quiet", on_event=events.append) as pool:
        futures = [pool.submit(work(number)) for number in range(300)]
        agent = next(
            pid
            for pid in children(os.getpid())
            if Path(f"/proc/{pid}/comm").read_text().startswith("skyward-agent")
        )
        os.kill(agent, signal.SIGKILL)
        done, pending = wait(futures, timeout=DEADLINE)
        assert not pending
        assert [future.result()[0] for future in futures] == list(range(300))
        ranks = sky.compute(lambda: sky.instance_info().node)() @ pool
        assert ranks == tuple(range(NODES))
    assert any(isinstance(event, sky.InstanceReplaced) for event in events)
