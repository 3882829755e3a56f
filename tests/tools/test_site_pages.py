"""site_pages.py: links, headers as pages, and a menu that misses nothing."""

import pytest
import site_pages
from site_pages import Page, SiteError

KNOWN = {
    "README.md": Page("README.md", "index.md"),
    "docs/guide/README.md": Page("docs/guide/README.md", "guide/index.md"),
    "docs/guide/calls.md": Page("docs/guide/calls.md", "guide/calls.md"),
}


def rewritten(text: str, source: str = "docs/guide/calls.md") -> str:
    return site_pages.rewrite_links(text, KNOWN[source], KNOWN)


@pytest.mark.parametrize(
    ("source", "link", "expected"),
    [
        ("docs/guide/calls.md", "[a](../../README.md#try-it)", "[a](../index.md#try-it)"),
        ("README.md", "[a](docs/guide/calls.md)", "[a](guide/calls.md)"),
        ("README.md", "[a](docs/guide/)", "[a](guide/index.md)"),
        ("README.md", "[a](https://example.com)", "[a](https://example.com)"),
        ("README.md", "[a](#here)", "[a](#here)"),
        ("README.md", "[the command](dev)", "the command"),
        ("README.md", "```cpp\n[a](int x)\n```", "```cpp\n[a](int x)\n```"),
    ],
)
def test_links(source: str, link: str, expected: str) -> None:
    assert rewritten(link, source) == expected


def test_a_link_to_nothing_is_refused() -> None:
    with pytest.raises(SiteError, match="no nothing.md"):
        rewritten("[a](nothing.md)")


def test_a_header_opens_with_its_prose_and_shows_its_declarations() -> None:
    text = "#pragma once\n\n// What it is.\n//\n//   f();\n\n#include <x>\n\n"
    text += "namespace skyward {\n\nint f();\n\n}  // namespace skyward\n"
    page = site_pages.header_page("call/x.h", text)
    assert page == "# `skyward/call/x.h`\n\nWhat it is.\n\n    f();\n\n```cpp\nint f();\n```\n"


def test_the_menu_lists_every_page() -> None:
    known = site_pages.pages()
    assert "guide/calls.md" in site_pages.menu_text(known, {})
    known["docs/new.md"] = Page("docs/new.md", "new.md")
    with pytest.raises(SiteError, match=r"docs/new.md"):
        site_pages.menu_text(known, {})
