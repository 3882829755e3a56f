"""Tests with the real frameworks, on CPU: `./dev frameworks`. Each file has a pool for itself, as a
worker that has loaded two frameworks would cost the memory of both."""

import os

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


@pytest.fixture(scope="module", params=[2, 4])
def pool(request):
    """Two, then four nodes of this machine, with one thread each: the machine is shared."""
    import skyward as sky

    env = {"OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0"}
    with sky.ComputePool(nodes=request.param, env=env, display="quiet") as opened:
        yield opened
