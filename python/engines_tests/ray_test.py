"""sky.ray: a cluster over three nodes, one of which is killed."""

import os
import signal
import sys
from pathlib import Path

import pytest
import ray
from conftest import await_true, engine_processes

import skyward as sky

NODES = 3
RETRIES = {"max_restarts": -1, "max_task_retries": -1}


@sky.compute
def agent():
    return os.getppid()


@sky.compute
def square(x):
    return x * x


@ray.remote(num_cpus=0, scheduling_strategy="SPREAD", **RETRIES)
class Part:
    """A third of a sum of squares, on a node of its own."""

    def __init__(self, rank):
        self.rank = rank

    def total(self, count):
        return sum(x * x for x in range(self.rank, count, NODES))

    def node(self):
        return sky.instance_info().node


@ray.remote(max_retries=-1)
def collatz(start):
    steps = 0
    while start != 1:
        start = start // 2 if start % 2 == 0 else 3 * start + 1
        steps += 1
    return steps


def works(parts):
    """Actors and functions on the cluster come to what one process comes to."""
    total = sum(ray.get([part.total.remote(1000) for part in parts]))
    assert total == sum(x * x for x in range(1000))
    assert max(ray.get([collatz.remote(start) for start in range(1, 30)])) == 111


def living():
    return sum(node["Alive"] for node in ray.nodes())


def lost():
    return sum(not node["Alive"] for node in ray.nodes())


def test_actors_over_three_nodes_one_of_which_is_killed():
    events = []
    with sky.ComputePool(
        nodes=NODES, concurrency=2, display="quiet", on_event=events.append
    ) as pool:
        agents = agent() @ pool
        with sky.ray(pool) as address:
            ray.init(address, logging_level="warning")
            assert living() == NODES
            assert ray.cluster_resources()["CPU"] >= NODES
            parts = [Part.remote(rank) for rank in range(NODES)]
            works(parts)
            places = ray.get([part.node.remote() for part in parts])
            assert square(7) >> pool == 49  # a slot of each node is left
            assert accepts(address, with_key=True)
            assert not accepts(address, with_key=False)
            keys_are_private()

            victim = max(places) or 1
            os.kill(agents[victim], signal.SIGKILL)
            await_true(lambda: lost() == 1, 60, "Ray notices the loss")
            works(parts)
            await_true(lambda: living() == NODES, 60, "the replacement joins")
            assert victim in {event.node for event in events if hasattr(event, "node")}
        assert not ray.is_initialized()
        await_true(lambda: not engine_processes(), 20, "Ray's processes end with the block")
        assert "RAY_USE_TLS" not in os.environ
        assert square(8) >> pool == 64


def accepts(address, with_key):
    """Whether the head lets in a client that has the authority's certificate, and a key."""
    import grpc

    names = ("CA_CERT", "SERVER_KEY", "SERVER_CERT") if with_key else ("CA_CERT",)
    texts = [Path(os.environ[f"RAY_TLS_{name}"]).read_bytes() for name in names]
    credentials = grpc.ssl_channel_credentials(*texts)
    with grpc.secure_channel(address.removeprefix("ray://"), credentials) as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=60 if with_key else 2)
        except grpc.FutureTimeoutError:
            return False
    return True


def keys_are_private():
    for name in ("RAY_TLS_SERVER_KEY", "RAY_AUTH_TOKEN_PATH"):
        file = os.environ[name]
        assert os.stat(file).st_mode & 0o077 == 0
        assert os.stat(os.path.dirname(file)).st_mode & 0o077 == 0


def test_nodes_behind_a_command_and_a_second_cluster(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    there = sky.Command(commands=[["sh", "-c"]], python=sys.executable)
    with sky.ComputePool(provider=there, display="quiet") as pool, sky.ray(pool) as address:
        assert address.startswith("ray://127.0.0.1:")
        ray.init(address, logging_level="warning")
        assert ray.get(collatz.remote(27)) == 111
        with (
            pytest.raises(sky.ConfigurationError, match="connected to a Ray cluster already"),
            sky.ray(pool),
        ):
            pass
