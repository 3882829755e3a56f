"""The examples that need a framework."""

import importlib.util
import os
import pathlib
import subprocess
import sys

import pytest

import skyward as sky

FOLDER = pathlib.Path(__file__).resolve().parent.parent.parent / "examples"


@pytest.mark.parametrize(
    "name",
    [
        "python/10_pytorch_distributed",
        "python/11_keras_training",
        "python/12_huggingface_finetuning",
        "python/22_vastai_overlay",
        "guides/06_pytorch_distributed",
        "guides/07_keras_training",
        "guides/08_huggingface_finetuning",
        "guides/15_torch_model_roundtrip",
        "guides/19_fsdp_huggingface",
    ],
)
def test_example(name, tmp_path):
    offline = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "SKYWARD_PROVIDER": "local"}
    done = subprocess.run(
        [sys.executable, str(FOLDER / f"{name}.py")],
        cwd=tmp_path,
        env={**os.environ, **offline},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def test_example_whose_pool_rents_a_gpu():
    """As a whole it needs the cloud; its functions do not."""
    name = "guides/04_gpu_accelerators"
    spec = importlib.util.spec_from_file_location("gpu_accelerators", FOLDER / f"{name}.py")
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    with sky.ComputePool(display="quiet") as pool:
        info = example.device_info() >> pool
        answer = example.matmul_benchmark(size=64, rounds=2) >> pool
    assert (info.node, info.total_nodes) == (0, 1)
    assert answer["cpu_seconds"] > 0
