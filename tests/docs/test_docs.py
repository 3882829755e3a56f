"""Every program that the documentation shows, run as a reader would."""

import check_docs
import pytest


@pytest.mark.parametrize("program", check_docs.all_programs(), ids=check_docs.Program.title)
def test_program_of_the_docs(program: check_docs.Program) -> None:
    check_docs.run_program(program)


def test_links_between_pages_lead_somewhere() -> None:
    assert check_docs.dead_links() == []
