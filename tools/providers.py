"""The sheets of providers, skyward/provider/*/sheet.toml, into everything that repeats them: the
table of settings, the classes of both faces, the names that the package exports, the tables and
lists of the guide. `--check` only compares.

docs/decisions/0023-one-sheet-for-each-provider.md says what a sheet has.
"""

import json
import re
import sys
import textwrap
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from catalogue import ROOT, formatted

GUIDE = ROOT / "docs/guide"
NOTE = "Made by tools/providers.py from the sheets in skyward/provider; ./dev static compares them."
WIDTH = 100

# The types of a kind of setting: in Python, in C++.
KINDS = {
    "text": ("str", "std::string"),
    "region": ("str", "std::string"),
    "secret": ("str", "std::string"),
    "path": ("str", "std::string"),
    "flag": ("bool", "bool"),
    "whole": ("int", "int"),
    "number": ("float", "double"),
    "fraction": ("float", "double"),
    "list": ("tuple[str, ...]", "std::vector<std::string>"),
    "lines": ("tuple[str, ...]", "std::vector<std::string>"),
    "pairs": ("dict[str, str] | tuple[str, ...]", "std::map<std::string, std::string>"),
    "choice": ("", "std::string"),
    "json": ("", ""),
    "host_keys": ("", ""),
    "internal": ("", ""),
}
# Kinds that no project's file may set without being trusted, whatever a sheet says.
NEVER_HARMLESS = {"secret", "path", "lines", "json", "host_keys", "internal"}
SEVERAL = {"list", "lines", "pairs"}
SETTING_KEYS = {
    *("kind", "default", "choices", "python", "cpp", "harmless", "names_image"),
    *("meaning", "unset"),
}
SHEET_KEYS = {
    *("name", "title", "label", "page", "task", "heading", "machines", "faces", "summary"),
    *("python_base", "settings", "features"),
}
MACHINES = ("rented", "own", "simulated")
FEATURES = (
    "Machines",
    "Cost money",
    "Spot machines",
    "Preemption notice",
    "A failed node is replaced by",
    "End by themselves if your program dies",
    "Your own image",
    "`apt` packages",
    "Split GPUs (`mig`)",
    "Large arguments travel",
    "Distributed training",
    "Host keys",
    "Volumes",
)


class SheetError(Exception):
    """A sheet is not as it must be."""


def plain(markdown: str) -> str:
    """Without links."""
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", markdown)


def list_text(values: Any) -> Any:
    return ",".join(values) if isinstance(values, list) else values


@dataclass(frozen=True)
class Setting:
    name: str
    row: dict[str, Any]

    @property
    def kind(self) -> str:
        return str(self.row["kind"])

    @property
    def default(self) -> Any:
        return self.row.get("default")

    @property
    def choices(self) -> list[str]:
        return list(self.row.get("choices", []))

    @property
    def standard(self) -> str:
        """The default as the engine reads it."""
        value = list_text(self.default)
        if value is None:
            return ""
        if isinstance(value, bool):
            return "true" if value else "false"
        return f"{value:g}" if isinstance(value, float) else str(value)

    @property
    def python_default(self) -> str:
        value = self.default
        if value is None and self.kind in SEVERAL:
            value = ()
        if isinstance(value, list):
            value = tuple(value)
        return json.dumps(value) if isinstance(value, str) else repr(value).replace("'", '"')

    @property
    def python_type(self) -> str:
        if "python" in self.row:
            return str(self.row["python"])
        kind = KINDS[self.kind][0]
        if self.kind == "choice":
            kind = f"Literal[{', '.join(json.dumps(choice) for choice in self.choices)}]"
        return kind if self.default is not None or self.kind in SEVERAL else f"{kind} | None"

    @property
    def cpp_name(self) -> str:
        return str(self.row.get("cpp", self.name))

    @property
    def meaning(self) -> str:
        return str(self.row["meaning"])

    @property
    def explained(self) -> str:
        """What it means and what it is when it is left out, as text without links."""
        unset = plain(self.row.get("unset", ""))
        return f"{plain(self.meaning)}." + (f" Default: {unset}." if unset else "")

    def problems(self) -> list[str]:
        found = [f"unknown key {key}" for key in self.row if key not in SETTING_KEYS]
        found += [f"there is no {key}" for key in ("kind", "meaning") if key not in self.row]
        if found:
            return found
        if self.kind not in KINDS:
            return [f"unknown kind {self.kind}; there are {', '.join(KINDS)}"]
        if (self.kind == "choice") != bool(self.choices):
            found.append("a choice has choices, and nothing else has")
        if self.choices and self.default is not None and self.default not in self.choices:
            found.append("the default is none of the choices")
        if self.row.get("harmless") and self.kind in NEVER_HARMLESS:
            found.append(f"a {self.kind} is never harmless")
        kinds: dict[str, Any] = {"flag": bool, "whole": int, "number": float, "fraction": float}
        if self.default is not None and type(self.default) is not kinds.get(
            self.kind, type(self.default)
        ):
            found.append(f"the default of a {self.kind} must be {kinds[self.kind].__name__}")
        return found


