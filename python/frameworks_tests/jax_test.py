"""distributed.jax: a sum over all processes, and a data-parallel step."""

import os
import time

import numpy
import pytest
from ports import listening

import skyward as sky


@sky.compute
@sky.distributed.jax()
def total():
    import jax
    from jax.sharding import Mesh, NamedSharding
    from jax.sharding import PartitionSpec as P

    mesh = Mesh(jax.devices(), ("workers",))
    mine = numpy.array([jax.process_index() + 1.0], dtype="f4")
    everyone = jax.make_array_from_process_local_data(NamedSharding(mesh, P("workers")), mine)
    psum = jax.jit(
        jax.shard_map(
            lambda x: jax.lax.psum(x, "workers"), mesh=mesh, in_specs=P("workers"), out_specs=P()
        )
    )
    summed = float(psum(everyone).addressable_data(0)[0])
    return jax.process_index(), jax.process_count(), summed, os.environ["JAX_PROCESS_ID"]


def test_sum_over_all_processes(pool):
    count = pool.nodes
    expected = tuple((i, count, count * (count + 1) / 2, str(i)) for i in range(count))
    assert total() @ pool == expected
    assert total() @ pool == expected, "the second call begins afresh"


@sky.compute
@sky.distributed.jax
def places():
    from jax.experimental import multihost_utils

    multihost_utils.sync_global_devices("all")
    return listening()


def test_no_port_is_open_but_to_this_machine(pool):
    assert set().union(*places() @ pool) == {"127.0.0.1"}


def test_jax_arrays_stay_arrays():
    import jax

    array = jax.numpy.arange(8, dtype="int16").reshape(4, 2)
    part, names = sky.shard(array, "abcd", node=1, total_nodes=2)
    assert isinstance(part, jax.Array) and part.dtype == "int16"
    assert part.tolist() == [[2, 3], [6, 7]] and names == ["b", "d"]
    assert sky.shard(array[:1], node=1, total_nodes=2).shape == (0, 2)


def rows(count):
    random = numpy.random.default_rng(5)
    x = random.normal(size=(count, 4)).astype("f4")
    return x, numpy.tanh(x @ numpy.array([1.0, -2.0, 0.5, 3.0], dtype="f4"))


def descend(weights, x, y):
    """Loss of the weights, and the weights after one step down."""
    import jax

    def loss(weights):
        return ((x @ weights - y) ** 2).mean()

    value, slope = jax.value_and_grad(loss)(weights)
    return value, weights - 0.05 * slope


@sky.compute
@sky.distributed.jax
def train(steps, count):
    import jax
    from jax.sharding import Mesh, NamedSharding
    from jax.sharding import PartitionSpec as P

    mesh = Mesh(jax.devices(), ("data",))
    over_data, everywhere = NamedSharding(mesh, P("data")), NamedSharding(mesh, P())
    mine = sky.shard(*rows(count), drop_last=True)
    x, y = (jax.make_array_from_process_local_data(over_data, part) for part in mine)
    weights = jax.device_put(numpy.zeros(4, dtype="f4"), everywhere)
    step = jax.jit(descend, out_shardings=(everywhere, everywhere))
    losses = []
    for _ in range(steps):
        value, weights = step(weights, x, y)
        losses.append(float(value))
    return losses, numpy.asarray(weights)


def test_data_parallel_step_equals_one_process(pool):
    x, y = rows(64)
    weights, expected = numpy.zeros(4, dtype="f4"), []
    for _ in range(5):
        value, weights = descend(weights, x, y)
        expected.append(float(value))
    for losses, theirs in train(5, 64) @ pool:
        assert numpy.allclose(losses, expected, rtol=0, atol=1e-5)
        assert numpy.allclose(theirs, weights, rtol=0, atol=1e-5)


@sky.compute
def plain():
    import jax

    return jax.process_count(), len(jax.devices()), "JAX_PROCESS_ID" in os.environ


def test_calls_without_the_decorator_are_alone_again(pool):
    total() @ pool
    assert plain() @ pool == ((1, 1, False),) * pool.nodes
    assert len(total() @ pool) == pool.nodes, "and with it they are together again"


@sky.compute
@sky.distributed.jax(timeout=60)
def fails_on(rank):
    import jax
    from jax.experimental import multihost_utils

    if jax.process_index() == rank:
        raise LookupError("no such row")
    multihost_utils.sync_global_devices("all")


def test_a_failing_worker_fails_the_call_and_not_the_next_one(pool):
    started = time.monotonic()
    with pytest.raises(sky.ExecutionError) as caught:
        fails_on(pool.nodes - 1) @ pool
    assert "no such row" in "".join([str(caught.value), *caught.value.__notes__])
    assert time.monotonic() - started < 120
    assert len(total() @ pool) == pool.nodes


@sky.compute
@sky.distributed.jax
def process_of(uses_gpu):
    import jax
    from jax._src import xla_bridge

    float(jax.numpy.ones(2).sum())
    if uses_gpu:
        xla_bridge._backends["cuda"] = xla_bridge._backends["cpu"]
    return os.getpid()


def test_a_process_that_used_a_gpu_is_replaced(pool):
    """As JAX 0.11 needs it, seen on an H200: tests/gpu has the real one."""
    cpu = [process_of(False) @ pool for _ in range(2)]
    gpu = [process_of(True) @ pool, process_of(False) @ pool]
    assert cpu[0] == cpu[1] == gpu[0]
    assert not set(gpu[0]) & set(gpu[1])
