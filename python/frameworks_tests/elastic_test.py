"""distributed.torch(max_restarts=…): training that goes on after the loss of a node, from its
checkpoint, and ends where one process ends."""

import os
import signal
import threading

import pytest

import skyward as sky

STEPS, SAVE_EVERY = 12, 3


@sky.compute
@sky.distributed.torch(backend="gloo", max_restarts=2)
def train(folder, victim):
    """A step is an average over the workers. The agent of `victim` is killed half-way, once."""
    import torch
    import torch.distributed as dist

    rank, last = dist.get_rank(), sky.checkpoint_dir() / "last.pt"
    begin, weight = 0, torch.zeros(3)
    parts = sorted(path.name for path in sky.checkpoint_dir().glob("part-*"))
    if last.exists():
        begin, weight = torch.load(last)
    restart = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    with open(f"{folder}/{rank}-{restart}", "w") as file:
        file.write(f"{begin} {os.getppid()}")
    for step in range(begin, STEPS):
        change = torch.full((3,), float(rank + step))
        dist.all_reduce(change)
        weight = weight * 0.5 + change
        if (step + 1) % SAVE_EVERY == 0:
            torch.save((step + 1, weight), f"{last}.tmp")
            os.replace(f"{last}.tmp", last)
            last.with_name(f"part-{rank}").write_text(str(step))
        dist.barrier()
        if step == 7 and restart == 0 and rank == victim:
            os.kill(os.getppid(), signal.SIGKILL)
            threading.Event().wait(60)
    return rank, restart, begin, weight.tolist(), parts


def alone(workers):
    weight = 0.0
    for step in range(STEPS):
        weight = weight * 0.5 + sum(rank + step for rank in range(workers))
    return weight


@pytest.mark.parametrize("victim", [0, 2])
def test_a_lost_node_is_replaced_and_training_goes_on(victim, tmp_path):
    events = []
    with sky.ComputePool(
        nodes=3, env={"OMP_NUM_THREADS": "1"}, display="quiet", on_event=events.append
    ) as pool:
        answers = train(str(tmp_path), victim) @ pool
        assert [rank for rank, *_ in answers] == [0, 1, 2]
        for _, restart, begin, weight, parts in answers:
            assert (restart, begin) == (1, 6)  # what was saved last, also on the replacement
            assert parts == [f"part-{rank}" for rank in range(3) if rank != victim]
            assert weight == pytest.approx([alone(3)] * 3)
        before, after = (int((tmp_path / f"{victim}-{n}").read_text().split()[1]) for n in (0, 1))
        assert before != after, "another agent"
        assert any(isinstance(event, sky.InstanceReplaced) for event in events)
        said = [event.message for event in events if isinstance(event, sky.Error)]
        assert any("restart 1 of 2" in text for text in said), said
        # The next call begins afresh.
        again = train(str(tmp_path), -1) @ pool
        assert [(begin, parts) for _, _, begin, _, parts in again] == [(0, [])] * 3


@sky.compute
@sky.distributed.torch(backend="gloo", max_restarts=2)
def fails_twice():
    """Each worker saves a part, worker 0 last."""
    import torch.distributed as dist

    rank, restart = dist.get_rank(), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    folder = sky.checkpoint_dir()
    found = {path.name: path.read_text() for path in folder.iterdir()}
    for turn in (1, 0):
        if rank == turn:
            (folder / f"part-{rank}").write_text(f"of start {restart}")
        dist.barrier()
    if restart < 2:
        if rank == 1:
            raise LookupError("no such row")
        dist.barrier()
    return found


def test_parts_of_a_checkpoint_survive_two_restarts():
    with sky.ComputePool(nodes=2, display="quiet") as pool:
        parts = {"part-0": "of start 1", "part-1": "of start 1"}
        assert fails_twice() @ pool == (parts, parts)


@sky.compute
@sky.distributed.torch(backend="gloo", max_restarts=1)
def points_at_the_latest():
    """Worker 0 alone has a link to the folder of its step."""
    import torch.distributed as dist

    latest = sky.checkpoint_dir() / "latest"
    if latest.is_symlink():
        return os.readlink(latest), (latest / "part-0").read_text()
    if dist.get_rank() == 0:
        (sky.checkpoint_dir() / "step-200").mkdir()
        (sky.checkpoint_dir() / "step-200" / "part-0").write_text("weights")
        latest.symlink_to("step-200")
    dist.barrier()
    raise LookupError("no such row")


def test_a_link_to_the_latest_checkpoint_reaches_every_node():
    with sky.ComputePool(nodes=2, display="quiet") as pool:
        assert points_at_the_latest() @ pool == (("step-200", "weights"),) * 2


@sky.compute
@sky.distributed.torch(backend="gloo", max_restarts=1)
def always_fails():
    import torch.distributed as dist

    if dist.get_rank() == 1:
        raise LookupError("no such row")
    dist.barrier()


def test_a_failure_that_repeats_is_raised_when_the_restarts_are_used_up():
    events = []
    with sky.ComputePool(nodes=2, display="quiet", on_event=events.append) as pool:
        with pytest.raises(sky.ExecutionError) as caught:
            always_fails() @ pool
        assert "no such row" in "".join([str(caught.value), *caught.value.__notes__])
    said = [event.message for event in events if isinstance(event, sky.Error)]
    assert sum("restart 1 of 1" in text for text in said) == 1
