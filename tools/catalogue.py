"""The catalogue of accelerators, from skyward/spec/accelerators.tsv into the C++ table, into a
factory for each model in both faces and into the guide; `--check` only compares."""

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "skyward/spec/accelerators.tsv"
TABLE = ROOT / "skyward/spec/accelerator_table.cc"
HEADER = ROOT / "skyward/pool/accelerators.h"
PYTHON = ROOT / "python/skyward/accelerators.py"
TYPES = ROOT / "python/skyward/spec/nvidia.py"
PAGE = ROOT / "docs/guide/accelerators.md"
MARKED = re.compile(r"(?<=<!-- catalogue -->).*?(?=<!-- end -->)", re.DOTALL)
MAKERS = {"aws": "Amazon", "google": "Google", "habana": "Intel", "nvidia": "NVIDIA", "amd": "AMD"}
NOTE = "Made by tools/catalogue.py from skyward/spec/accelerators.tsv; a test compares them."
E1_SPELLINGS = ("RTX3080", "RTX3090", "RTX4080", "RTX4090")
SPLITTABLE = ("A100", "H100", "H200")


@dataclass(frozen=True)
class Model:
    name: str
    vendor: str
    architecture: str
    memory: str
    cuda_min: str = ""
    cuda_max: str = ""
    memories: str = ""
    forms: str = ""
    devices: str = "1"

    @property
    def identifier(self) -> str:
        return self.name.replace(" ", "_").replace("-", "_")

    def memory_names(self) -> list[str]:
        sizes = [self.memory, *filter(None, self.memories.split(","))]
        return [f"{size}GB" for size in sizes]

    def form_names(self) -> list[str]:
        return [form.split(":")[0] for form in self.forms.split(",") if form]

    def spellings(self) -> list[str]:
        """The name, and the names of its variants, as users write them."""
        names = [self.name]
        if self.memories:
            for size in (self.memory, *self.memories.split(",")):
                names += [f"{self.name}-{size}", f"{self.name}-{size}GB"]
        return names + [f"{self.name}-{form}" for form in self.form_names()]


def read() -> list[Model]:
    models = []
    for line in SOURCE.read_text().splitlines():
        if line and not line.startswith("#"):
            cells = line.split("\t")
            cells += [""] * (9 - len(cells))
            models.append(Model(*cells[:8], cells[8] or "1"))
    return models


def key(name: str) -> str:
    return "".join(c for c in name if c not in " -_/").upper()


def table(models: list[Model]) -> str:
    rows = []
    for m in models:
        texts = [m.architecture, m.memory, m.cuda_min, m.cuda_max, m.memories, m.forms]
        arch, memory, low, high, memories, forms = texts
        quoted = ", ".join(f'"{text}"' for text in (low, high, memories, forms))
        rows.append(
            f'    {{"{m.name}", Vendor::{m.vendor}, "{arch}", {memory}, {quoted}, {m.devices}}},'
        )
    return f"""// {NOTE}

#include <array>

#include "skyward/spec/accelerator.h"

namespace skyward {{

namespace {{

constexpr std::array<AcceleratorModel, {len(models)}> kModels = {{{{
{chr(10).join(rows)}
}}}};

}}  // namespace

std::span<const AcceleratorModel> accelerator_catalogue() {{ return kModels; }}

}}  // namespace skyward
"""


