"""Whether gather() takes calls for quick, wherever their nodes are: on a clock of its own."""

import pytest
from skyward.pool.grouped_calls import FIRST_SECONDS
from skyward.pool.quick_trial import are_quick, patience


class World:
    """Its clock moves while somebody waits."""

    def __init__(self):
        self.now = 1000.0
        self.sent = self.now

    def call(self, *, ends):
        return Call(self, self.sent + ends)

    def ask(self, *ends):
        return are_quick([self.call(ends=end) for end in ends], lambda: self.now)


class Call:
    def __init__(self, world, end):
        self.world, self.end = world, end

    def done(self):
        return self.world.now >= self.end

    def wait(self, seconds):
        self.world.now = max(self.world.now, min(self.end, self.world.now + seconds))
        return self.done()


NEVER = float("inf")


@pytest.mark.parametrize("trip", [0.0001, 0.02, 0.1, 0.25])
def test_calls_are_quick_at_any_distance(trip):
    ends = [n * trip + 0.03 for n in range(2, 12)]  # the engine sends what a node has room for
    quick, round_trip = World().ask(trip, *ends)
    assert quick
    assert trip - 1e-9 < round_trip < trip + 0.01
    assert patience(FIRST_SECONDS, round_trip) > 2 * trip


def test_near_nodes_get_no_more_time_than_before():
    world = World()
    quick, round_trip = world.ask(0.0002, 0.0002, NEVER)
    assert not quick
    assert world.now - world.sent < 0.06
    assert patience(FIRST_SECONDS, round_trip) < 0.012


def test_a_first_call_that_is_slow_is_not_waited_for():
    world = World()
    assert world.ask(NEVER, 0.0002, 0.0003) == (False, pytest.approx(0.01))
    assert world.now - world.sent < 0.11


def test_calls_without_any_answer_are_slow():
    world = World()
    quick, _ = world.ask(NEVER, NEVER)
    assert not quick
    assert world.now - world.sent < 0.52


def test_calls_that_keep_ending_are_slow_if_it_takes_long():
    world = World()
    quick, _ = world.ask(*(0.04 * n for n in range(1, 513)))  # one slot, 40 ms each
    assert not quick
    assert world.now - world.sent < 1


def test_no_node_is_farther_than_half_a_second():
    assert patience(FIRST_SECONDS, 60.0) < 0.52