@dataclass(frozen=True)
class Sheet:
    file: Path
    row: dict[str, Any]

    def __getattr__(self, key: str) -> str:
        if key not in SHEET_KEYS:
            raise AttributeError(key)
        return str(self.row.get(key, ""))

    @cached_property
    def listed(self) -> tuple[Setting, ...]:
        return tuple(Setting(*item) for item in self.row.get("settings", {}).items())

    @property
    def shown_class(self) -> str:
        return f"`{self.title}`" if self.machines == "simulated" else f"`sky.{self.title}`"

    @property
    def has_made_classes(self) -> bool:
        return self.faces != "by hand"

    def problems(self) -> list[str]:
        found = [f"unknown key {key}" for key in self.row if key not in SHEET_KEYS]
        needed = ["name", "title", "page", "machines", "features"]
        if self.has_made_classes:
            needed += ["label", "task", "heading", "summary", "settings"]
        found += [f"there is no {key}" for key in needed if key not in self.row]
        if self.machines not in MACHINES:
            found.append(f"machines is one of {', '.join(MACHINES)}")
        if tuple(self.row.get("features", ())) != FEATURES:
            found.append(f"features has exactly, in this order: {'; '.join(FEATURES)}")
        if not (GUIDE / f"{self.page}.md").exists():
            found.append(f"there is no page docs/guide/{self.page}.md")
        for one in self.listed:
            found += [f"settings.{one.name}: {problem}" for problem in one.problems()]
        return found


def read(root: Path = ROOT) -> list[Sheet]:
    """All sheets: machines for rent, machines that one has, simulated ones."""
    sheets = []
    for file in sorted(root.glob("skyward/provider/*/sheet.toml")):
        sheet = Sheet(file, tomllib.loads(file.read_text()))
        if problems := sheet.problems():
            raise SheetError(f"{file.relative_to(root)}: {'; '.join(problems)}")
        sheets.append(sheet)
    return sorted(sheets, key=lambda sheet: (MACHINES.index(sheet.machines), sheet.title.lower()))


def made(sheets: list[Sheet]) -> list[Sheet]:
    """Those whose classes are made."""
    return [sheet for sheet in sheets if sheet.has_made_classes]


