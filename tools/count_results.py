"""Counts the tests in the result files of ctest, GoogleTest and pytest; prints the closing line.

Fails when something failed or nothing ran. A ctest program that is a GoogleTest program counts by
its own tests; one that died before it could write its results counts as one failed test more.
"""

import argparse
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Count:
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other: "Count") -> "Count":
        return Count(
            self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped
        )

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def count_case(case: ElementTree.Element) -> Count:
    """One <testcase> of any of the three."""
    status = case.get("status", "run")
    if case.find("failure") is not None or case.find("error") is not None or status == "fail":
        return Count(failed=1)
    if case.find("skipped") is not None or status in ("notrun", "disabled"):
        return Count(skipped=1)
    return Count(passed=1)


def count_file(path: Path) -> Count:
    """All cases of a result file; a missing or broken file is a failure: its run was cut short."""
    try:
        cases = ElementTree.parse(path).iter("testcase")
        return sum((count_case(case) for case in cases), Count())
    except (OSError, ElementTree.ParseError):
        return Count(failed=1)


def count_ctest(junit: Path, gtest_folder: Path) -> Count:
    """The programs that ctest ran, each by its own result file where it left one."""
    try:
        programs = list(ElementTree.parse(junit).iter("testcase"))
    except (OSError, ElementTree.ParseError):
        return Count(failed=1)
    total = Count()
    for program in programs:
        outcome = count_case(program)
        if program.get("status") == "notrun":  # no such program, or it could not start
            outcome = Count(failed=1)
        own_results = gtest_folder / f"{program.get('name')}.xml"
        if own_results.exists():
            inner = count_file(own_results)
            crashed = outcome.failed and not inner.failed
            total += inner + Count(failed=1 if crashed else 0)
        else:
            total += outcome
    return total


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ctest", type=Path, help="JUnit file of a ctest run")
    parser.add_argument("--gtest", type=Path, help="folder of the programs' own result files")
    parser.add_argument("--pytest", type=Path, action="append", default=[])
    arguments = parser.parse_args()
    total = sum((count_file(path) for path in arguments.pytest), Count())
    if arguments.ctest:
        total += count_ctest(arguments.ctest, arguments.gtest or arguments.ctest.parent)
    print(total)
    return 1 if total.failed or not total.passed else 0


if __name__ == "__main__":
    sys.exit(main())
