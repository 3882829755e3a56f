"""count_results.py: nothing that failed or never ran may look like success."""

from pathlib import Path

from count_results import Count, count_ctest, count_file

GTEST = """<testsuites tests="4"><testsuite name="S">
<testcase name="a" status="run" result="completed"/>
<testcase name="b" status="run" result="completed"><failure message="no"/></testcase>
<testcase name="c" status="run" result="skipped"><skipped message="why"/></testcase>
<testcase name="d" status="notrun" result="suppressed"/>
</testsuite></testsuites>"""
GTEST_FINE = '<testsuites><testsuite><testcase name="a" status="run"/></testsuite></testsuites>'


def ctest(*programs: tuple[str, str]) -> str:
    cases = "".join(f'<testcase name="{name}" status="{status}"/>' for name, status in programs)
    return f"<testsuite>{cases}</testsuite>"


def test_cases_of_a_file_are_counted(tmp_path: Path) -> None:
    file = tmp_path / "a.xml"
    file.write_text(GTEST)
    assert count_file(file) == Count(passed=1, failed=1, skipped=2)


def test_missing_or_cut_file_counts_as_failure(tmp_path: Path) -> None:
    assert count_file(tmp_path / "none.xml") == Count(failed=1)
    cut = tmp_path / "cut.xml"
    cut.write_text("<testsuites><testsuite>")
    assert count_file(cut) == Count(failed=1)


def test_ctest_programs_count_by_their_own_tests(tmp_path: Path) -> None:
    (tmp_path / "base_test.xml").write_text(GTEST)
    junit = tmp_path / "ctest-junit.xml"
    junit.write_text(ctest(("base_test", "fail"), ("plain", "run")))
    assert count_ctest(junit, tmp_path) == Count(passed=2, failed=1, skipped=2)


def test_crash_after_good_tests_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "base_test.xml").write_text(GTEST_FINE)
    junit = tmp_path / "ctest-junit.xml"
    junit.write_text(ctest(("base_test", "fail")))
    assert count_ctest(junit, tmp_path) == Count(passed=1, failed=1)


def test_crash_before_any_result_is_a_failure(tmp_path: Path) -> None:
    junit = tmp_path / "ctest-junit.xml"
    junit.write_text(ctest(("base_test", "fail")))
    assert count_ctest(junit, tmp_path) == Count(failed=1)


def test_program_that_is_not_there_is_a_failure(tmp_path: Path) -> None:
    junit = tmp_path / "ctest-junit.xml"
    junit.write_text(
        '<testsuite><testcase name="base_test" status="notrun"><skipped message=""/></testcase>'
        "</testsuite>"
    )
    assert count_ctest(junit, tmp_path) == Count(failed=1)
