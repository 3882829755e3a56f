"""What map() sends ahead, on virtual time: nodes are as far away as the test says."""

import heapq
from types import SimpleNamespace

import pytest
from skyward.call.pending import recorded
from skyward.pool.drawn_inputs import DrawnInputs
from skyward.pool.mapped_calls import Mapped, MappedCalls

from skyward.pool import mapped_calls

PREFETCH_SECONDS = 0.004  # kPrefetchWork of limits.h


class Clock:
    def __init__(self):
        self.now = 100.0

    def monotonic(self):
        return self.now


class Handle:
    result_bytes = 10

    def __init__(self, clock, ends, run):
        self.clock, self.ends, self.run_seconds = clock, ends, run

    def done(self):
        return self.clock.now >= self.ends

    def wait(self, seconds):
        limit = self.ends if seconds is None else min(self.ends, self.clock.now + seconds)
        self.clock.now = max(self.clock.now, limit)
        return self.done()

    def cancel(self): ...


class Engine:
    """Gives each slot one call and what runs in 4 ms and a round trip."""

    def __init__(self, clock, slots, trip, run):
        self.clock, self.trip, self.run = clock, trip, run
        self.total_slots = slots
        self.most = slots * (1 + min(256, int((PREFETCH_SECONDS + trip) / run)))
        self.free_at = [0.0] * slots
        self.given = []

    def packer(self): ...

    def submit_many(self, calls):
        return [self.submit() for _ in calls]

    def submit(self):
        given = self.clock.now
        if len(self.given) >= self.most:
            given = max(given, heapq.heappop(self.given))
        starts = max(given + self.trip / 2, heapq.heappop(self.free_at))
        heapq.heappush(self.free_at, starts + self.run)
        ends = starts + self.run + self.trip / 2
        heapq.heappush(self.given, ends)
        return Handle(self.clock, ends, self.run)


def pool_of(engine):
    call = SimpleNamespace(is_stream=False, sizes=lambda: (100, {}))
    return SimpleNamespace(
        core=engine,
        collect_tasks=False,
        mapped=Mapped(),
        answers=SimpleNamespace(is_here=lambda: False),
        packing=SimpleNamespace(timeout=1.0, calls=lambda items, known: [call] * len(items)),
        answer=lambda item, call, handle, *_, **__: handle.wait(None),
    )


@pytest.mark.parametrize("trip", [0.0, 0.05, 0.1, 0.2, 0.5])
@pytest.mark.parametrize("run", [0.005, 0.05])
def test_calls_for_distant_nodes_keep_them_busy(monkeypatch, trip, run):
    clock, slots, count = Clock(), 4, 800
    monkeypatch.setattr(mapped_calls, "time", clock)
    pool = pool_of(Engine(clock, slots, trip, run))
    inputs = DrawnInputs(iter([(x,) for x in range(count)]))
    calls = MappedCalls(pool, lambda *args: recorded(abs, args, {}, "abs", None, 0), inputs)
    begun = clock.now
    assert len(list(calls.answers(None))) == 1 + count
    at_best = trip + count * run / slots
    first_answers = trip + 2 * run  # until then, two calls for each slot are in flight
    assert clock.now - begun <= 1.05 * at_best + first_answers
