"""joblib's own tests of Parallel, run on a pool wherever they ask for a backend of processes."""

from contextlib import ExitStack

import pytest
from conftest import FOLDER
from joblib import parallel
from skyward.integrations.joblib_parallel import SkywardBackend, use

import skyward as sky

if (FOLDER / "joblib_suite.missing").exists():
    pytest.skip((FOLDER / "joblib_suite.missing").read_text(), allow_module_level=True)

# The suite makes one of each backend while it is imported, and ours needs a pool.
blocks = ExitStack()
blocks.enter_context(use(blocks.enter_context(sky.ComputePool(concurrency=4, display="quiet"))))
parallel.register_parallel_backend("skyward", SkywardBackend)
suite = pytest.importorskip("joblib_suite", reason="./dev peers fetches it")

globals().update({name: test for name, test in vars(suite).items() if name.startswith("test_")})


@pytest.fixture(scope="module", autouse=True)
def pool():
    with blocks:
        yield
