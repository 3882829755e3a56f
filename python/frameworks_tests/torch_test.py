"""distributed.torch: data-parallel training that equals training in one process."""

import os

import numpy
import pytest
from ports import listening

import skyward as sky

STEPS, BATCH, RATE = 6, 8, 0.1


def rows(count):
    """`count` rows of 5 numbers, and what to make of them."""
    random = numpy.random.default_rng(7)
    x = random.normal(size=(count, 5)).astype("f4")
    return x, (x.sum(axis=1, keepdims=True) ** 2).astype("f4")


def make_model():
    import torch

    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(5, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))


def alone(workers):
    """Losses and parameters of one process that sees the batches of all workers together."""
    import torch

    x, y = map(torch.from_numpy, rows(STEPS * BATCH * workers))
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=0.9)
    losses = []
    for at in range(0, len(x), BATCH * workers):
        here = slice(at, at + BATCH * workers)
        loss = torch.nn.functional.mse_loss(model(x[here]), y[here])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, [part.detach().numpy() for part in model.parameters()]


@sky.compute
@sky.distributed.torch(backend="gloo")
def train(workers):
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
    from torch.utils.data import DataLoader, TensorDataset

    assert dist.is_initialized() and dist.get_backend() == "gloo"
    assert dist.get_world_size() == workers == int(os.environ["WORLD_SIZE"])
    dataset = TensorDataset(*map(torch.from_numpy, rows(STEPS * BATCH * workers)))
    sampler = sky.DistributedSampler(dataset, shuffle=False, drop_last=False)
    model = DistributedDataParallel(make_model())
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=0.9)
    losses = []
    for x, y in DataLoader(dataset, batch_size=BATCH, sampler=sampler):
        loss = torch.nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        losses.append(mean.item() / workers)
    return dist.get_rank(), losses, [part.detach().numpy() for part in model.parameters()]


def test_training_equals_one_process(pool):
    losses, parameters = alone(pool.nodes)
    for round_ in range(2):  # the second call finds a worker on which the first one has ended
        answers = train(pool.nodes) @ pool
        assert [rank for rank, _, _ in answers] == list(range(pool.nodes)), round_
        for _, theirs, tensors in answers:
            assert numpy.allclose(theirs, losses, rtol=0, atol=1e-5)
            for part, other in zip(parameters, tensors, strict=True):
                assert numpy.allclose(part, other, rtol=0, atol=1e-5)


@sky.compute
def after():
    import torch.distributed as dist

    return dist.is_initialized(), [name for name in os.environ if name in ("RANK", "WORLD_SIZE")]


def test_everything_is_released(pool):
    train(pool.nodes) @ pool
    assert after() @ pool == ((False, []),) * pool.nodes


@sky.distributed.torch
@sky.compute(timeout=100)
def chatter():
    import torch
    import torch.distributed as dist

    box = torch.tensor([float(dist.get_rank())])
    dist.all_reduce(box)
    names = [os.environ[f"{library}_SOCKET_IFNAME"] for library in ("NCCL", "GLOO")]
    return box.item(), os.environ["NCCL_DEBUG"], *names


def test_bare_and_above_compute(pool):
    workers = pool.nodes
    assert chatter().timeout == 100
    assert chatter() @ pool == ((sum(range(workers)), "WARN", "lo", "lo"),) * workers


@sky.compute
@sky.distributed.torch(backend="gloo")
def places():
    import torch.distributed as dist

    dist.barrier()
    return listening()


def test_no_port_is_open_but_to_this_machine(pool):
    assert set().union(*places() @ pool) == {"127.0.0.1"}


@sky.compute
def set_nccl(text):
    if text:
        os.environ["NCCL_DEBUG"] = text
    else:
        del os.environ["NCCL_DEBUG"]


def test_what_the_user_says_of_nccl_stands(pool):
    set_nccl("INFO") @ pool
    try:
        assert {debug for _, debug, *_ in chatter() @ pool} == {"INFO"}
    finally:
        set_nccl("") @ pool


@sky.compute
@sky.distributed.torch(backend="gloo")
def fails_on(rank):
    import torch
    import torch.distributed as dist

    if dist.get_rank() == rank:
        raise LookupError("no such row")
    dist.all_reduce(torch.ones(1))


def test_a_failing_worker_fails_the_call_and_not_the_next_one(pool):
    last = pool.nodes - 1
    with pytest.raises(sky.ExecutionError) as caught:
        fails_on(last) @ pool
    assert "no such row" in "".join([str(caught.value), *caught.value.__notes__])
    assert len(chatter() @ pool) == pool.nodes


@sky.compute
def set_interface_of_worker_1(name):
    """What gloo connects through; one that does not exist makes it fail."""
    if sky.instance_info().node == 1:
        os.environ["GLOO_SOCKET_IFNAME"] = name


def test_a_group_that_one_worker_could_not_make_is_no_harm_to_the_next(pool, monkeypatch):
    monkeypatch.setattr("skyward.pool.together.GRACE_SECONDS", 2.0)
    set_interface_of_worker_1("nosuch0") @ pool
    with pytest.raises(sky.ExecutionError, match="nosuch0"):
        chatter() @ pool
    set_interface_of_worker_1("lo") @ pool
    assert len(chatter() @ pool) == pool.nodes


@sky.compute
@sky.distributed.torch(backend="gloo")
def count_down(start):
    import torch
    import torch.distributed as dist

    for value in range(start, 0, -1):
        box = torch.tensor([float(value)])
        dist.all_reduce(box)
        yield box.item()


def test_generators_keep_the_group_until_they_end(pool):
    import threading

    streams = count_down(3) @ pool
    taken = [None] * len(streams)

    def take(at):
        taken[at] = list(streams[at])

    threads = [threading.Thread(target=take, args=(at,)) for at in range(len(streams))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert taken == [[3.0 * pool.nodes, 2.0 * pool.nodes, 1.0 * pool.nodes]] * pool.nodes
