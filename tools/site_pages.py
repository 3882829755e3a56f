"""The sources of the documentation site: the pages of docs/, and a reference made from docstrings
and headers. `./dev docs` runs this, terminal_picture.py for the pictures, and then the generator.

    site_pages.py FOLDER    writes them into FOLDER, with the generator's mkdocs.yml

A link between pages stays one; a link to a file that is no page becomes plain text. A link to a
file that does not exist is an error, as is a page that the menu does not list.
"""

import os
import posixpath
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import parity
import providers

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"(\[[^\]\n]*(?:\n[^\]\n]*)?\])\(([^)\s]+)\)")

# The menu: title, then pages of the repository or folders of made ones.
MENU: list[tuple[str, list[str]]] = [
    ("Learn", ["README.md", "docs/guide/tutorial.md", "examples/README.md"]),
    (
        "Run calls",
        ["docs/guide/README.md"]
        + [
            f"docs/guide/{name}.md"
            for name in ("run", "pools", "servers", "calls", "tasks", "arguments", "errors")
        ]
        + [
            f"docs/guide/{name}.md"
            for name in ("events", "data", "distributed", "engines", "joblib", "cpp")
        ],
    ),
    (
        "Choose machines",
        [f"docs/guide/{sheet.page}.md" for sheet in providers.read() if sheet.heading]
        + [f"docs/guide/{name}.md" for name in ("accelerators", "environments", "volumes")]
        + ["docs/guide/configuration.md"],
    ),
    (
        "Stay in control",
        [
            f"docs/guide/{name}.md"
            for name in ("costs", "preemption", "cleanup", "testing", "command-line")
        ],
    ),
    (
        "Look up",
        ["docs/guide/parameters.md", "docs/guide/features.md", "docs/names.md", "docs/leaks.md"],
    ),
    ("Inside", ["docs/performance.md", "docs/architecture.md", "docs/style.md"]),
]


CHANGES = "changes/index.md"


class SiteError(Exception):
    """Something that a reader of the site would stumble over."""


@dataclass(frozen=True)
class Page:
    source: str  # path in the repository
    target: str  # path in the site


def target_of(source: str) -> str:
    path = source.removeprefix("docs/")
    if path == "README.md":
        return "index.md"
    return re.sub(r"(^|/)README\.md$", r"\1index.md", path)


def pages() -> dict[str, Page]:
    """Every page that is written by hand."""
    sources = ["README.md", "examples/README.md", "changes/README.md"]
    sources += [str(path.relative_to(ROOT)) for path in sorted(ROOT.glob("docs/**/*.md"))]
    return {
        source: Page(source, target_of(source)) for source in sources if "template" not in source
    }


