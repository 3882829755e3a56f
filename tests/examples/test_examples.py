"""Every program of examples/python runs. Those that need a framework do in ./dev frameworks."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent.parent.parent / "examples" / "python"
FRAMEWORKS = {"10_pytorch_distributed", "11_keras_training", "12_huggingface_finetuning"}
PROGRAMS = sorted(path.stem for path in FOLDER.glob("*.py"))


@pytest.mark.parametrize("name", sorted(set(PROGRAMS) - FRAMEWORKS))
def test_example(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(FOLDER / f"{name}.py")],
        cwd=tmp_path,
        env={**os.environ, "AWS_EC2_METADATA_DISABLED": "true"},
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def test_examples_say_what_they_show() -> None:
    for name in PROGRAMS:
        first = (FOLDER / f"{name}.py").read_text().partition("\n")[0]
        assert first.startswith('"""') and len(first) > 30, name


def test_framework_examples_are_there() -> None:
    assert set(PROGRAMS) >= FRAMEWORKS
