"""When `pool.cost` is that of the open pool."""

import pickle
from types import SimpleNamespace

import pytest

import skyward as sky
from skyward import PoolCost


class Live:
    """An open pool that costs a dollar more each time that it is asked."""

    def __init__(self, during):
        self.core = SimpleNamespace(is_ours=True, is_active=True, cost=self.cost)
        self.spent = 0.0
        self.during = during

    def cost(self):
        self.spent += 1
        return PoolCost(total=self.spent)

    def waits_for_this_thread(self):
        return False

    def close(self, tell):
        self.core.is_active = False
        self.during()


def test_event_handlers_get_the_cost_of_a_pool_that_closes():
    pool, seen = sky.ComputePool(), []
    pool._display = None  # as where nothing is shown
    for _ in range(2):
        pool._live = live = Live(lambda: seen.append((pool.is_active, pool.cost.total)))
        pool._paid = live.core
        pool._close()
        assert seen.pop() == (False, 1), "it is asked while it closes"
        live.spent = 7.0
        assert pool.cost.total == 2, "the last one that it was asked for"
    pool._live = Live(None)
    pool._paid = pool._live.core
    pool._paid.is_ours = False  # as in a forked child
    assert pool.cost.total == 2
    pool._close()
    assert pool.cost.total == 2


def test_a_pool_that_failed_to_open_has_its_cost():
    cloud, final = sky.testing.FakeCloud(prices={"cpu": 1.0}, failed_boots=1, speed=0), []
    pool = sky.ComputePool(provider=cloud, display="quiet")
    pool.on(sky.CostFinal, lambda event: final.append((event.total_cost, pool.cost.total)))
    with pytest.raises(sky.ProvisioningError):
        pool.open()
    assert pool.cost.total == pool.cost.setup == cloud.bill() > 0
    assert final == [(cloud.bill(), cloud.bill())]


def test_a_budget_that_opens_no_pool_is_a_failure_to_provision():
    cloud = sky.testing.FakeCloud(prices={"cpu": 1.0}, speed=0)
    pool = sky.ComputePool(provider=cloud, budget=0.01, display="quiet")
    with pytest.raises(sky.ProvisioningError, match="nothing was launched") as caught:
        pool.open()
    copied = pickle.loads(pickle.dumps(caught.value))
    for error in (caught.value, copied):
        assert isinstance(error, sky.BudgetExceededError)
    assert str(copied) == str(caught.value)
    assert cloud.bill() == 0