# ---- whole files --------------------------------------------------------------------------------


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def settings_table(sheets: list[Sheet]) -> str:
    arrays, rows = [], []
    for sheet in [sheet for sheet in sheets if sheet.listed]:
        lines = []
        for one in sheet.listed:
            who = "anybody" if one.row.get("harmless") else "trusted"
            kind = (
                one.kind if one.kind not in ("region", "host_keys") else f"SettingKind::{one.kind}"
            )
            kind = "list" if one.kind == "pairs" else kind  # each as NAME=TEXT
            texts = f"{quoted(one.standard)}, {quoted('|'.join(one.choices))}"
            image = ", true" if one.row.get("names_image") else ""
            lines.append(f"    {{{quoted(one.name)}, {kind}, {who}, {texts}{image}}},\n")
        array = f"k{sheet.title}"
        arrays.append(
            f"constexpr std::array<ProviderSetting, {len(lines)}> {array} = {{{{\n"
            f"{''.join(lines)}}}}};\n"
        )
        rents = str(sheet.machines == "rented").lower()
        names = ", ".join(map(quoted, (sheet.name, sheet.title, sheet.label)))
        rows.append(f"    {{{names}, {array}, {rents}}},\n")
    return f"""// {NOTE}

#include <array>

#include "skyward/spec/provider_settings.h"

namespace skyward {{

namespace {{

using enum SettingKind;
using enum FromProject;

{chr(10).join(arrays)}
constexpr std::array<ProviderSheet, {len(rows)}> kSheets = {{{{
{"".join(rows)}}}}};

}}  // namespace

std::span<const ProviderSheet> provider_sheets() {{ return kSheets; }}

}}  // namespace skyward
"""


def comment(text: str, indent: str) -> str:
    lines = textwrap.wrap(
        text, WIDTH - len(indent) - 3, break_long_words=False, break_on_hyphens=False
    )
    return "".join(f"{indent}// {line}\n" for line in lines)


def cpp_header(sheet: Sheet) -> str:
    fields = []
    for one in sheet.listed:
        explained = one.explained
        if one.standard and "unset" not in one.row:
            is_word = one.kind in ("flag", "whole", "number", "fraction")
            explained += f" Default: {one.standard if is_word else quoted(one.standard)}."
        field = f"  std::optional<{KINDS[one.kind][1]}> {one.cpp_name}{{}};\n"
        fields.append(comment(explained, "  ") + field)
    types = ["optional", "string"]
    kinds = {one.kind for one in sheet.listed}
    types += ["map"] if "pairs" in kinds else []
    types += ["vector"] if kinds & {"list", "lines"} else []
    includes = "\n".join(f"#include <{one}>" for one in sorted(types))
    return f"""#pragma once

{comment(f"{sheet.summary} docs/guide/{sheet.page}.md says more.", "")}// {NOTE}

{includes}

#include "skyward/spec/pool_spec.h"

namespace skyward {{

struct {sheet.title} {{
{"".join(fields)}  operator ProviderSpec() const;
}};

}}  // namespace skyward
"""


def cpp_source(sheets: list[Sheet]) -> str:
    bodies = []
    for sheet in made(sheets):
        puts = "".join(
            f"  put(spec, {quoted(one.name)}, "
            + (f"joined({one.cpp_name}, '\\n')" if one.kind == "lines" else one.cpp_name)
            + ");\n"
            for one in sheet.listed
        )
        bodies.append(
            f"{sheet.title}::operator ProviderSpec() const {{\n"
            f"  ProviderSpec spec{{.name = {quoted(sheet.name)}, .settings = {{}}}};\n"
            f"{puts}  return spec;\n}}\n"
        )
    includes = "".join(f'#include "skyward/pool/clouds/{one.name}.h"\n' for one in by_name(sheets))
    return f"""// {NOTE}

{includes}#include "skyward/pool/put_setting.h"

namespace skyward {{

{chr(10).join(bodies)}
}}  // namespace skyward
"""


def by_name(sheets: list[Sheet]) -> list[Sheet]:
    return sorted(made(sheets), key=lambda sheet: sheet.name)


def all_headers(sheets: list[Sheet]) -> str:
    includes = "".join(
        f'#include "skyward/pool/clouds/{one.name}.h"  // IWYU pragma: export\n'
        for one in by_name(sheets)
    )
    return f"""#pragma once

// The providers whose settings are all that they have, one header each.
// {NOTE}

{includes}"""


