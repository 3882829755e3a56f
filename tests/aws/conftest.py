"""Pools on Amazon's services as moto plays them. `./dev test-aws` runs them."""

import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "hosts")]

REASON = None
# Found, not imported: cloud.py sets first what moto reads when it is.
if importlib.util.find_spec("moto") is None:
    REASON = "moto is not installed: ./dev test-aws brings it"
    collect_ignore_glob = ["test_*.py"]


if REASON is None:
    from cloud import Cloud, clouds

    # Each worker of pytest has a cloud of its own, and its machines have addresses of their own.
    NETWORK = 64 + int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))

    @pytest.fixture(scope="session")
    def running_cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
        with clouds(tmp_path_factory.mktemp("machines"), NETWORK) as cloud:
            yield cloud

    @pytest.fixture
    def cloud(running_cloud: Cloud) -> Iterator[Cloud]:
        """Amazon without anything in it."""
        running_cloud.reset()
        yield running_cloud
        running_cloud.reset()
