"""Pools at a Kubernetes of the tests' own making, by the real kubectl. `./dev test-kubernetes` runs
them; they need root."""

import importlib.util
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "hosts"))

from bed import beds, skip_all, why_not

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "clouds")]
MODULES = [
    name
    for name in ("jsonschema", "kubernetes", "requests", "wsproto")
    if importlib.util.find_spec(name) is None
]
if MODULES:
    collect_ignore_glob = ["test_*.py"]
else:
    from cluster import KUBECTL, Cluster, running
    from running_double import PROGRAM


def reason_to_skip() -> str | None:
    if KUBECTL is None:
        return "needs kubectl; install kubernetes-client"
    if not PROGRAM.is_file():
        return f"needs {PROGRAM.name}; install libcpp-httplib-dev and build again"
    if shutil.which("openssl") is None:
        return "needs openssl"
    return why_not()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    skip_all(items, HERE, f"needs {', '.join(MODULES)}" if MODULES else reason_to_skip())


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Cluster]":
    """Three nodes, two of them with GPUs."""
    for bed in beds():
        with running(bed, tmp_path_factory.mktemp("cluster")) as made:
            yield made


@pytest.fixture(autouse=True)
def empty_cluster(cluster: "Cluster") -> "Iterator[None]":
    """Each test begins and ends without pods."""
    yield
    for driver in cluster.drivers:
        driver.kill()
        driver.wait(10)
    cluster.drivers.clear()
    cluster.forbid()
    for name in cluster.pods():
        cluster.ask("DELETE", f"api/v1/namespaces/team/pods/{name}", {"gracePeriodSeconds": 1})
    cluster.nothing_is_left()
