"""Runs every Python snippet of the documents that the interface was made from, with this machine
instead of the clouds that they name. They are no part of the repository: $SKYWARD_SEEDS, or
shared/seeds beside it, holds them."""

import ast
import importlib.metadata
import importlib.util
import inspect
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
SEEDS = Path(os.environ.get("SKYWARD_SEEDS", ROOT.parent / "shared/seeds"))
DOCUMENTS = (
    "api-reference",
    "core-concepts",
    "index-february",
    "index-january",
    "using-accelerators",
)
pytestmark = pytest.mark.skipif(
    not SEEDS.is_dir(), reason="the documents are not here; SKYWARD_SEEDS names their folder"
)
DEADLINE_SECONDS = 150
MODULES = ("distributed", "integrations")
# What a snippet says of its own outcome, by a word in it.
CLAIMS = {
    "pending = train([1, 2, 3, 4])": ["result == 2.5", "isinstance(pending, PendingCompute)"],
    "result = process.local(10)": ["result == 20"],
    "total = sum(results)": ["total == 499500"],
    "is_nvidia(": ["is_nvidia('H100')", "not is_nvidia('MI300X')"],
    "is_trainium(": ["is_trainium('Trainium2')", "not is_trainium('H100')"],
    "instance = select_instance(": ["instance.name == 'large'"],
    "a, b, c = (fn1()": ["(a, b, c) == (0, 0, 0)"],
    "# With 4 nodes": ["len(results) == len(models) == 4"],
    "spot = Spot.Percent(0.8)": ["ComputePool(spot=spot).spot == Spot.Percent(0.8)"],
    "acc = current_accelerator()": ["acc is None"],
}


def blocks(document):
    file = SEEDS / f"{document}.md"
    if not file.exists():
        return []
    text = file.read_text()
    found = []
    for match in re.finditer(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        line = text.count("\n", 0, match.start()) + 2
        found.append(pytest.param(document, line, match[1], id=f"{document}:{line}"))
    return found


# Where a snippet has dots for what does not matter to it.
FILLED_IN = {"Metrics(...)": "Metrics('i-1', 0, 1.0, 2.0, 3.0, 4.0)"}


def is_program(code):
    try:
        ast.parse(code)
    except SyntaxError:
        return False
    return not re.search(r"^(@dataclass|--8<--)", code, re.MULTILINE)


ALL = [block for document in DOCUMENTS for block in blocks(document)]
PROGRAMS = [block for block in ALL if is_program(block.values[2])]
CLASSES = [block for block in ALL if block.values[2].lstrip().startswith("@dataclass")]
INCLUDES = [block for block in ALL if "--8<--" in block.values[2]]
KNOWN = {block.id for part in (PROGRAMS, CLASSES, INCLUDES) for block in part}
SIGNATURES = [block for block in ALL if block.id not in KNOWN]


def test_the_documents_have_been_read():
    assert len(ALL) == 72
    assert (len(PROGRAMS), len(CLASSES), len(INCLUDES), len(SIGNATURES)) == (53, 7, 3, 9)


# ---- running ------------------------------------------------------------------------------------


def repack(name, folder):
    """An installed package as a wheel again, so that nothing is downloaded."""
    package = importlib.metadata.distribution(name)
    tag = re.search(r"^Tag: (.*)$", package.read_text("WHEEL"), re.MULTILINE)[1]
    plain = re.sub(r"[-.]+", "_", name)
    with zipfile.ZipFile(folder / f"{plain}-{package.version}-{tag}.whl", "w") as archive:
        for file in package.files:
            if not str(file).startswith("..") and file.suffix != ".pyc":
                archive.write(file.locate(), str(file))


def stub_torch(folder):
    info = "torch-99.0.dist-info"
    with zipfile.ZipFile(folder / "torch-99.0-py3-none-any.whl", "w") as archive:
        # Other libraries ask of a value whether it is one, where torch is imported.
        archive.writestr("torch/__init__.py", "class Tensor: ...\n")
        archive.writestr("torch/utils/__init__.py", "")
        archive.write(HERE / "torch_stub.py", "torch/utils/data.py")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: torch\nVersion: 99.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    with zipfile.ZipFile(folder / "torch-99.0-py3-none-any.whl") as archive:
        archive.extractall(folder / "stub")


@pytest.fixture(scope="session")
def surroundings(tmp_path_factory):
    """Variables of a machine that has some GPUs, and packages without a network."""
    folder = tmp_path_factory.mktemp("surroundings")
    for name in (
        "cloudpickle",
        "joblib",
        "scikit-learn",
        "numpy",
        "scipy",
        "threadpoolctl",
        "narwhals",
    ):
        try:
            repack(name, folder)
        except importlib.metadata.PackageNotFoundError:
            pass  # a newer version needs it no more, or an older one not yet
    stub_torch(folder)
    gpu = {"mig": None, "busy": False}
    gpus = [
        *({"name": "Tesla T4", "mib": 15360, **gpu} for _ in range(2)),
        *({"name": "NVIDIA A100-SXM4-80GB", "mib": 81920, **gpu} for _ in range(4)),
    ]
    (folder / "gpus.json").write_text(json.dumps(gpus))
    return {
        **os.environ,
        "PATH": f"{ROOT / 'python/tests/gpus'}:{os.environ['PATH']}",
        "PYTHONPATH": f"{os.environ.get('PYTHONPATH', '')}:{folder / 'stub'}",
        "FAKE_GPUS": str(folder / "gpus.json"),
        "SKYWARD_PROVIDER": "local",
        "UV_OFFLINE": "1",
        "UV_FIND_LINKS": str(folder),
        "XDG_CACHE_HOME": str(folder / "cache"),
    }


def speaks_of_a_pool(code):
    tree = ast.parse(code)
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == "pool"]
    made = any(isinstance(node.ctx, ast.Store) for node in names)
    return bool(names) and not made


