"""Whole pools on hosts of the tests' own making. `./dev test-hosts` runs them; they need root."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from bed import Bed, beds, skip_all, why_not

REASON = why_not()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    skip_all(items, Path(__file__).resolve().parent, REASON)


@pytest.fixture(scope="module")
def bed() -> Iterator[Bed]:
    """An empty star of networks; a module adds the hosts that it wants."""
    yield from beds()