def header(models: list[Model]) -> str:
    lines = []
    for m in models:
        if m.memories or m.forms or m.name in SPLITTABLE:
            body = f"Accelerator {m.identifier}(const AcceleratorOptions& options = {{}})"
            lines.append(f'inline {body} {{\n  return from_catalogue("{m.name}", options);\n}}')
        else:
            lines.append(
                f"inline Accelerator {m.identifier}(double count = {m.devices})"
                f' {{ return from_catalogue("{m.name}", {{.count = count}}); }}'
            )
    functions = "\n".join(lines)
    return f"""#pragma once

// A function for each model of the catalogue: `sky::accelerators::H100({{.count = 4}})`.
// {NOTE}

#include <string>
#include <string_view>

#include "skyward/spec/accelerator.h"

// clang-format off
// Models are called as their makers call them. NOLINTBEGIN(readability-identifier-naming)
namespace skyward::accelerators {{

// A model by its name; throws ConfigurationError, naming what is near.
Accelerator from_catalogue(std::string_view name, const AcceleratorOptions& options = {{}});
// One that the catalogue does not have. `memory` is of one device, for example "80GB".
Accelerator Custom(std::string name, std::string memory = {{}}, double count = 1,
                   std::string cuda_min = {{}}, std::string cuda_max = {{}});

{functions}

}}  // namespace skyward::accelerators
// NOLINTEND(readability-identifier-naming)
// clang-format on
"""


def literal(name: str, values: list[str]) -> str:
    quoted = [f'"{value}"' for value in values]
    return f"{name} = Literal[\n{filled(quoted, ', ')}\n]\n"


def filled(words: list[str], separator: str) -> str:
    """The words in lines of a good length."""
    lines = [""]
    for word in words:
        if len(lines[-1]) + len(word) > 90:
            lines.append("")
        lines[-1] += word + separator
    return "\n".join(f"    {line.rstrip()}" for line in lines).rstrip(",")


def signature(m: Model) -> tuple[list[str], list[str]]:
    """The parameters of a model's function, and how it passes them on."""
    parameters = [f"count: float = {m.devices}"]
    arguments = ["count"]
    if len(m.memory_names()) > 1:
        choices = ", ".join(f'"{name}"' for name in m.memory_names())
        parameters.append(f"memory: Literal[{choices}] | None = None")
        arguments.append("memory=memory")
    elif m.forms or m.name in SPLITTABLE:
        parameters.append("memory: str | None = None")
        arguments.append("memory=memory")
    if m.name in SPLITTABLE:
        parameters.append("mig: Mig | None = None")
        arguments.append("mig=mig")
    if m.forms:
        names = m.form_names() if "SXM" in m.form_names() else ["SXM", *m.form_names()]
        choices = ", ".join(f'"{form}"' for form in names)
        parameters += ["*", f"form_factor: Literal[{choices}] | None = None"]
        arguments.append("form_factor=form_factor")
    return parameters, arguments


def factory(m: Model) -> str:
    slices = f", {m.devices} cores" if m.devices != "1" else ""
    what = f'"""{m.name}: {m.memory}GB, {m.architecture}{slices}."""'
    parameters, arguments = signature(m)
    call = f'return from_catalogue("{m.name}", {", ".join(arguments)})'
    return f"def {m.identifier}({', '.join(parameters)}) -> Accelerator:\n    {what}\n    {call}\n"


def attributes(m: Model) -> dict[str, None]:
    return dict.fromkeys((m.identifier, m.name.replace(" ", "").replace("-", "_")))


def namespace(models: list[Model]) -> str:
    """The functions of these models as those of a class."""
    return "".join(
        f"    {name} = staticmethod({m.identifier})\n" for m in models for name in attributes(m)
    )


def namespace_type(models: list[Model]) -> str:
    """The type of that class, for any type of accelerator: it imports none."""
    methods = "".join(
        f"    def {name}({', '.join(['self', *signature(m)[0]])}) -> A_co: ...\n".replace(
            "Mig", "str | list[str] | tuple[str, ...]"
        )
        for m in models
        for name in attributes(m)
    )
    return f'''"""The type of ``Accelerator.NVIDIA``, for type checkers.

{NOTE}
"""

# ruff: noqa: N802 (the functions have the names of the models)

from typing import Literal, Protocol, TypeVar

A_co = TypeVar("A_co", covariant=True)

class NVIDIAFactories(Protocol[A_co]):
    """A function for each model of NVIDIA; each returns an accelerator, an `A_co`."""

{methods}'''


