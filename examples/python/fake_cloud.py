"""Testing: on a fake cloud, a training survives two preemptions, and a storm, for less than $3"""

import time

import skyward as sky


@sky.compute
def train(epochs):
    for _ in range(epochs):
        time.sleep(0.1)  # the work
    return sky.instance_info().node


def test_survives_two_preemptions():
    cloud = sky.testing.FakeCloud(prices={"A100": 4.00}, preemptions=2, seed=7)
    with sky.ComputePool(provider=cloud, accelerator="A100", nodes=4, display="quiet") as pool:
        assert train(30) @ pool == (0, 1, 2, 3)
    assert cloud.preempted == 2 and cloud.bill() < 3 and cloud.running == 0
    print(f"two preemptions: {cloud.launched} machines, ${cloud.bill():.2f}")


def test_survives_a_storm_without_notice():
    cloud = sky.testing.FakeCloud(notice=0, lost_replies=0.1, listing_lag=30)
    with sky.ComputePool(provider=cloud, nodes=2, display="quiet") as pool:
        results = [pool.submit(train(10)) for _ in range(4)]
        cloud.storm()
        assert {result.result() for result in results} <= {0, 1}
    assert not cloud.left and not cloud.violations
    print(f"a storm: {cloud.launched} machines")


if __name__ == "__main__":
    test_survives_two_preemptions()
    test_survives_a_storm_without_notice()
