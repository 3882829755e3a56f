"""The page that a run of the bench writes."""

import copy
import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

import page

REPORT = {
    "date": "2026-01-31",
    "machine": {"cpus": 2, "machine": "x86_64", "python": "3.12.1"},
    "versions": {"skyward": "0.1.0", "ray": "2.9"},
    "workers": 2,
    "tasks": 20_000,
    "array_bytes": 1 << 30,
    "units": {"tasks_per_second": "1/s", "argument_first": "GiB/s"},
    "more_is_better": {"tasks_per_second": True, "argument_first": True},
    "floors": {"echo": 20.0, "memcpy_fresh": 2.0},
    "median": {
        "skyward": {"tasks_per_second": 110_000.0, "argument_first": 1.5},
        "ray": {"tasks_per_second": 2_000.0, "argument_first": 1.8},
    },
    "targets": [
        {
            "figure": "tasks_per_second",
            "unit": "1/s",
            "target": "2e+05",
            "measured": 110_000.0,
            "ratio": 0.55,
        }
    ],
}


def test_it_says_where_a_peer_is_ahead_and_what_is_not_reached() -> None:
    text = page.page(REPORT)
    assert "| tracked tasks of one batch [1/s] | 110,000 | 2,000 |" in text
    assert "| 2e+05 | 110,000 | 55% of it |" in text
    ahead = text.partition("## Where others are ahead")[2].partition("##")[0]
    assert "**a large argument, first time**: ray (1.2 ×)." in ahead
    assert "tracked tasks" not in ahead
    assert max(map(len, ahead.splitlines())) <= page.COLUMNS


def test_a_lead_within_the_noise_is_none() -> None:
    report = copy.deepcopy(REPORT)
    report["median"]["ray"]["argument_first"] = 1.55
    assert "Nowhere in this run." in page.page(report)


def keys(file: Path, table: str, value: str) -> set[str]:
    """Of a workload's FIGURES or TARGETS."""
    body = file.read_text().partition(f"\n{table} = {{")[2].partition("}")[0]
    return set(re.findall(rf'"(\w+)": {value}', body))


def test_every_target_is_of_a_figure_of_its_workload() -> None:
    targets = set()
    for file in (Path(page.__file__).parent / "workloads").glob("*.py"):
        mine = keys(file, "TARGETS", r"\[")
        assert mine <= keys(file, "FIGURES", r"\("), file.name
        targets |= mine
    assert len(targets) > 25


def test_every_reason_and_every_figure_of_a_workload_has_a_name() -> None:
    figures = set()
    for file in (Path(page.__file__).parent / "workloads").glob("*.py"):
        figures |= keys(file, "FIGURES", r"\(")
    assert len(figures) > 40
    assert figures <= page.NAMES.keys()
    assert page.WHY.keys() | page.MISSED.keys() <= figures


@pytest.mark.parametrize(("ours", "theirs", "more", "lead"), [(2, 1, False, 2), (1, 3, True, 3)])
def test_less_may_be_better(ours: float, theirs: float, more: bool, lead: float) -> None:
    assert page.lead(ours, theirs, more) == lead
