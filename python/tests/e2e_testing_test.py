"""Pools on a fake cloud: the promises of skyward.testing, with real nodes and real functions."""

import os
import pathlib
import threading
import time

import pytest
from waiting import is_alive, wait_until

import skyward as sky

DEADLINE = 60


@sky.compute
def train(epochs):
    for _ in range(epochs):
        time.sleep(0.05)  # on a worker
    return sky.instance_info().node


@sky.compute
def until_told(begun, seconds):
    told = []
    sky.on_preemption(told.append)
    pathlib.Path(begun).touch()
    limit = time.monotonic() + seconds
    while not told and time.monotonic() < limit:
        time.sleep(0.02)  # on a worker
    return told


@sky.compute
def pid():
    return os.getpid()


def nothing_is_left(cloud):
    return not cloud.left and not cloud.violations and cloud.running == 0


def test_training_survives_two_preemptions_and_stays_under_three_dollars():
    cloud = sky.testing.FakeCloud(prices={"A100": 2.00}, preemptions=2, seed=7)
    with sky.ComputePool(provider=cloud, accelerator="A100", nodes=4, display="quiet") as pool:
        assert train(60) @ pool == (0, 1, 2, 3)
    assert cloud.preempted == 2 and cloud.bill() < 3
    assert cloud.launched >= 5 and nothing_is_left(cloud)


def test_a_machine_is_gone_at_once_without_notice():
    cloud = sky.testing.FakeCloud(speed=0)
    with sky.ComputePool(provider=cloud, nodes=2, display="quiet") as pool:
        before = pid() @ pool
        cloud.preempt(node=1, notice=0)
        after = pid() @ pool
        assert after[0] == before[0] and after[1] != before[1]
        wait_until(lambda: not is_alive(before[1]))
    assert cloud.launched == 3 and nothing_is_left(cloud)


def test_a_pool_whose_last_node_is_not_replaced_closes_and_can_open_again():
    cloud = sky.testing.FakeCloud(speed=0)
    pool = sky.ComputePool(provider=cloud, display="quiet").open()
    try:
        seen = {pid() >> pool}
        for _ in range(3):
            cloud.preempt(node=0, notice=0)
            seen.add(pid() >> pool)
        assert len(seen) == 4
        cloud.preempt(node=0, notice=0)  # three replacements in a row were short-lived
        wait_until(lambda: not pool.is_active and nothing_is_left(cloud))
        with pytest.raises(sky.InstanceTerminatedError, match="could not be replaced"):
            pid() >> pool
        pool.open()
        assert pid() >> pool not in seen
    finally:
        pool.close()
    assert cloud.launched == 5 and nothing_is_left(cloud)


@pytest.mark.parametrize(
    ("dials", "options", "launched"),
    [
        ({"spot_capacity": {"cpu": 1}}, {"spot": 0.5}, 2),  # by two requests
        ({"failed_boots": 0.5, "seed": 10}, {}, 3),  # the first one fails
    ],
)
def test_the_machine_that_is_preempted_is_the_nodes_own(dials, options, launched):
    cloud = sky.testing.FakeCloud(speed=0, **dials)
    with sky.ComputePool(provider=cloud, nodes=2, display="quiet", **options) as pool:
        assert cloud.launched == launched
        before = pid() @ pool
        cloud.preempt(node=1, notice=0)
        after = pid() @ pool
        assert after[0] == before[0] and after[1] != before[1]
    assert cloud.preempted == 1 and nothing_is_left(cloud)


def test_a_machine_that_cannot_be_preempted_is_told():
    cloud = sky.testing.FakeCloud(quota=1, speed=0)  # there is no other machine meanwhile
    with sky.ComputePool(provider=cloud, display="quiet"):
        cloud.preempt(notice=600)
        with pytest.raises(sky.ConfigurationError, match="node 0 is being preempted already"):
            cloud.preempt()
        with pytest.raises(sky.ConfigurationError, match="node 1 has no machine"):
            cloud.preempt(node=1)
    assert cloud.preempted == 1 and nothing_is_left(cloud)


