"""distributed.mpi without an MPI. `./dev engines` runs worlds, skyward/mpi tests their plans."""

import contextlib
import dataclasses
import fcntl
import os
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from skyward.base.programs import agent_path
from skyward.distributed import mpi_world
from skyward.distributed.meeting import free_port
from skyward.distributed.mpi_world import World
from skyward.task.instance_info import InstanceInfo
from waiting import answers_at_once

import skyward as sky

WORLD = World(2, None, b"secret")


@pytest.fixture
def agent(monkeypatch, tmp_path):
    """A worker's agent, on a node that has no programs."""
    monkeypatch.setenv("SKYWARD_AGENT", agent_path())
    monkeypatch.setenv("PATH", str(tmp_path))


def test_the_secret_is_not_shown():
    assert "secret" not in repr(WORLD)


def test_a_node_without_an_mpi_says_what_to_install(agent):
    with pytest.raises(sky.ConfigurationError, match=r"apt=\['mpich'\]"):
        mpi_world.find_launcher("mpich")
    with pytest.raises(sky.ConfigurationError, match=r"Open MPI or MPICH is not installed"):
        mpi_world.run(InstanceInfo(0, 1), WORLD, 10, "f", (len, ((),), {}))


def test_workers_that_mpi_cannot_tell_apart_are_refused(agent):
    with pytest.raises(sky.ConfigurationError, match="f: each node has 2 workers"):
        mpi_world.run(InstanceInfo(0, 1, workers_per_node=2), WORLD, 10, "f", (len, ((),), {}))


def test_a_call_that_was_cut_short_is_not_run(agent, monkeypatch):
    ask = mpi_world.ask
    monkeypatch.setattr(mpi_world, "ask", lambda verb, order, told: ask(verb, order, told[:-1]))
    with pytest.raises(RuntimeError, match=r"skyward-agent mpi ended \(status 2\)"):
        mpi_world.run(InstanceInfo(0, 1), WORLD, 10, "f", (len, ((),), {}))


def test_bad_parameters_are_refused_where_they_are_written():
    for options, text in (
        ({"ranks_per_node": 0}, "from 1 to"),
        ({"implementation": "lam"}, "'openmpi', 'mpich'"),
        ({"timeout": -1}, "positive number"),
    ):
        with pytest.raises(sky.ConfigurationError, match=text):
            sky.distributed.mpi(**options)
    with pytest.raises(TypeError, match="needs a function, not int"):
        sky.distributed.mpi(3)
    with pytest.raises(sky.ConfigurationError, match="is a generator"):

        @sky.distributed.mpi
        def items():
            yield 1


def test_outside_a_pool_the_function_just_runs():
    @sky.distributed.mpi
    def double(x):
        return 2 * x

    assert double(4) == 8


MPIRUN = """#!/bin/sh
if [ "$1" = --version ]; then echo "mpirun (Open MPI) 9.9"; exit; fi
while [ "$1" != --hostfile ]; do shift; done
hosts=$2
while [ "$#" -gt 1 ]; do shift; done
number=0
while read -r host _; do
  number=$((number + 1))
  "$OMPI_MCA_plm_rsh_agent" -x "$host" orted --daemonize -mca ess_base_vpid $number "'$1'"
done < "$hosts"
read -r ended < {fifo}
exit "$ended"
"""
ORTED = """#!/bin/sh
number=$3
while [ "$#" -gt 1 ]; do shift; done
OMPI_COMM_WORLD_RANK=$((number - 1)) /bin/sh -c "$1"
status=$?
[ "$number" != 1 ] || echo $status > {fifo}
exit $status
"""
MPI4PY = """
import os

class COMM_WORLD:
    Get_rank = staticmethod(lambda: int(os.environ["OMPI_COMM_WORLD_RANK"]))
    Get_size = staticmethod(lambda: int(os.environ.get("SIZE", 3)))
    Abort = staticmethod(os._exit)

Is_finalized = lambda: False
Get_library_version = lambda: "Fake MPI"
"""


def abandoned():
    """The folders of worlds that are gone."""
    found = []
    for path in Path("/tmp").glob("*sky-mpi-*/lock"):
        with contextlib.suppress(OSError), path.open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            found.append(path.parent)
    return found


@pytest.fixture
def fake_mpi(agent, tmp_path, monkeypatch):
    """An Open MPI that starts ranks, which know their number and no more."""
    os.mkfifo(tmp_path / "fifo")
    for name, text in (("mpirun", MPIRUN), ("orted", ORTED)):
        program = tmp_path / name
        program.write_text(text.replace("{fifo}", str(tmp_path / "fifo")))
        program.chmod(0o755)
    (tmp_path / "mpi4py").mkdir()
    (tmp_path / "mpi4py" / "__init__.py").touch()
    (tmp_path / "mpi4py" / "MPI.py").write_text(MPI4PY)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    yield tmp_path
    assert abandoned() == []


