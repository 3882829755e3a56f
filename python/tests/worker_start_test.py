"""What a worker says when it cannot start."""

import pathlib
import subprocess
import sys

import skyward

START = pathlib.Path(skyward.__file__).absolute().parent / "worker" / "start.py"


def test_a_python_without_cloudpickle_never_greets():
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(START)], capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 1
    assert done.stderr.endswith("ModuleNotFoundError: No module named 'cloudpickle'\n")