def test_one_seed_is_one_run_while_the_clock_stands():
    runs = []
    for _ in range(2):
        cloud = sky.testing.FakeCloud(server_errors=0.2, seed=3, speed=0)
        with sky.ComputePool(provider=cloud, nodes=2, display="quiet") as pool:
            assert train(1) @ pool == (0, 1)
        assert nothing_is_left(cloud)
        runs.append((cloud.bill(), cloud.elapsed, cloud.requests))
    assert runs[0] == runs[1]


def test_calls_time_out_when_the_pool_is_past_its_timeout(tmp_path):
    """The cloud terminates the machines, which is no loss that a replacement could mend."""
    begun = tmp_path / "begun"
    cloud = sky.testing.FakeCloud(speed=0)
    with sky.ComputePool(provider=cloud, nodes=2, timeout=3600, display="quiet") as pool:
        running = pool.submit(until_told(str(begun), DEADLINE))
        wait_until(begun.exists)
        cloud.advance(hours=3)
        with pytest.raises(sky.TimeoutError, match="timeout of 3600 s"):
            running.result(DEADLINE)
        with pytest.raises(sky.TimeoutError, match=r"ComputePool\(timeout="):
            train(0) >> pool
    assert cloud.launched == 2 and nothing_is_left(cloud)


def test_a_pool_that_closes_by_itself_says_what_it_cost():
    cloud = sky.testing.FakeCloud(prices={"A100": 4.00}, speed=0)
    closing, bills, is_closed = [], [], threading.Event()
    pool = sky.ComputePool(
        provider=cloud, accelerator="A100", nodes=1, timeout=3600, display="quiet"
    )
    pool.on(sky.PoolStopping, lambda _: closing.append(pool.cost.total))
    pool.on(sky.CostFinal, lambda bill: bills.append(bill.total_cost))
    pool.on(sky.PoolStopped, lambda _: is_closed.set())
    with pool:
        cloud.advance(hours=2)
        assert is_closed.wait(DEADLINE)
        assert [pool.cost.total] == bills, "counted once"
    assert closing[0] > 1 and pool.cost.total == bills[0] > 1


def test_functions_are_told_of_the_end(tmp_path):
    begun = tmp_path / "begun"
    cloud = sky.testing.FakeCloud(speed=60)
    events = []
    with sky.ComputePool(provider=cloud, display="quiet", on_event=events.append) as pool:
        told = pool.submit(until_told(str(begun), DEADLINE))
        wait_until(begun.exists)
        cloud.preempt(notice=600)
        (left,) = told.result(DEADLINE)
        assert 5 < left <= 10  # ten seconds here
    notices = [one for one in events if isinstance(one, sky.InstancePreempted)]
    assert len(notices) == 1 and "preempts this machine" in notices[0].reason


def test_functions_are_told_before_the_budget_ends_them(tmp_path):
    begun = tmp_path / "begun"
    # It pays for 80 s; what runs is told 30 s, which are 15 s here, before its end.
    cloud = sky.testing.FakeCloud(prices={"A100": 3.60}, launch_delay=1, speed=2)
    with sky.ComputePool(
        provider=cloud, accelerator="A100", spot="never", budget=0.08, display="quiet"
    ) as pool:
        told = pool.submit(until_told(str(begun), DEADLINE))
        wait_until(begun.exists)
        (left,) = told.result(DEADLINE)
        assert 0 < left <= 15.1
        with pytest.raises(sky.BudgetExceededError, match=r"budget of \$0.08 is spent"):
            train(0) >> pool
    assert cloud.bill() <= 0.08 and nothing_is_left(cloud)


def test_a_preemption_that_a_call_does_not_survive():
    @sky.compute
    def endless():
        while True:
            yield 1

    cloud = sky.testing.FakeCloud(speed=60)
    notices = []
    with sky.ComputePool(provider=cloud, display="quiet") as pool:
        pool.on(sky.InstancePreempted, notices.append)
        stream = endless() >> pool  # what has delivered items is not tried again
        next(stream)
        cloud.preempt(notice=60)  # one second here
        with pytest.raises(sky.PreemptionError, match="was preempted: endless") as caught:
            for _ in stream:
                pass
        assert train(0) >> pool == 0, "another machine has come"
    assert caught.value.instance_id == notices[0].instance_id and caught.value.attempts == 1
    assert nothing_is_left(cloud)