def docstring(text: str, indent: str = "    ") -> str:
    lines = textwrap.wrap(
        text, WIDTH - len(indent) - 6, break_long_words=False, break_on_hyphens=False
    )
    quote = '"""'
    if len(lines) > 1 and len(lines[-1]) + 3 > WIDTH - len(indent):
        lines.append("")
    first = "r" if "\\" in text else ""
    return indent + first + quote + f"\n{indent}".join(lines) + quote + "\n"


def python_field(one: Setting) -> str:
    default = one.python_default
    options = [f"default={default}"]
    if one.kind == "secret":
        options.append("repr=False")
    if one.kind == "lines":
        options.append("metadata=LINES")
    shown = f"field({', '.join(options)})" if len(options) > 1 else default
    return f"    {one.name}: {one.python_type} = {shown}\n{docstring(one.explained)}"


def python_classes(sheets: list[Sheet]) -> str:
    bases = {sheet.python_base for sheet in made(sheets) if sheet.python_base}
    classes = []
    for sheet in made(sheets):
        parents = ", ".join(filter(None, (sheet.python_base, "Cloud")))
        fields = "".join(python_field(one) for one in sheet.listed)
        classes.append(
            f"\n@dataclass(frozen=True, repr=False)\nclass {sheet.title}({parents}):\n"
            + docstring(f"{sheet.summary} docs/guide/{sheet.page}.md says more.")
            + f"\n    name: ClassVar[str] = {quoted(sheet.name)}\n\n{fields}\n"
        )
    tuple_of = ", ".join(sheet.title for sheet in made(sheets))
    imported = ", ".join(["LINES", *sorted({"Cloud", *bases})])
    return f'''"""The providers whose settings are all that they have.

Making one contacts nobody; the account's rights, and the settings of skyward.toml, are checked when
a pool opens.

{NOTE}"""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from skyward.providers.cloud import {imported}

{"".join(classes)}
CLOUDS: dict[str, type[Any]] = {{cloud.name: cloud for cloud in ({tuple_of})}}
"""The classes by the names that ``provider="aws"`` takes."""
'''


# ---- parts of files -----------------------------------------------------------------------------


def parameters_table(sheet: Sheet) -> str:
    lines = [f"| `sky.{sheet.title}(…)` | Default | Meaning |", "|---|---|---|"]
    for one in sheet.listed:
        default = one.row.get("unset") or f"`{one.python_default}`"
        lines.append(f"| `{one.name}` | {default} | {one.meaning} |")
    return "\n\n" + "\n".join(lines) + "\n\n"


def features_table(sheets: list[Sheet]) -> str:
    heads = " | ".join(f"[{sheet.shown_class}]({sheet.page}.md)" for sheet in sheets)
    lines = [f"| | {heads} |", "|---" * (len(sheets) + 1) + "|"]
    for feature in FEATURES:
        cells = [sheet.row["features"][feature] for sheet in sheets]
        lines.append("".join(f"| {cell} " if cell else "| " for cell in [feature, *cells]) + "|")
    return "\n\n" + "\n".join(lines) + "\n\n"


def pages_table(sheets: list[Sheet]) -> str:
    rows = [
        f"| {sheet.task} | [{sheet.heading}]({sheet.page}.md) |\n" for sheet in sheets if sheet.task
    ]
    return f"\n\n| Say where machines come from | |\n|---|---|\n{''.join(rows)}\n"


def links(sheets: list[Sheet]) -> str:
    """To the parameters of each."""
    documented = [sheet for sheet in sheets if sheet.listed]
    return ", ".join(f"[{sheet.shown_class}]({sheet.page}.md#parameters)" for sheet in documented)


MARKED = re.compile(r"(<!-- providers: (\w+) -->)(.*?)(<!-- end -->)", re.DOTALL)


