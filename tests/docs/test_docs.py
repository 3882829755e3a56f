"""Every program that the documentation shows, run as a reader would; and the parameters that it
lists, held against the code."""

import inspect
import re
from collections.abc import Callable
from typing import Any

import check_docs
import providers
import pytest
from skyward.transport import shipping

import skyward as sky
from skyward import integrations

GUIDE = check_docs.ROOT / "docs/guide"
PROVIDERS = [
    (getattr(sky, sheet.title), f"{sheet.page}.md", "Parameters")
    for sheet in providers.read()
    if sheet.listed
]


@pytest.mark.parametrize("program", check_docs.all_programs(), ids=check_docs.Program.title)
def test_program_of_the_docs(program: check_docs.Program) -> None:
    check_docs.run_program(program)


def test_links_between_pages_lead_somewhere() -> None:
    assert check_docs.dead_links() == []


def test_the_size_of_a_programs_own_modules_is_that_of_the_code() -> None:
    size = f"{shipping.MAX_ARCHIVE_BYTES >> 20} MiB"
    text = " ".join((GUIDE / "environments.md").read_text().split())
    assert f"hold {size}: leave data out" in text


def test_runs_that_need_an_accelerator_say_who_rents_it() -> None:
    lines = [
        line
        for page in check_docs.pages()
        for line in page.read_text().splitlines()
        if "skyward run " in line and "--accelerator" in line
    ]
    assert lines
    assert [line for line in lines if "--provider" not in line] == []


def listed(page: str, heading: str) -> list[str]:
    """The names in the first column of the table under the heading."""
    text = (GUIDE / page).read_text()
    section = text.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    titled = re.search(r"^\| `[\w.]+\(…\)` \|", section, re.MULTILINE)
    names = [name.lstrip("*") for cell in cells for name in re.findall(r"`([\w*]+)`", cell)]
    return [name for name in names if not titled or name not in titled[0]]


@pytest.mark.parametrize(
    ("owner", "page", "heading"),
    [
        (sky.ComputePool, "parameters.md", "`sky.ComputePool`"),
        (sky.Image, "parameters.md", "`sky.Image`"),
        (sky.S3Volume, "parameters.md", "`sky.S3Volume`"),
        (sky.gather, "parameters.md", "`sky.gather`"),
        (sky.shard, "parameters.md", "`sky.shard`, `sky.DistributedSampler`"),
        *PROVIDERS,
        (sky.testing.FakeCloud, "testing.md", "Parameters"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_each_parameter_is_listed_once(owner: Callable[..., Any], page: str, heading: str) -> None:
    assert sorted(listed(page, heading)) == sorted(inspect.signature(owner).parameters)


def own_parameters(kind: type[Any]) -> list[str]:
    """Those that it has besides the ones of a pool."""
    names = inspect.signature(kind).parameters
    return [name for name in names if name not in ("provider", "args", "options")]


def test_parameters_of_what_opens_a_pool_are_listed() -> None:
    heading = "`sky.Executor`, `JoblibPool`, `ScikitLearnPool`"
    own = [
        name
        for kind in (sky.Executor, integrations.JoblibPool, integrations.ScikitLearnPool)
        for name in own_parameters(kind)
    ]
    assert sorted(listed("parameters.md", heading)) == sorted(own)


def test_parameters_of_decorators_are_listed() -> None:
    compute = set(inspect.signature(sky.compute).parameters) - {"fn"}
    assert set(listed("parameters.md", "`@sky.compute`")) == compute
    distributed = set(inspect.signature(sky.distributed.torch).parameters)
    assert set(listed("parameters.md", "`sky.distributed`")) == distributed
    mpi = set(inspect.signature(sky.mpi).parameters)
    assert set(listed("parameters.md", "`sky.mpi`, `sky.distributed.mpi`")) == mpi
    assert set(inspect.signature(sky.distributed.mpi).parameters) - {"function"} == mpi - {"pool"}
    assert set(listed("parameters.md", "`sky.ray`")) == set(inspect.signature(sky.ray).parameters)
    assert set(listed("parameters.md", "`sky.dask`")) == set(inspect.signature(sky.dask).parameters)
    only = set(inspect.signature(sky.stdout).parameters) - {"fn"}
    assert set(listed("parameters.md", "`sky.stdout`, `sky.stderr`")) == only
    mapped = set(inspect.signature(sky.ComputePool.map).parameters) - {"self"}
    assert set(listed("parameters.md", "`pool.map`")) == mapped
