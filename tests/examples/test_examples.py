"""Every program of examples/ runs on this machine, also those that name a cloud. Those that need a
framework do in ./dev frameworks."""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAMS = {
    f"{folder}/{file.stem}": file
    for folder in ("python", "guides")
    for file in sorted((ROOT / "examples" / folder).glob("*.py"))
}
FRAMEWORKS = {
    "python/10_pytorch_distributed",
    "python/11_keras_training",
    "python/12_huggingface_finetuning",
    "python/22_vastai_overlay",
    "guides/04_gpu_accelerators",
    "guides/06_pytorch_distributed",
    "guides/07_keras_training",
    "guides/08_huggingface_finetuning",
    "guides/15_torch_model_roundtrip",
    "guides/19_fsdp_huggingface",
}
# What this machine plays to have.
PLAYED = {
    "guides/18_nvidia_mig": {"name": "NVIDIA H100 80GB HBM3", "mib": 81559},
    "guides/20_fractional_gpus": {"name": "Tesla T4", "mib": 15360},
}
SHORTER = {"guides/16_cuml_acceleration": ["4000"]}


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in FRAMEWORKS])
def test_example(name: str, tmp_path: Path) -> None:
    played = {}
    if name in PLAYED:
        gpu = {**PLAYED[name], "mig": None, "busy": False}
        (tmp_path / "gpus.json").write_text(json.dumps([gpu]))
        played["PATH"] = f"{ROOT / 'python/tests/gpus'}:{os.environ['PATH']}"
        played["FAKE_GPUS"] = str(tmp_path / "gpus.json")
    done = subprocess.run(
        [sys.executable, str(PROGRAMS[name]), *SHORTER.get(name, [])],
        cwd=tmp_path,
        env={**os.environ, "SKYWARD_PROVIDER": "local", **played},
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert done.stdout, "an example shows something"


# Not mpi, which needs MPI's headers: `./dev engines` runs it.
@pytest.mark.parametrize(
    "source",
    sorted(set((ROOT / "examples/cpp").glob("*.cc")) - {ROOT / "examples/cpp/mpi.cc"}),
    ids=lambda p: p.stem,
)
def test_cpp_example(source: Path, tmp_path: Path) -> None:
    program = ROOT / "build/release/bin" / source.stem
    done = subprocess.run(
        [str(program)], cwd=tmp_path, capture_output=True, text=True, timeout=150, check=False
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert done.stdout, "an example shows something"


SHORT = "guides/04_gpu_accelerators"
"""Its pool is shown in five lines."""


def test_pools_at_a_cloud_have_a_budget() -> None:
    clouds = {f"sky.{name}" for name in ("AWS", "DigitalOcean", "RunPod", "VastAI", "Verda")}
    seen = 0
    for name, file in PROGRAMS.items():
        calls = [
            node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call)
        ]
        if name == SHORT or clouds.isdisjoint(ast.unparse(call.func) for call in calls):
            continue
        for call in calls:
            options = {word.arg: ast.unparse(word.value) for word in call.keywords}
            rents = "provider" in options and options["provider"] != "[HOME, HOME]"
            if ast.unparse(call.func) == "sky.ComputePool" and rents:
                assert "budget" in options, f"{name}.py:{call.lineno}"
                seen += 1
    assert seen > 10


def test_the_documented_examples_are_there() -> None:
    numbered = {int(name[7:9]) for name in PROGRAMS if re.match(r"python/\d\d_", name)}
    assert numbered == set(range(1, 23))


def test_examples_say_what_they_show_and_are_listed() -> None:
    listed = (ROOT / "examples/README.md").read_text()
    for name, file in PROGRAMS.items():
        first = file.read_text().partition("\n")[0]
        assert first.startswith('"""') and len(first) > 30, name
        assert f"({name}.py)" in listed, f"{name} is not in examples/README.md"
    assert set(re.findall(r"\(((?:python|guides)/\w+)\.py\)", listed)) == set(PROGRAMS)


def test_the_others_run_with_the_frameworks() -> None:
    there = (ROOT / "python/frameworks_tests/examples_test.py").read_text()
    assert set(PROGRAMS) >= FRAMEWORKS
    assert set(re.findall(r'"((?:python|guides)/\w+)"', there)) == FRAMEWORKS
