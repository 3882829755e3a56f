"""The examples that need a framework."""

import os
import pathlib
import subprocess
import sys

import pytest

FOLDER = pathlib.Path(__file__).resolve().parent.parent.parent / "examples" / "python"


@pytest.mark.parametrize(
    "name", ["10_pytorch_distributed", "11_keras_training", "12_huggingface_finetuning"]
)
def test_example(name, tmp_path):
    done = subprocess.run(
        [sys.executable, str(FOLDER / f"{name}.py")],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
