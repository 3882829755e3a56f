"""Pools at a real Slurm on hosts of the tests' own making. `./dev test-slurm` runs them; they need
root."""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "hosts"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from bed import beds, skip_all, why_not
from cluster import Cluster, remove_groups

HERE = Path(__file__).resolve().parent


def reason_to_skip() -> str | None:
    missing = [name for name in ("slurmctld", "slurmd", "munged") if shutil.which(name) is None]
    if missing:
        return f"needs {', '.join(missing)}; install slurm-wlm and munge"
    return why_not()


REASON = reason_to_skip()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    skip_all(items, HERE, REASON)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A login node, which is the controller, too, and three nodes."""
    for bed in beds():
        yield Cluster(bed)
    remove_groups()


@pytest.fixture(autouse=True)
def empty_queue(cluster: Cluster) -> Iterator[None]:
    """Each test begins and ends with an empty queue, and leaves nothing on the nodes."""
    cluster.heal()
    yield
    cluster.forget()
