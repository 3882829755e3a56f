"""Pools in containers of a real podman. `./dev test-container` runs them; they need root."""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "hosts"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from bed import skip_all, why_not
from engine import Engine, running

HERE = Path(__file__).resolve().parent


def reason_to_skip() -> str | None:
    missing = [name for name in ("podman", "dpkg-query") if shutil.which(name) is None]
    if missing:
        return f"needs {', '.join(missing)}; install podman and crun"
    return why_not()


REASON = reason_to_skip()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    skip_all(items, HERE, REASON)


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """A podman with an image, a network `lab` and storage of its own."""
    with running(tmp_path_factory.mktemp("engine")) as made:
        yield made


@pytest.fixture(autouse=True)
def no_containers(engine: Engine) -> Iterator[None]:
    """Each test begins and ends without containers."""
    yield
    engine.forget()