def python(models: list[Model]) -> str:
    spellings = {m.name: m.spellings() for m in models}
    of = {
        vendor: [m for m in models if m.vendor == vendor]
        for vendor in ("nvidia", "amd", "habana", "aws", "google")
    }

    def names(part: list[Model]) -> list[str]:
        return [spelling for m in part for spelling in spellings[m.name]]

    parts = {
        "_NVIDIA": [*names(of["nvidia"]), *E1_SPELLINGS],
        "AMD": names(of["amd"]),
        "Habana": names(of["habana"]),
        "Trainium": names([m for m in models if m.architecture == "Trainium"]),
        "Inferentia": names([m for m in models if m.architecture == "Inferentia"]),
        "TPU": names(of["google"]),
    }
    keys = "".join(
        f'    "{vendor}": """\n{filled([key(name) for name in names(part)], " ")}\n    """,\n'
        for vendor, part in of.items()
    )
    return f'''"""A function for each model of the catalogue: ``sky.accelerators.H100(count=4)``.

Each returns an Accelerator with the memory that the catalogue knows. What the catalogue does not
have is asked for with ``Custom``.

{NOTE}
"""

# ruff: noqa: N802 (the functions have the names of the models)

from typing import TYPE_CHECKING, Literal

from skyward.spec.accelerator import Accelerator as Accelerator
from skyward.spec.accelerator import Mig as Mig
from skyward.spec.accelerator import custom, from_catalogue, namespace_of

Custom = custom

# fmt: off
{chr(10).join(literal(*part) for part in parts.items())}
_KEYS = {{
{keys}}}
# fmt: on

VENDORS = {{key: vendor for vendor, keys in _KEYS.items() for key in keys.split()}}
"""Maker of each model and variant, by the name in capitals without blanks and dashes."""

GPU = _NVIDIA | AMD | None
"""Names of all GPUs, as a type."""

if TYPE_CHECKING:
    NVIDIA = _NVIDIA
else:
    NVIDIA = namespace_of(_NVIDIA)
    """Names of NVIDIA's models: a type (``gpu: NVIDIA``) and a namespace (``NVIDIA.A100``)."""


{(chr(10) + chr(10)).join(factory(m) for m in models)}

class _NVIDIAFactories:
    """``Accelerator.NVIDIA``: the models of NVIDIA."""

{namespace(of["nvidia"])}

Accelerator.NVIDIA = _NVIDIAFactories
'''


def page(models: list[Model]) -> str:
    """The page with the names between its marks."""
    of_maker: dict[str, list[str]] = {}
    for one in models:
        of_maker.setdefault(MAKERS[one.vendor], []).append(one.name)
    rows = [f"| {maker} | {', '.join(names)} |\n" for maker, names in of_maker.items()]
    made = f"\n\n| | Names |\n|---|---|\n{''.join(rows)}\n"
    return MARKED.sub(lambda _: made, PAGE.read_text())


def formatted(text: str, name: str) -> str:
    if name.endswith(".md"):
        return text
    command = {
        ".py": [sys.executable, "-m", "ruff", "format", "--stdin-filename", name, "-"],
        ".cc": ["clang-format-19", f"--assume-filename={name}"],
        ".h": ["clang-format-19", f"--assume-filename={name}"],
    }[Path(name).suffix]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True, cwd=ROOT)
    return done.stdout


def main() -> int:
    models = read()
    stale = []
    texts = {
        TABLE: table(models),
        HEADER: header(models),
        PYTHON: python(models),
        TYPES: namespace_type([m for m in models if m.vendor == "nvidia"]),
        PAGE: page(models),
    }
    for path, text in texts.items():
        made = formatted(text, str(path.relative_to(ROOT)))
        if path.exists() and path.read_text() == made:
            continue
        stale.append(path)
        if "--check" not in sys.argv[1:]:
            path.write_text(made)
    for path in stale:
        print(f"{path.relative_to(ROOT)} {'is stale' if '--check' in sys.argv else 'written'}")
    return 1 if stale and "--check" in sys.argv[1:] else 0


if __name__ == "__main__":
    sys.exit(main())
