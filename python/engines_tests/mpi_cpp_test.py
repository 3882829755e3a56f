"""sky::distributed::mpi: worlds of Open MPI and MPICH over three nodes of a C++ pool."""

import subprocess
from pathlib import Path

import pytest
from skyward.base.programs import PACKAGE

NODES = 3
BUILD = PACKAGE.parent.parent
TOTAL = sum(range(20000))


@pytest.fixture(autouse=True)
def nothing_of_mpi_is_left():
    yield
    assert not list(Path("/tmp").glob("sky-mpi-*"))
    assert not list(Path("/tmp").glob(".sky-mpi-*"))


def run(*command):
    """What the program prints."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def ranks(kind, what):
    return run(BUILD / "bin" / "mpi_ranks", kind, what)


def lines_of_ranks(per_node):
    size = NODES * per_node
    return [f"{rank} of {size} on node {rank // per_node}: {TOTAL}" for rank in range(size)]


def results(printed):
    return [line for line in printed.splitlines() if " of " in line and " on node " in line]


def test_every_worker_is_a_rank(kind):
    printed = ranks(kind, "sum")
    assert results(printed) == lines_of_ranks(1)
    assert printed.count("was here") == NODES, "what a rank prints is its worker's output"


def test_several_ranks_on_each_node(kind):
    assert results(ranks(kind, "several")) == lines_of_ranks(2)


def test_what_a_rank_throws_arrives_as_its_type_and_ends_the_others(kind):
    printed = ranks(kind, "throws")
    assert "NoSuchRow no such row 7" in printed
    assert results(printed) == lines_of_ranks(1), "the next call"


def test_a_killed_rank_fails_the_call_and_not_the_next_one(kind):
    printed = ranks(kind, "killed")
    assert "CancelledError the MPI world ended before this node had its result" in printed
    assert results(printed) == lines_of_ranks(1)


def test_a_cancelled_call_ends_its_world_and_not_the_next_one(kind):
    assert results(ranks(kind, "cancelled")) == lines_of_ranks(1)


def test_the_example():
    program = BUILD / "bin" / "mpi"
    if not program.exists():
        pytest.skip("MPI's headers are not installed (Debian: libopenmpi-dev)")
    assert run(program).count("3.141593") == 4
