"""The package as a whole: what it exports, what importing it costs, how it is typed."""

import ast
import pathlib
import shutil
import subprocess
import sys

import pytest

import skyward as sky


def run(program, *flags):
    done = subprocess.run(
        [sys.executable, *flags, "-c", program], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_name_is_there():
    for name in (*sky.__all__, "TimeoutError", "ConnectionError"):
        assert getattr(sky, name) is not None
    assert set(sky.__all__) <= set(dir(sky))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = sky.nonsense


def test_import_loads_nothing_heavy():
    loaded = run("import sys, skyward; print(*sys.modules)").split()
    assert not {"skyward._core", "cloudpickle", "numpy", "asyncio", "dataclasses"} & set(loaded)


def test_a_node_needs_no_extension():
    program = """
import sys
sys.modules["skyward._core"] = None
import skyward as sky
f = sky.compute(len)
assert sky.shard([1, 2]) == [1, 2] and sky.instance_info().job_id == ""
sky.emit(sky.PoolStarted()); sky.DistributedSampler([1]); sky.gather(f([1]), f([2]))
sky.ComputePool(nodes=2); sky.Image(pip=["numpy"])
sky.Executor(nodes=2); sky.conc; sky.pool(nodes=2)
sky.distributed.torch(backend="gloo")(f); sky.integrations.JoblibPool(nodes=2)
from skyward.distributed import jax_session, keras_session, tensorflow_session, torch_session
from skyward.integrations import joblib_parallel
"""
    run(program)


@pytest.fixture
def built_for_another(tmp_path):
    """A copy of the package with the extension of Python 3.9 and of 3.14."""
    copy = tmp_path / "skyward"
    leave = shutil.ignore_patterns("_core*", "bin", "native", "__pycache__")
    shutil.copytree(pathlib.Path(sky.__file__).parent, copy, ignore=leave)
    for tag in ("cpython-314", "cpython-39"):
        (copy / f"_core.{tag}-x86_64-linux-gnu.so").touch()
    return f"import sys; sys.path.insert(0, {str(tmp_path)!r})"


def test_a_pool_needs_cloudpickle_before_it_requests_machines():
    program = """
import sys
import skyward as sky
sys.path = [folder for folder in sys.path if "site-packages" not in folder]
events = []
for provider in ("local", "aws"):
    pool = sky.ComputePool(provider=provider, display="quiet", on_event=events.append)
    try:
        pool.open()
    except sky.ConfigurationError as error:
        print(error)
assert not events
"""
    said = run(program).splitlines()
    assert len(said) == 2 and "pip install 'cloudpickle>=3,<4'" in said[1]
    assert said[0].startswith("cloudpickle is not installed")


def test_an_extension_for_other_pythons_is_named(built_for_another):
    program = f"""{built_for_another}
import skyward as sky
pool = sky.ComputePool()  # needs none
try:
    pool.open()
except ImportError as error:
    print(error)
"""
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    said = run(program)
    assert f"was built for Python 3.9 or 3.14, and this is Python {here} (" in said
    assert "Run the program with Python 3.9 or 3.14, or install skyward for this Python" in said


def test_a_copy_without_an_extension_says_so(built_for_another, tmp_path):
    for file in (tmp_path / "skyward").glob("_core*"):
        file.unlink()
    program = f"{built_for_another}; import skyward; skyward.ComputePool().open()"
    failed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert f"no _core*.so in {tmp_path}/skyward. Install skyward again" in failed.stderr


def test_an_old_python_is_refused_at_once(built_for_another):
    program = f"""{built_for_another}
sys.version_info = (3, 8, 18)
try:
    import skyward
except ImportError as error:
    print(error)
"""
    assert "this is Python 3.8 (" in run(program)
    root = pathlib.Path(sky.__file__).parent
    for file in ("__init__.py", "base/__init__.py", "base/extension.py"):
        ast.parse((root / file).read_text(), feature_version=(3, 7))


def test_import_is_quick():
    program = "import time; t = time.process_time(); import skyward; print(time.process_time() - t)"
    best = min(float(run(program)) for _ in range(5))
    assert best < 0.040


TYPED = """
import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Iterator
from concurrent import futures
from functools import partial
from typing import Any, assert_type
import numpy
from numpy.typing import NDArray
import skyward as sky
from skyward import accelerators
from skyward.integrations import ScikitLearnPool
from skyward.types import AwaitedCall, Stream

@sky.compute
def one(x: int) -> int:
    return x
@sky.compute(timeout=3)
def two(x: str, *, flag: bool = False) -> float:
    return 1.0

@sky.compute
@sky.distributed.torch(backend="gloo")
def three(x: int) -> str:
    return ""
@sky.stdout(only="head")
@sky.distributed.jax
@sky.compute
def four(x: int) -> bytes:
    return b""

@sky.compute
def items(count: int) -> Iterator[int]:
    yield from range(count)

@sky.compute
def anything(x: int) -> Any:
    return x
@sky.compute
def unannotated(x):  # type: ignore[no-untyped-def]
    return x

class Box:
    @sky.compute
    def five(self, x: int) -> bytes:
        return b""
    @sky.compute
    def six(self) -> Any: ...

@sky.pool(nodes=2)
def main(x: int) -> int:
    return one(x) >> sky

def use(pool: sky.ComputePool) -> None:
    assert_type(three(1) @ pool, tuple[str, ...])
    assert_type(four(1) @ pool, tuple[bytes, ...])
    assert_type(sky.Executor(pool=pool).submit(len, "a").result(), int)
    with sky.Executor(pool=pool) as executor:
        assert_type(executor.submit(one, 1).result(), int)
        assert_type(executor.submit(two, "a", flag=True).result(), float)
        assert_type(list(executor.map(one, [1])), list[int])
        assert_type(list(executor.map(len, ["a"], chunksize=2)), list[int])
        assert_type(executor.submit(partial(two, flag=True), "a").result(), float)
        assert_type(list(executor.map(partial(two, flag=True), ["a"])), list[float])
        standard: futures.Executor = executor
    with ScikitLearnPool() as opened:
        assert_type(opened, ScikitLearnPool)
    @pool.on(sky.LogLine)
    def heard(event: sky.LogLine) -> None: ...
    assert_type(heard, Callable[[sky.LogLine], None])
    assert_type(pool.on(sky.LogLine, heard), Callable[[sky.LogLine], None])
    @pool.on(sky.LogLine, sky.Error)
    def both(event: sky.LogLine | sky.Error) -> int:
        return 1
    assert_type(both(sky.Error("x")), int)
    @pool.on()
    def every(event: sky.SkywardEvent) -> None: ...
    pool.on(sky.LogLine, sky.Error, handler=both)
    assert_type(one(1), sky.PendingCompute[int])
    assert_type(one(1) >> pool, int)
    assert_type((one(1) > pool).result(), int)
    assert_type(items(3) >> pool, Stream[int])
    assert_type(anything(1) >> pool, Any)
    assert_type(anything(1) @ pool, tuple[Any, ...])
    assert_type(unannotated(1) >> pool, Any)
    assert_type(Box().six() >> pool, Any)
    assert_type(items(3) @ pool, tuple[Stream[int], ...])
    assert_type((items(3) > pool).result(), Stream[int])
    assert_type(items.local(3), Iterator[int])
    with items(3) >> pool as stream_of_one:
        assert_type(next(stream_of_one), int)
    (items(3) >> pool).close()
    assert_type(pool.run_batch(one(1) & two("a")), tuple[int, float])
    pool.on(sky.LogLine, sky.Error, both)
    assert_type(Box().five(2), sky.PendingCompute[bytes])
    assert_type(two("a", flag=True) @ pool, tuple[float, ...])
    assert_type((one(1) & two("a")) >> pool, tuple[int, float])
    eight = one(1) & two("a") & one(1) & two("a") & one(1) & two("a") & one(1) & two("a")
    assert_type(eight >> pool, tuple[int, float, int, float, int, float, int, float])
    assert_type(sky.gather(one(1), two("a")) >> pool, tuple[int, float])
    assert_type(sky.gather(*[one(i) for i in range(3)]) >> pool, tuple[int, ...])
    stream = sky.gather(one(1), one(2), stream=True, ordered=False)
    assert_type(stream >> pool, Generator[int, None, None])
    assert_type(pool.map(one, [1]), Generator[int, None, None])
    assert_type(pool.map(partial(two, flag=True), ["a"]), Generator[float, None, None])
    tried = sky.gather(one(1), one(2), return_exceptions=True)
    assert_type(tried >> pool, tuple[int | Exception, ...])
    each = sky.gather(one(1), stream=True, return_exceptions=True)
    assert_type(each >> pool, Generator[int | Exception, None, None])
    flag: bool = bool(pool.nodes)
    tried = sky.gather(one(1), one(2), return_exceptions=flag)
    assert_type(sky.gather(one(1), stream=False) >> pool, tuple[int, ...])
    for answer in sky.gather(one(1), stream=flag) >> pool:
        assert_type(answer, int | Exception)
    assert_type(sky.shard(range(3), "abc"), tuple[list[int], list[str]])
    assert_type(sky.shard([1.5], b"a", seed=1), tuple[list[float], list[int]])
    assert_type(sky.shard(deque([1])), list[int])
    assert_type(sky.shard((1.5, 2.5), deque([1])), tuple[tuple[float, float], list[int]])
    array: NDArray[numpy.float64] = numpy.zeros(3)
    assert_type(sky.shard(array, array), tuple[NDArray[numpy.float64], NDArray[numpy.float64]])
    assert_type(sky.shard("abc", array), tuple[list[str], NDArray[numpy.float64]])
    assert_type(sky.shard(array, [1], [""]), tuple[NDArray[numpy.float64], list[int], list[str]])
    assert_type(sky.shard([1, 2]), list[int])
    assert_type(sky.shard([1], ["a"], seed=1), tuple[list[int], list[str]])
    assert_type(sky.shard(range(4)), list[int])
    assert_type(sky.shard("text", shuffle=True), list[str])
    info: sky.InstanceInfo = sky.instance_info()
    assert_type(one(1) >> sky, int)
    assert_type(main(3), int)
    assert_type(two("a") @ sky, tuple[float, ...])
    assert_type((one(1) & two("a")) >> sky, tuple[int, float])
    assert_type(list(pool.map(one, [1])), list[int])
    assert_type(one.local(1), int)

def ranks_of(pool: sky.ComputePool) -> None:
    with sky.mpi(pool) as ranks:
        assert_type(ranks.run(one, 1), list[int])
        assert_type(ranks.run(two, "a", flag=True), list[float])
        assert_type(ranks.run(len, "a"), list[int])

def asked(gpu: sky.NVIDIA, spec: sky.InstanceSpec) -> None:
    assert_type(sky.accelerators.H100(count=4, mig="3g.40gb"), sky.Accelerator)
    assert_type(sky.Accelerator.NVIDIA.A100(memory="40GB"), sky.Accelerator)
    assert_type(sky.Accelerator.Google.TPUSlice("v5p-8"), sky.Accelerator)
    assert_type(sky.select_instance([spec], accelerator="H100"), sky.InstanceSpec)
    sky.ComputePool(provider=sky.AWS(use_ssm=True), accelerator=gpu, spot=sky.Spot.Never)
    sky.ComputePool(provider="local", volume=[sky.S3Volume("/data", "bucket")], spot=0.8)
    sky.ComputePool(allocation="spot", worker=sky.Worker(concurrency=2), ttl=600)

async def later(pool: sky.ComputePool) -> None:
    assert_type(await one(1).on(pool), int)
    assert_type(await (one(1) & two("a")).on(pool), tuple[int, float])
    assert_type(await (one(1) > pool), int)
    sent: AwaitedCall[int] = one(1).on(pool)
    sent.add_done_callback(print)
    if sent.done() and not sent.cancelled() and sent.exception() is None:
        assert_type(sent.result(), int)
    assert_type(one(1).on(pool).cancel(), bool)
    several = await asyncio.gather(one(1).on(pool), two("a").on(pool))
    assert_type(several, tuple[int, float])
    assert_type([item async for item in items(3) >> pool], list[int])
    assert_type(await items(3).on(pool), Stream[int])
    async with asyncio.TaskGroup() as group:
        assert_type(group.create_task(one(1).on(pool)), asyncio.Task[int])
"""
STAR = """
from skyward import *

@compute
def one(x: int) -> int:
    return x

def use(pool: ComputePool, gpu: NVIDIA) -> int:
    return one(1) >> pool
"""
WRONG = """
import skyward as sky
@sky.compute
def one(x: int) -> int:
    return x
one("text")
one(1) & 3
one >> sky.ComputePool()
sky.gather(one, one)
sky.accelerators.A100(memory="64GB")
sky.AWS(region=3)
sky.ComputePool(display="loud")
(one(1) & one(2)) @ sky.ComputePool()
sky.Executor().submit(one, "text")
sky.ComputePool().on(sky.LogLine)(one)
sky.ComputePool().on(sky.LogLine, lambda event: event.cpu)
sky.ComputePool(spot="sometimes")
sky.mpi(sky.ComputePool()).__enter__().run(one, "text")
sky.mpi(sky.ComputePool()).__enter__().run(len, 3)
"""


def test_types(tmp_path, monkeypatch):
    api = pytest.importorskip("mypy.api")
    root = pathlib.Path(sky.__file__).parent.parent

    monkeypatch.setenv("MYPYPATH", str(root))

    def check(text):
        file = tmp_path / "program.py"
        file.write_text(text)
        out, _, _ = api.run(
            [
                "--strict",
                "--no-error-summary",
                "--follow-imports=silent",
                f"--cache-dir={tmp_path}",
                str(file),
            ]
        )
        return [line for line in out.splitlines() if "error:" in line]

    assert check(TYPED) == [] and check(STAR) == []
    lines = [int(line.split(":")[1]) for line in check(WRONG)]
    wrong = [number for number, text in enumerate(WRONG.splitlines(), 1) if text]
    assert sorted(set(lines)) == [number for number in wrong if number > 5]


def test_the_package_itself_is_typed(tmp_path):
    api = pytest.importorskip("mypy.api")
    root = pathlib.Path(sky.__file__).parent
    assert (root / "py.typed").exists() and (root / "_core.pyi").exists()
    out, errors, status = api.run(
        ["--strict", f"--cache-dir={tmp_path}", "--exclude=/worker/", str(root)]
    )
    assert status == 0, out + errors