def rewrite_links(text: str, page: Page, known: dict[str, Page]) -> str:
    """The page's text with links as the site needs them; code stays as it is."""

    def replaced(match: re.Match[str]) -> str:
        label, address = match.groups()
        if re.match(r"[a-z]+:", address) or address.startswith("#"):
            return match.group(0)
        path, mark, fragment = address.partition("#")
        there = posixpath.normpath(posixpath.join(posixpath.dirname(page.source), path))
        if there in known:
            there_page = known[there]
        elif f"{there}/README.md" in known:
            there_page = known[f"{there}/README.md"]
        elif (ROOT / there).exists():
            return label[1:-1]
        else:
            raise SiteError(f"{page.source}: there is no {address}")
        target = posixpath.relpath(there_page.target, posixpath.dirname(page.target) or ".")
        return f"{label}({target}{mark}{fragment})"

    parts = re.split(r"(^```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("```") else LINK.sub(replaced, part) for part in parts)


def all_changes(known: dict[str, Page]) -> str:
    """Every note of changes/, the newest first."""
    texts = ["# Changes"]
    for note in sorted(ROOT.glob("changes/[0-9]*.md"), reverse=True):
        page = Page(str(note.relative_to(ROOT)), CHANGES)
        texts.append(rewrite_links(note.read_text().strip(), page, known))
    return "\n\n".join(texts) + "\n"


def python_reference() -> dict[str, str]:
    """A page for each part of the package, from its docstrings: target → text."""
    by_part: dict[str, list[str]] = {}
    for name, module in parity.python_names().items():
        if name != "__version__" and module != name:
            by_part.setdefault(module.split(".")[0], []).append(name)
    made = {}
    for part, names in sorted(by_part.items()):
        lines = [f"# sky: {part}", ""]
        for name in sorted(names):
            lines += [f"::: skyward.{name}", ""]
        made[f"reference/python/{part}.md"] = "\n".join(lines)
    return made


HEADER_NOISE = re.compile(
    r"^(#pragma once|#include .*|namespace [\w:]+ \{|\}  // namespace.*)\n", re.MULTILINE
)


def header_page(header: str, text: str) -> str:
    """A header as a page: its first comment is prose, the rest shows declarations as they stand."""
    body = HEADER_NOISE.sub("", text).strip("\n")
    opening = re.match(r"(?://[^\n]*\n)+", body)
    prose = ""
    if opening:
        lines = [line.removeprefix("//").removeprefix(" ") for line in opening[0].splitlines()]
        # What a comment indents is an example.
        prose = "\n".join(re.sub(r"^ {2,}", "    ", line) for line in lines)
        body = body[opening.end() :].strip("\n")
    body = re.sub(r"\n{3,}", "\n\n", body)
    code = f"```cpp\n{body}\n```\n" if body else ""
    return f"# `skyward/{header}`\n\n{prose}\n\n{code}"


def cpp_reference() -> dict[str, str]:
    """A page for each header that skyward.h or testing.h leads to, but for those of other rooms."""
    seen: list[str] = []
    waiting = ["skyward.h", "testing.h"]
    while waiting:
        header = waiting.pop(0)
        room = posixpath.dirname(header)
        if header in seen or room not in parity.HEADER_ROOMS:
            continue
        seen.append(header)
        text = (ROOT / "skyward" / header).read_text()
        waiting += re.findall(r'^#include "skyward/([^"]+)"', text, re.MULTILINE)
    return {
        f"reference/cpp/{header.removesuffix('.h')}.md": header_page(
            header, (ROOT / "skyward" / header).read_text()
        )
        for header in sorted(seen)
    }


def menu_text(known: dict[str, Page], made: dict[str, str]) -> str:
    """The menu as the generator reads it."""
    lines = ["nav:"]
    listed = set()
    for title, sources in MENU:
        lines.append(f'  - "{title}":')
        for source in sources:
            listed.add(source)
            lines.append(f"      - {known[source].target}")
    lines.append('  - "Decisions":')
    for source, page in known.items():
        if source.startswith("docs/decisions/"):
            listed.add(source)
            lines.append(f"      - {page.target}")
    for title, folder in (("Python", "reference/python/"), ("C++", "reference/cpp/")):
        lines.append(f'  - "{title}":')
        lines += [f"      - {target}" for target in made if target.startswith(folder)]
    lines += ['  - "In the terminal": terminal.md', f'  - "Changes": {CHANGES}', ""]
    missing = [page for page in known if page not in listed | {"changes/README.md"}]
    if missing:
        raise SiteError("the menu of tools/site_pages.py does not list " + ", ".join(missing))
    return "\n".join(lines)


CONFIGURATION = """\
site_name: Skyward
docs_dir: pages
site_dir: html
use_directory_urls: false
theme:
  name: material
  font: false
  features: [navigation.tabs, navigation.top, search.suggest, content.code.copy]
  palette:
    - media: "(prefers-color-scheme: light)"
      scheme: default
    - media: "(prefers-color-scheme: dark)"
      scheme: slate
markdown_extensions: [attr_list, toc, tables, pymdownx.superfences, pymdownx.highlight]
plugins:
  - search
  - mkdocstrings:
      handlers:
        python:
          paths: [{package}]
          options:
            show_root_heading: true
            show_root_full_path: false
            show_source: false
            show_if_no_docstring: false
            members_order: source
            docstring_style: sphinx
validation:
  omitted_files: info
  links:
    anchors: warn
    unrecognized_links: warn
"""


def write_site(folder: Path) -> int:
    """Writes all sources; returns how many pages there are."""
    shutil.rmtree(folder, ignore_errors=True)
    known = pages()
    made = python_reference() | cpp_reference()
    texts = dict(made)
    for source, page in known.items():
        texts[page.target] = rewrite_links((ROOT / source).read_text(), page, known)
    texts[CHANGES] = all_changes(known)
    for target, text in texts.items():
        path = folder / "pages" / target
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    package = os.path.relpath(ROOT / "python", folder)
    configuration = CONFIGURATION.replace("{package}", package) + menu_text(known, made)
    (folder / "mkdocs.yml").write_text(configuration)
    return len(texts)


def main() -> int:
    folder = Path(sys.argv[1])
    print(f"{write_site(folder)} pages in {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
