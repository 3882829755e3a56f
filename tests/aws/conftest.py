"""Pools on Amazon's services as moto plays them. `./dev test-aws` runs them."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

try:
    import moto  # noqa: F401

    REASON = None
except ImportError:
    REASON = "moto is not installed: ./dev test-aws brings it"
    collect_ignore_glob = ["test_*.py"]


if REASON is None:
    from cloud import Cloud, clouds

    @pytest.fixture(scope="session")
    def running_cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
        with clouds(tmp_path_factory.mktemp("machines")) as cloud:
            yield cloud

    @pytest.fixture
    def cloud(running_cloud: Cloud) -> Iterator[Cloud]:
        """Amazon without anything in it."""
        running_cloud.reset()
        yield running_cloud
        running_cloud.reset()
