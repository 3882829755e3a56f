"""What is made from something else is what would be made now."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def tool(name, *words):
    return subprocess.run(
        [sys.executable, ROOT / "tools" / name, *words], capture_output=True, text=True, timeout=120
    )


FORMATTER = "clang-format-19"  # what is made is in the house style
WITH_FORMATTER = pytest.mark.skipif(
    shutil.which(FORMATTER) is None, reason=f"there is no {FORMATTER}; ./dev format installs it"
)


@pytest.mark.parametrize("name", [pytest.param("catalogue.py", marks=WITH_FORMATTER), "parity.py"])
def test_it_is_fresh(name):
    done = tool(name, "--check")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_cpp_names_exist(tmp_path):
    file = tmp_path / "names.cc"
    file.write_text(tool("parity.py", "--probe").stdout)
    done = subprocess.run(
        ["g++", "-std=c++23", "-fsyntax-only", f"-I{ROOT}", str(file)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert file.read_text().count("\n") > 60


def test_a_name_without_a_twin_is_found(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import parity

    names = {**parity.python_names(), "brand_new": "pool"}
    monkeypatch.setattr(parity, "python_names", lambda: names)
    with pytest.raises(SystemExit, match="brand_new"):
        parity.rows()