def test_bills_are_to_the_cent_when_the_clock_stands():
    bills = []
    for _ in range(2):
        cloud = sky.testing.FakeCloud(
            prices={"A100": 4.00}, spot_prices={"A100": 1.20}, speed=0, launch_delay=60
        )
        with sky.ComputePool(
            provider=cloud, accelerator="A100", nodes=3, timeout=7200, display="quiet"
        ) as pool:
            train(0) @ pool
            cloud.advance(hours=0.5)
            cloud.set_spot_price("A100", 2.40)
            cloud.advance(minutes=30)
        assert nothing_is_left(cloud)
        bills.append(cloud.bill())
    assert bills[0] == bills[1]
    assert 3 * 1.80 < bills[0] < 3 * 1.80 + 0.15
    assert cloud.elapsed >= 3600


@pytest.mark.parametrize("speed", [0, 60])
def test_what_a_pool_says_that_it_cost_is_the_bill(speed):
    """Machines that are replaced and prices that move among it, on a clock that stands and on one
    that runs."""
    cloud = sky.testing.FakeCloud(price_volatility=0.2, notice=0, seed=5, speed=speed)
    costs = []
    with sky.ComputePool(
        provider=cloud,
        accelerator="A100",
        nodes=3,
        spot=0.6,
        timeout=24 * 3600,
        display="quiet",
        on_event=lambda event: costs.append(event) if isinstance(event, sky.CostFinal) else None,
    ) as pool:
        pid() @ pool
        cloud.advance(minutes=20)
        cloud.storm()
        pid() @ pool
        cloud.advance(hours=2)
        pid() @ pool
    assert nothing_is_left(cloud) and cloud.preempted >= 2
    (final,) = costs
    assert round(final.total_cost, 2) == round(cloud.bill(), 2)
    assert final.total_cost == pytest.approx(cloud.bill(), abs=0.001)
    assert pool.cost.total == final.total_cost


def test_on_demand_machines_stand_through_storms():
    cloud = sky.testing.FakeCloud(notice=0, spot_capacity={"cpu": 1}, speed=0)
    with sky.ComputePool(provider=cloud, nodes=2, spot=0.5, display="quiet") as pool:
        before = pid() @ pool
        assert cloud.storm() == 1
        after = pid() @ pool
        assert sum(one != other for one, other in zip(before, after, strict=True)) == 1
    assert nothing_is_left(cloud)


def test_the_worst_of_clouds_is_used_all_the_same():
    cloud = sky.testing.FakeCloud(
        lost_replies=0.2,
        server_errors=0.2,
        requests_per_second=2,
        listing_lag=60,
        leaked_disks=0.5,
        speed=0,
    )
    with sky.ComputePool(provider=cloud, nodes=2, display="quiet") as pool:
        assert train(1) @ pool == (0, 1)
    assert nothing_is_left(cloud)


@pytest.mark.parametrize(
    ("dials", "words"),
    [
        ({"capacity": {"cpu": 1}}, "NoCapacity"),
        ({"quota": 1}, "QuotaExceeded"),
        ({"failed_boots": 1.0}, "did not start"),
    ],
)
def test_machines_that_cannot_be_had(dials, words):
    cloud = sky.testing.FakeCloud(speed=0, **dials)
    pool = sky.ComputePool(provider=cloud, nodes=2, display="quiet")
    with pytest.raises(sky.ProvisioningError, match=words), pool:
        pass
    assert nothing_is_left(cloud)


def test_machines_that_boot_slowly_are_not_waited_for():
    cloud = sky.testing.FakeCloud(launch_delay=600, speed=0)
    with pytest.raises(sky.SkywardError, match="did not start in time"):
        sky.ComputePool(provider=cloud, display="quiet").__enter__()
    assert nothing_is_left(cloud)


