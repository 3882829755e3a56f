"""check_docs.py against planted pages: what is wrong in a page must not pass."""

import check_docs
import pytest
from check_docs import DocsError, programs_of, run_program


def page(text: str) -> str:
    return text.replace("'''", "```")


def test_named_blocks_are_one_program() -> None:
    text = page(
        "<!-- test: name=a -->\n'''python\nx = 1\n'''\nand\n"
        "<!-- test: name=a -->\n'''python\nprint(x)\n'''\n"
        "<!-- test: output=a -->\n'''text\n1\n'''\n"
    )
    (program,) = programs_of("p.md", text)
    assert program.text == "x = 1\nprint(x)\n"
    run_program(program)


def test_unnamed_blocks_stand_alone() -> None:
    assert len(programs_of("p.md", page("'''python\nx = 1\n'''\n'''python\nprint(x)\n'''\n"))) == 2


@pytest.mark.parametrize(
    "text",
    [
        "'''python\nassert 1 == 2\n'''\n",
        "'''python\nthis is no code\n'''\n",
        "<!-- test: name=a -->\n'''python\nprint(1)\n'''\n"
        "<!-- test: output=a -->\n'''text\n2\n'''\n",
        "<!-- test: raises=KeyError -->\n'''python\nprint(1)\n'''\n",
        "<!-- test: raises=KeyError -->\n'''python\nraise ValueError\n'''\n",
        "<!-- test: compile=\"needs a cloud\" -->\n'''python\nx = (\n'''\n",
    ],
)
def test_wrong_program_fails(text: str) -> None:
    (program,) = programs_of("p.md", page(text))
    with pytest.raises(DocsError):
        run_program(program)


@pytest.mark.parametrize(
    "text",
    [
        "'''\nno language\n'''\n",
        "'''fortran\nEND\n'''\n",
        "'''python\nnever closed\n",
        "'''bash\n./dev nosuchverb\n'''\n",
        "'''bash\nrm -rf x\n'''\n",
        "'''bash\n./dev run examples/no_such_file.py\n'''\n",
        "<!-- test: skip=yes -->\n'''python\nx = 1\n'''\n",
        "<!-- test: name=a -->\nwords between\n'''python\nx = 1\n'''\n",
        "<!-- test: output=none -->\n'''text\n1\n'''\n",
    ],
)
def test_page_that_cannot_be_checked_is_refused(text: str) -> None:
    with pytest.raises(DocsError):
        programs_of("p.md", page(text))


def test_good_commands_pass() -> None:
    text = (
        "'''console\n$ ./dev test  # all of it\n3 passed, 0 failed\n'''\n'''bash\n./dev demo\n'''\n"
    )
    assert programs_of("p.md", page(text)) == []


def test_expected_exception_passes() -> None:
    text = "<!-- test: raises=KeyError -->\n'''python\nraise KeyError('x')\n'''\n"
    (program,) = programs_of("p.md", page(text))
    run_program(program)


def test_dots_stand_for_any_lines() -> None:
    assert check_docs.matches("a\n...\nd\n", "a\nb\nc\nd\n")
    assert not check_docs.matches("a\n...\nd\n", "a\nb\nc\n")
