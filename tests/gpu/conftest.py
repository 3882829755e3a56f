"""Local pools on a real NVIDIA GPU, with the frameworks that use it. Without a GPU all tests are
skipped, and each where its framework is missing."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "hosts"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from bed import skip_all
from nvidia import reason_to_skip

HERE = Path(__file__).resolve().parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    skip_all(items, HERE, reason_to_skip())
