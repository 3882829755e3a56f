"""Every table and list of the documents that the interface was made from, held against the package:
parameters with their defaults, memory of accelerators, partitions, operators, regions, events."""

import inspect
import os
import re
from pathlib import Path

import pytest

import skyward as sky
from skyward import integrations

SEEDS = Path(os.environ.get("SKYWARD_SEEDS", Path(__file__).parents[3] / "shared/seeds"))
pytestmark = pytest.mark.skipif(
    not SEEDS.is_dir(), reason="the documents are not here; SKYWARD_SEEDS names their folder"
)
IMAGE = sky.Image()


def tables(document):
    """(titles of its columns, rows) of each table."""
    file = SEEDS / f"{document}.md"
    found, inside = [], False
    for line in file.read_text().splitlines() if file.exists() else ():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if inside and cells and not set(line) <= set("|- :"):
            found[-1][1].append(cells)
        elif cells and not inside:
            found.append((cells, []))
        inside = bool(cells)
    return found


ALL = [table for name in ("api-reference", "core-concepts") for table in tables(name)]


def with_columns(*columns):
    return [rows for own, rows in ALL if own[: len(columns)] == [*columns]]


def plain(cell):
    return cell.strip("`")


def test_the_tables_have_been_read():
    assert len(ALL) == 14 and sum(len(rows) for _, rows in ALL) == 73


OWNERS = (
    sky.ComputePool,
    sky.Image,
    sky.AWS,
    sky.DigitalOcean,
    sky.Verda,
    sky.S3Volume,
    integrations.JoblibPool,
    integrations.ScikitLearnPool,
)
# The document says "3.13"; None is the caller's own version, and counts as 3.13 in the hash.
DEFAULTS_APART = {(sky.Image, "python")}


def test_parameters_and_defaults_are_the_documented_ones():
    documented = with_columns("Parameter", "Type", "Default")
    assert len(documented) == len(OWNERS)
    for owner, rows in zip(OWNERS, documented, strict=True):
        parameters = inspect.signature(owner).parameters
        made = owner("/data", "bucket") if owner is sky.S3Volume else None
        if owner in (sky.ComputePool, sky.Image, sky.AWS, sky.DigitalOcean, sky.Verda):
            made = owner()
        for name, _, default, _ in rows:
            name, default = plain(name), plain(default)
            assert name in parameters, (owner, name)
            if "required" in default or (owner, name) in DEFAULTS_APART or made is None:
                continue
            value = eval(default, {"Image": sky.Image})
            ours = getattr(made, name)
            if name == "spot":
                value = sky.ComputePool(spot=value).spot
            assert ours == value or (value is None and not ours), (owner, name, ours, value)
        if owner is sky.ComputePool:  # may be given in this order, too
            assert list(parameters)[: len(rows)] == [plain(row[0]) for row in rows]
    assert IMAGE.content_hash() == sky.Image(python="3.13").content_hash()


def test_the_short_table_of_parameters_speaks_of_the_same():
    (rows,) = with_columns("Parameter", "Type", "Description")
    parameters = inspect.signature(sky.ComputePool).parameters
    assert len(rows) == 9 and {plain(row[0]) for row in rows} <= set(parameters)


def test_operators():
    (rows,) = with_columns("Operator", "Method")
    for _, method, _ in rows:
        assert callable(getattr(sky.PendingCompute, plain(method)))


def test_memory_of_accelerators():
    (rows,) = with_columns("Method", "Memory", "Notes")
    assert len(rows) == 14
    for method, memories, notes in rows:
        name, parameters = re.fullmatch(r"`(\w+)\((.*)\)`", method).groups()
        make = getattr(sky.Accelerator.NVIDIA, name)
        assert make(count=2) == getattr(sky.accelerators, name)(count=2)
        assert {one.strip() for one in parameters.split(",")} <= set(
            inspect.signature(make).parameters
        )
        first, *others = memories.split("/")
        # The table names the smaller one of the V100 first, the larger one of the H100.
        assert make().memory in (first, *others), name
        for memory in (first, *others) if others else ():
            assert make(memory=memory).memory == memory
        if "MIG" in notes:
            assert "mig" in parameters


def test_partitions():
    large, small = with_columns("Profile", "Workers", "Memory Each")
    assert len(large) == 6 and len(small) == 4
    for rows, memories, names in ((large, "80GB", ("H100", "A100")), (small, "40GB", ("A100",))):
        for profile, workers, memory in rows:
            assert plain(profile).endswith(memory.lower())
            for name in names:
                make = getattr(sky.accelerators, name)
                split = make(memory=memories, mig=plain(profile))
                assert split.workers_per_node == int(workers), profile


def test_the_place_of_a_worker():
    (rows,) = with_columns("Property", "Type", "Description")
    info = sky.InstanceInfo(0, 1)
    for name, kind, _ in rows:
        value = getattr(info, plain(name))
        assert isinstance(value, {"int": int, "bool": bool, "str": str}.get(plain(kind), list))


def test_lists_beside_the_tables():
    text = (SEEDS / "api-reference.md").read_text()
    regions = re.search(r"\*\*Available Regions:\*\* (.*)", text)[1]
    for region in re.findall(r"`(\w+)`", regions):
        assert sky.DigitalOcean(region=region).region == region
    values = re.search(r"NVIDIA = Literal\[(.*?)\]", text, re.DOTALL)[1]
    names = re.findall(r'"([\w-]+)"', values)
    assert len(names) == 17
    for name in names:
        assert sky.ComputePool(accelerator=name).accelerator.count == 1
        assert sky.is_nvidia(name)
    concepts = (SEEDS / "core-concepts.md").read_text()
    events = re.findall(r"^- `(\w+)` - ", concepts, re.MULTILINE)
    assert len(events) == 13
    assert all(issubclass(getattr(sky, name), object) for name in events)
    steps = re.search(r"step: str  # (.*)", text)[1]
    assert re.findall(r'"(\w+)"', steps) == ["uv", "apt", "deps", "skyward", "server", "volumes"]
