"""sky.mpi and distributed.mpi: worlds of Open MPI and MPICH over three nodes."""

import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest
from conftest import await_true, descendants

import skyward as sky

NODES, COUNT = 3, 1200


@pytest.fixture(scope="module")
def pool():
    with sky.ComputePool(nodes=NODES, display="quiet") as opened:
        yield opened


@pytest.fixture(autouse=True)
def nothing_of_mpi_is_left(pool):
    yield

    def left():
        names = []
        for pid in descendants():
            with suppress(OSError):  # it has just ended
                names.append(Path(f"/proc/{pid}/comm").read_text().strip())
        return [name for name in names if name.startswith(("orted", "hydra", "mpi", "sh"))]

    await_true(lambda: not left(), 20, "programs of MPI are left")
    assert not list(Path("/tmp").glob("sky-mpi-*"))


def step(rank, size):
    """This rank's part of a sum, and what the world adds it up to."""
    import numpy
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    assert (world.Get_rank(), world.Get_size()) == (rank, size)
    mine = numpy.arange(rank, COUNT, size, dtype="d") ** 2
    total = numpy.zeros(1)
    world.Allreduce(mine.sum(keepdims=True), total)
    ring = world.sendrecv(rank, dest=(rank + 1) % size, source=(rank - 1) % size)
    return float(total[0]), ring, sky.instance_info().node


ALONE = float(sum(x * x for x in range(COUNT)))


def test_every_worker_is_a_rank(pool, kind):
    @sky.compute
    @sky.distributed.mpi(implementation=kind)
    def work():
        return step(sky.instance_info().node, NODES)

    for _ in range(2):
        assert work() @ pool == tuple((ALONE, (rank - 1) % NODES, rank) for rank in range(NODES))


def test_several_ranks_on_each_node(pool, kind):
    def work(scale):
        from mpi4py import MPI

        world = MPI.COMM_WORLD
        total, ring, node = step(world.Get_rank(), world.Get_size())
        return scale * total, ring, node, os.getpid()

    with sky.mpi(pool, ranks_per_node=2, implementation=kind) as ranks:
        assert ranks.size == 2 * NODES
        results = ranks.run(work, 2)
    assert [(total, ring, node) for total, ring, node, _ in results] == [
        (2 * ALONE, (rank - 1) % (2 * NODES), rank // 2) for rank in range(2 * NODES)
    ]
    assert len({pid for *_, pid in results}) == 2 * NODES


def test_the_pool_says_where_ranks_run_in_a_job_of_slurm(kind):
    """MPI would ask Slurm, which has given each node room for one task."""
    job = {"SLURM_JOBID": "17", "SLURM_NODELIST": "here", "SLURM_TASKS_PER_NODE": "1"}

    def size():
        from mpi4py import MPI

        return MPI.COMM_WORLD.Get_size()

    with (
        sky.ComputePool(nodes=2, env=job, display="quiet") as in_job,
        sky.mpi(in_job, ranks_per_node=2, implementation=kind) as ranks,
    ):
        assert list(ranks.run(size)) == [4] * 4


def test_a_rank_that_hangs_in_the_finalize_of_mpich_holds_nobody_up(pool, kind):
    if kind != "mpich":
        pytest.skip("MPICH's has hung, Open MPI's has not")

    def work():
        import ctypes

        libc = ctypes.CDLL(None)
        libc.on_exit(libc.pause, None)  # as a hang in MPI_Finalize
        return sky.instance_info().node

    with sky.mpi(pool, implementation=kind) as ranks:
        assert ranks.run(work) == list(range(NODES))


def test_what_a_rank_prints_arrives_though_it_fails(pool, kind):
    def fails():
        import ctypes

        print("by Python")
        ctypes.CDLL(None).printf(b"by C\n")
        ctypes.CDLL(None).printf(b"unfinished")
        raise LookupError("no such row")

    with sky.mpi(pool, implementation=kind) as ranks:
        with pytest.raises(LookupError, match="no such row") as caught:
            ranks.run(fails)
    assert {"by Python", "by C", "unfinished"} <= set(caught.value.output)


@sky.compute
def agent():
    return os.getppid()


def test_what_a_rank_raises_is_raised_and_ends_the_others(pool, kind):
    @sky.compute
    @sky.distributed.mpi(implementation=kind)
    def fails():
        from mpi4py import MPI

        if MPI.COMM_WORLD.Get_rank() == 1:
            raise LookupError("no such row")
        MPI.COMM_WORLD.recv(source=1)

    with pytest.raises(LookupError, match="no such row") as caught:
        fails() @ pool
    assert any("in a rank of MPI" in note for note in caught.value.__notes__)
    assert len(agent() @ pool) == NODES


def test_a_killed_node_fails_the_call_and_not_the_next_one(pool, kind, monkeypatch):
    monkeypatch.setattr("skyward.pool.together.GRACE_SECONDS", 1.0)
    before = agent() @ pool

    def loses(agents):
        from mpi4py import MPI

        world = MPI.COMM_WORLD
        world.barrier()
        if world.Get_rank() == 1:
            os.kill(agents[1], signal.SIGKILL)
        world.recv(source=1)

    with sky.mpi(pool, implementation=kind) as ranks:
        with pytest.raises(sky.SkywardError):
            ranks.run(loses, before)
        assert [total for total, *_ in ranks.run(lambda: step(*place()))] == [ALONE] * NODES
    assert (agent() @ pool)[1] != before[1]


def place():
    return sky.instance_info().node, NODES