def run(code, surroundings, tmp_path, claims=()):
    file = tmp_path / "snippet.py"
    file.write_text(code)
    place = "pool" if speaks_of_a_pool(code) else "alone"
    done = subprocess.run(
        [sys.executable, str(HERE / "world.py"), str(file), place, *claims],
        env=surroundings,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
    )
    assert done.returncode == 0, f"{code}\n{done.stdout}{done.stderr}"


@pytest.mark.parametrize(("document", "line", "code"), PROGRAMS)
def test_a_program_runs(document, line, code, surroundings, tmp_path):
    for module in MODULES:
        if module in code and importlib.util.find_spec(f"skyward.{module}") is None:
            pytest.skip(f"skyward.{module} is not in this build")
    for dots, text in FILLED_IN.items():
        code = code.replace(dots, text)
    claims = [claim for word, list_ in CLAIMS.items() if word in code for claim in list_]
    run(code, surroundings, tmp_path, claims)


@pytest.mark.parametrize(("document", "line", "code"), INCLUDES)
def test_an_included_part_of_an_example_runs(document, line, code, surroundings, tmp_path):
    name, first, last = re.search(r'"(.+?):(\d+):(\d+)"', code).groups()
    text = (ROOT / name).read_text().splitlines()[int(first) - 1 : int(last)]
    part = inspect.cleandoc("\n".join(["", *text]))
    if part.startswith("with "):
        part += "\n    assert pool.is_active\n    model = compute(current_accelerator)() >> pool"
        run(part, surroundings, tmp_path, ["model == 'A100-80'"])
        return
    run(part, surroundings, tmp_path)


# ---- types -----------------------------------------------------------------------------------

# Programs that a type checker refuses as they are written, and why.
UNTYPED = {
    "api-reference:329": "defines NVIDIA again",
    "api-reference:352": "y is not defined",
    "api-reference:641": "Metrics(...) has dots",
    "api-reference:691": "spot is text, then a number",
    "api-reference:787": "estimator is not defined",
    "core-concepts:153": "calls functions of other types than it says",
}
PRELUDE = """
from world import *
{names}
import skyward as sky
from typing import Any
from torch.utils.data import DataLoader
X: Any
"""


def test_the_programs_pass_a_type_checker(tmp_path, monkeypatch):
    api = pytest.importorskip("mypy.api")
    import skyward as sky

    public = [name for name in sky.__all__ if name not in ("pool", "__version__")]
    names = f"from skyward import {', '.join(public)}"
    world = (HERE / "world.py").read_text().replace("from skyward import *", names)
    (tmp_path / "world.py").write_text(world)
    files = []
    for document, line, code in (program.values for program in PROGRAMS):
        if f"{document}:{line}" not in UNTYPED:
            pool = "pool: ComputePool\n" if speaks_of_a_pool(code) else ""
            files.append(tmp_path / f"{document.replace('-', '_')}_{line}.py")
            files[-1].write_text(PRELUDE.format(names=names) + pool + code)
    assert len(files) == len(PROGRAMS) - len(UNTYPED)
    (tmp_path / "mypy.ini").write_text(
        "[mypy]\nignore_missing_imports = True\nfollow_imports = silent\n"
        "check_untyped_defs = True\ndisable_error_code = no-redef\n"
    )
    monkeypatch.setenv("MYPYPATH", str(Path(sky.__file__).parent.parent))
    monkeypatch.chdir(tmp_path)
    out, errors, _ = api.run(["--config-file=mypy.ini", "--no-error-summary", *map(str, files)])
    assert (out, errors) == ("", "")


# ---- shapes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("document", "line", "code"), CLASSES)
def test_documented_classes_have_their_fields_in_order(document, line, code):
    import skyward as sky

    for cls in (node for node in ast.parse(code).body if isinstance(node, ast.ClassDef)):
        ours = getattr(sky, cls.name)
        documented = [node.target.id for node in cls.body if isinstance(node, ast.AnnAssign)]
        fields = list(ours.__match_args__)  # the constructor's order, keyword-only ones aside
        if cls.name == "InstanceInfo":  # is_head follows from the others
            assert all(hasattr(ours(0, 1), name) for name in documented)
            continue
        assert fields[: len(documented)] == documented, cls.name


@pytest.mark.parametrize(("document", "line", "code"), SIGNATURES)
def test_documented_signatures_are_kept(document, line, code):
    import skyward as sky

    if code.startswith("type Callback"):
        assert sky.Callback is not None
        return
    found = re.search(r"(?:def )?(\w+)(?:\[\w+\])?\(([^()]*)\)\s*->", code, re.DOTALL)
    name, parameters = found.groups()
    places = (sky, sky.ComputePool, sky.Image)
    ours = next(getattr(place, name) for place in places if hasattr(place, name))
    actual = inspect.signature(ours).parameters
    documented = ast.parse(f"def f({parameters}): ...").body[0].args
    if documented.vararg:
        assert any(one.kind is one.VAR_POSITIONAL for one in actual.values())
    for one, default in zip(documented.kwonlyargs, documented.kw_defaults, strict=True):
        assert actual[one.arg].default == ast.literal_eval(default), one.arg
    defaults = [ast.literal_eval(default) for default in documented.defaults]
    for one, default in zip(reversed(documented.args), reversed(defaults), strict=False):
        assert actual[one.arg].default == default, one.arg
    for one in documented.args:
        assert one.arg in actual