def test_what_is_missing_has_its_own_class():
    cloud = sky.testing.FakeCloud(spot_capacity={"cpu": 1}, speed=0)
    with pytest.raises(sky.SpotCapacityError) as caught:
        sky.ComputePool(provider=cloud, nodes=2, spot="always", display="quiet").__enter__()
    assert caught.value.requested == 2 and caught.value.instance_type == "fake-cpu"
    with pytest.raises(sky.QuotaExceededError):
        cloud = sky.testing.FakeCloud(quota=1, speed=0)
        sky.ComputePool(provider=cloud, nodes=2, spot="never", display="quiet").__enter__()
    assert nothing_is_left(cloud)


@pytest.mark.parametrize(
    ("options", "hourly"),
    [
        ({"accelerator": sky.accelerators.H100(count=8)}, 64),
        ({"accelerator": sky.accelerators.H100(count=3)}, 32),
        ({"cpu": 16, "memory": "128GB"}, 0.2),
    ],
)
def test_machines_have_several_sizes(options, hourly):
    cloud = sky.testing.FakeCloud(prices={"H100": 8.0, "cpu": 0.1}, speed=0)
    with sky.ComputePool(
        provider=cloud, spot="never", timeout=24 * 3600, display="quiet", **options
    ):
        before = cloud.bill()
        cloud.advance(hours=1)
        assert cloud.bill() - before == pytest.approx(hourly, rel=0.02)  # a minute is paid already


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"machine": "p5.48xlarge"}, r"(?s)FakeCloud: machine=.*it sells .*fake-h100-x8"),
        ({"accelerator": sky.accelerators.H100(count=16)}, "FakeCloud: no machine has 16 H100"),
        ({"volume": {"/data": "s3://bucket"}}, "FakeCloud are processes of this computer: volume"),
    ],
)
def test_what_it_does_not_have_is_refused_in_its_name(options, says):
    cloud = sky.testing.FakeCloud(speed=0)
    with pytest.raises(sky.SkywardError, match=says):
        sky.ComputePool(provider=cloud, display="quiet", **options).__enter__()
    assert cloud.launched == 0 and nothing_is_left(cloud)


def test_capacity_comes_and_goes():
    cloud = sky.testing.FakeCloud(capacity={"cpu": 0}, speed=0)
    with pytest.raises(sky.ProvisioningError, match="NoCapacity"):
        sky.ComputePool(provider=cloud, display="quiet").__enter__()
    cloud.set_capacity("cpu", 1)
    with sky.ComputePool(provider=cloud, display="quiet"):
        cloud.set_capacity("cpu", 0)
        assert cloud.running == 1
    with pytest.raises(sky.ConfigurationError, match="sells no L4"):
        cloud.set_capacity("L4", 1)
    with pytest.raises(sky.ConfigurationError, match="negative"):
        cloud.set_capacity("cpu", -1)
    assert nothing_is_left(cloud)


@pytest.mark.parametrize(
    ("dials", "words"),
    [
        ({"prices": {"A1000": 1.0}}, "A1000"),
        ({"prices": {"A100": 0.0}}, "must be positive"),
        ({"lost_replies": 2.0}, "a share must be from 0 to 1"),
        ({"capacity": {"L4": 1}}, "not in prices"),
        ({"speed": "fast"}, "speed='fast'"),
    ],
)
def test_dials_that_make_no_sense(dials, words):
    with pytest.raises(sky.ConfigurationError, match=words):
        sky.testing.FakeCloud(**dials)


def test_two_pools_on_one_cloud():
    cloud = sky.testing.FakeCloud(speed=0)
    with (
        sky.ComputePool(provider=cloud, display="quiet") as one,
        sky.ComputePool(provider=cloud, nodes=2, display="quiet") as two,
    ):
        assert (train(1) @ one, train(1) @ two) == ((0,), (0, 1))
        assert cloud.running == 3
    assert nothing_is_left(cloud)


def test_the_pools_time_counts_in_the_clouds():
    cloud = sky.testing.FakeCloud(prices={"A100": 4.00}, speed=0)
    minutes = 0
    with (
        pytest.raises(sky.TimeoutError, match="timeout of 600 s"),
        sky.ComputePool(provider=cloud, accelerator="A100", timeout=600, display="quiet") as pool,
    ):
        while minutes < 30:
            train(0) >> pool
            cloud.advance(minutes=1)
            minutes += 1
    assert minutes == 10 and nothing_is_left(cloud)