def on_all(function):
    """What a world of three workers, each in a thread, gives or raises."""
    port = free_port("127.0.0.1")
    peers = [{"node": node, "private_ip": "127.0.0.1"} for node in range(3)]
    world = replace(WORLD, ranks_per_node=1)

    def at(rank):
        info = InstanceInfo(rank, 3, head_addr="127.0.0.1", head_port=port, peers=peers)
        return mpi_world.run(info, world, 30, "f", (function, (7,), {}))

    return answers_at_once(3, at, 60)


def test_each_rank_runs_the_function_with_the_variables_of_its_worker(fake_mpi, monkeypatch):
    monkeypatch.setenv("OF_THE_WORKER", "x")

    def work(number):
        from mpi4py import MPI

        assert "SKYWARD_MPI_SOCKET" not in os.environ
        return number, MPI.COMM_WORLD.Get_rank(), os.environ["OF_THE_WORKER"], os.getcwd()

    assert on_all(work) == [(7, rank, "x", os.getcwd()) for rank in range(3)]


def test_what_a_rank_raises_is_raised_by_its_worker(fake_mpi):
    def fails(number):
        from mpi4py import MPI

        if MPI.COMM_WORLD.Get_rank() == 1:
            raise LookupError(number)
        return number

    answers = on_all(fails)
    assert isinstance(answers[1], LookupError)
    assert "in a rank of MPI" in answers[1].__notes__[0]


def test_ranks_leave_the_classes_of_their_worker_alone(fake_mpi):
    class Counter:
        count = 0

    def counted(number):
        Counter.count += 1
        if number == 8:
            raise LookupError(Counter())
        return Counter(), dataclasses.MISSING

    for counter, missing in on_all(counted):
        assert type(counter) is Counter and Counter.count == 0
        assert missing is dataclasses.MISSING
    for error in on_all(lambda number: counted(number + 1)):
        assert type(error.args[0]) is Counter and Counter.count == 0


def test_a_rank_that_dies_ends_the_world_of_its_worker(fake_mpi):
    def dies(number):
        os._exit(9)

    for answer in on_all(dies):
        assert isinstance(answer, sky.CancelledError)
        assert "the MPI world ended before this node had its result" in str(answer)


def test_a_rank_that_goes_away_without_an_answer_is_an_error(fake_mpi):
    program = fake_mpi / "orted"
    program.write_text(ORTED.partition("status=")[0] + "exec sleep 100\n")
    for answer in on_all(lambda number: os._exit(0)):
        assert type(answer) is RuntimeError
        assert "a rank of this node ended without a result" in str(answer)


def test_a_world_of_another_size_is_refused(fake_mpi, monkeypatch):
    monkeypatch.setenv("SIZE", "1")
    for answer in on_all(len):
        assert "the MPI world has 1 ranks instead of 3: mpi4py uses 'Fake MPI'" in str(answer)
        assert "mpirun (openmpi 9.9) started it" in str(answer)


def test_what_a_killed_world_left_goes_with_the_next_one(fake_mpi):
    left = Path(tempfile.mkdtemp(prefix="sky-mpi-", dir="/tmp"))
    (left / "lock").touch()
    unfinished = Path(tempfile.mkdtemp(prefix=".sky-mpi-", dir="/tmp"))
    os.utime(unfinished, (0, 0))
    assert on_all(lambda number: number) == [7, 7, 7]
    assert not left.exists() and not unfinished.exists()


def test_a_launcher_that_fails_is_named_everywhere(fake_mpi):
    program = fake_mpi / "mpirun"
    program.write_text(MPIRUN.replace("hosts=$2", "echo no such network; exit 5"))
    for answer in on_all(len):
        assert type(answer) is RuntimeError
        assert "ended (status 5); it wrote last:\n  no such network" in str(answer)


def test_only_the_daemon_of_mpi_is_started(fake_mpi):
    program = fake_mpi / "mpirun"
    program.write_text(MPIRUN.replace("orted --daemonize", "/bin/rm"))
    for answer in on_all(len):
        assert "MPI should run '/bin/rm' on this node instead of orted" in str(answer)


def test_a_missing_worker_is_named(fake_mpi):
    info = InstanceInfo(0, 2, head_addr="127.0.0.1", head_port=free_port("127.0.0.1"))
    with pytest.raises(sky.TimeoutError, match=r"f\(\) of mpi: worker 1 of 2 did not arrive"):
        mpi_world.run(info, WORLD, 0.5, "f", (len, ((),), {}))
