"""sky.dask: a cluster over three nodes, one of which is killed."""

import os
import signal
import sys

import pandas
import pytest
from conftest import await_true, descendants, listening_addresses, stranger_is_refused

import skyward as sky

NODES = 3
LOOPBACK = "0100007F"


def table():
    return pandas.DataFrame({"key": [i % 7 for i in range(5000)], "value": range(5000)})


def frame():
    import dask.dataframe

    return dask.dataframe.from_pandas(table(), npartitions=9)


@sky.compute
def square(x):
    return x * x


@sky.compute
def agent():
    return os.getppid()


@pytest.fixture(scope="module")
def events():
    return []


@pytest.fixture(scope="module")
def pool(events):
    with sky.ComputePool(
        nodes=NODES, concurrency=2, display="quiet", on_event=events.append
    ) as opened:
        yield opened


def nodes_of(client):
    """Names of the workers that the scheduler has."""
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    return sorted(worker["name"] for worker in workers)


def answers_alone(client):
    """A computation on the cluster has the answer that one process has."""
    there = frame().groupby("key").value.agg(["sum", "mean"]).compute().sort_index()
    pandas.testing.assert_frame_equal(
        there, table().groupby("key").value.agg(["sum", "mean"]), check_dtype=False
    )


def test_a_data_frame_over_three_nodes_one_of_which_is_killed(pool, events):
    agents = agent() @ pool
    with sky.dask(pool) as client:
        names = [f"node-{node}" for node in range(NODES)]
        assert nodes_of(client) == names
        answers_alone(client)
        assert sky.gather(square(2), square(3)) >> pool == (4, 9)  # a slot of each node is left
        assert listening_addresses(descendants()) == {LOOPBACK}
        host, _, port = client.scheduler.address.removeprefix("tls://").rpartition(":")
        stranger_is_refused(host, int(port))

        os.kill(agents[1], signal.SIGKILL)
        answers_alone(client)
        await_true(
            lambda: any(isinstance(event, sky.InstanceReplaced) for event in events),
            60,
            "node 1 is replaced",
        )
        await_true(lambda: nodes_of(client) == names, 60, "the replacement has a worker")
        answers_alone(client)
    assert square(4) >> pool == 16
    said = [event.message for event in events if isinstance(event, sky.Error)]
    assert any("sky.dask(pool): node 1 was lost" in text for text in said), said


def test_a_second_block_and_the_loss_of_the_head(pool, events):
    with sky.dask(pool) as client:
        answers_alone(client)
        os.kill((agent() @ pool)[0], signal.SIGKILL)
        await_true(
            lambda: any(
                "node 0, where its head runs, was lost" in event.message
                for event in events
                if isinstance(event, sky.Error)
            ),
            60,
            "the loss of the head is told",
        )
    assert sorted(sky.gather(*map(square, range(4))) >> pool) == [0, 1, 4, 9]


def test_nodes_behind_a_command_are_reached_by_a_forwarded_port(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    noisy = ["sh", "-c", 'echo Welcome to this machine; echo >&2 hello; eval "$1"', "sh"]
    there = sky.Command(commands=[noisy] * 2, python=sys.executable, addresses=["127.0.0.1"] * 2)
    with (
        sky.ComputePool(provider=there, nodes=2, display="quiet") as pool,
        sky.dask(pool, threads=1) as client,
    ):
        ports = client.scheduler.address, client.scheduler_info()["address"]
        assert ports[0] != ports[1]
        answers_alone(client)
        with pytest.raises(sky.ConfigurationError, match="concurrency=2"):
            square(3) >> pool