def page_text(file: Path, text: str, sheets: list[Sheet]) -> str:
    """The page with what is made between its marks."""

    def part(match: re.Match[str]) -> str:
        begin, what, _, end = match.groups()
        of_page = [sheet for sheet in sheets if sheet.page == file.stem]
        makers: dict[str, Callable[[], str]] = {
            "parameters": lambda: parameters_table(of_page[0]),
            "features": lambda: features_table(sheets),
            "pages": lambda: pages_table(sheets),
            "links": lambda: links(sheets),
        }
        return begin + makers[what]() + end

    for sheet in sheets:
        if (
            sheet.listed
            and sheet.page == file.stem
            and "<!-- providers: parameters -->" not in text
        ):
            raise SheetError(
                f"{file.relative_to(ROOT)}: under ## Parameters, write the lines"
                " <!-- providers: parameters --> and <!-- end -->"
            )
    return MARKED.sub(part, text)


def replaced(text: str, pattern: str, new: str) -> str:
    if len(re.findall(pattern, text)) != 1:
        raise SheetError(f"there must be one place like {pattern}")
    return re.sub(pattern, lambda _: new, text)


def package_text(text: str, sheets: list[Sheet]) -> str:
    names = sorted(sheet.title for sheet in made(sheets))
    imports = "".join(f"    from skyward.providers.clouds import {one} as {one}\n" for one in names)
    text = replaced(text, r"(?:    from skyward\.providers\.clouds import \w+ as \w+\n)+", imports)
    lines = textwrap.wrap(" ".join(names), 80)
    listed = quoted(lines[0])
    if len(lines) > 1:
        listed = "(\n" + "".join(
            f"            {quoted(line + (' ' if line is not lines[-1] else ''))}\n"
            for line in lines
        )
        listed += "        )"
    where = r'        "providers\.clouds": (?:"[^"]*"|\([^)]*\)),\n'
    return replaced(text, where, f'        "providers.clouds": {listed},\n')


def events_text(text: str, sheets: list[Sheet]) -> str:
    names = "".join(
        f"    {sheet.title} = {quoted(sheet.label)}\n" for sheet in sheets if sheet.label
    )
    head = (
        'class ProviderName(StrEnum):\n    """The providers, spelled as events spell them."""\n\n'
    )
    return replaced(text, re.escape(head) + r'(?:    \w+ = "[^"]*"\n)+', head + names)


def all_texts(sheets: list[Sheet]) -> dict[Path, str]:
    """Each file that is made, or that has a part that is."""
    texts = {
        ROOT / "skyward/spec/provider_sheets.cc": settings_table(sheets),
        ROOT / "skyward/pool/clouds.cc": cpp_source(sheets),
        ROOT / "skyward/pool/clouds.h": all_headers(sheets),
        ROOT / "python/skyward/providers/clouds.py": python_classes(sheets),
    }
    for sheet in made(sheets):
        texts[ROOT / f"skyward/pool/clouds/{sheet.name}.h"] = cpp_header(sheet)
    texts = {file: formatted(text, str(file.relative_to(ROOT))) for file, text in texts.items()}
    package = ROOT / "python/skyward/__init__.py"
    texts[package] = package_text(package.read_text(), sheets)
    events = ROOT / "python/skyward/events.py"
    texts[events] = events_text(events.read_text(), sheets)
    for page in sorted(GUIDE.glob("*.md")):
        texts[page] = page_text(page, page.read_text(), sheets)
    return texts


def write(file: Path, text: str) -> None:
    """Without a text, the file goes."""
    if not text:
        file.unlink()
        return
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)


def main() -> int:
    check = "--check" in sys.argv[1:]
    try:
        texts = all_texts(read())
    except SheetError as error:
        print(error)
        return 1
    texts |= dict.fromkeys(set((ROOT / "skyward/pool/clouds").glob("*.h")) - set(texts), "")
    stale = [file for file, text in texts.items() if not file.exists() or file.read_text() != text]
    for file in stale:
        if not check:
            write(file, texts[file])
        print(
            f"{file.relative_to(ROOT)} {'is stale; run tools/providers.py' if check else 'written'}"
        )
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
