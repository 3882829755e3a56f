"""Holds the imports of the Python package to the table of docs/architecture.md: who may import
whom, and no circles.

Every import counts, also inside functions, under TYPE_CHECKING, and by `import_module()`. A new
arrow is a decision page and a new line here."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch

PACKAGE = "python/skyward/"
EXTENSION = "skyward._core"

# (room, its files, rooms it may import). The first pattern that fits a file wins. "extension" is
# the compiled half: a node has the package without it.
ROOMS: list[tuple[str, str, frozenset[str]]] = [
    ("by value", "worker/by_value.py", frozenset()),
    ("by value", "worker/caches.py", frozenset()),
    ("by value", "worker/class_hooks.py", frozenset()),
    ("by value", "worker/kernels.py", frozenset()),
    ("by value", "worker/nested_code.py", frozenset()),
    ("by value", "worker/sentinels.py", frozenset()),
    ("by value", "worker/sources.py", frozenset()),
    ("by value", "worker/tensors.py", frozenset()),
    ("by value", "worker/type_names.py", frozenset()),
    ("by value", "worker/unpicklable.py", frozenset()),
    ("output", "worker/output.py", frozenset()),
    ("worker", "worker/*", frozenset({"by value", "output"})),
    ("exceptions", "exceptions.py", frozenset()),
    ("events", "events.py", frozenset({"exceptions"})),
    ("events", "callback.py", frozenset({"exceptions"})),
    ("base", "base/*", frozenset({"exceptions", "extension"})),
    ("spec", "spec/*", frozenset({"base", "exceptions", "extension"})),
    ("spec", "accelerators.py", frozenset({"base", "exceptions"})),
    ("providers", "providers/*", frozenset({"base", "exceptions", "spec"})),
    ("call", "call/*", frozenset({"by value", "exceptions", "spec"})),
    ("task", "task/*", frozenset({"call", "exceptions"})),
    (
        "distributed",
        "distributed/*",
        frozenset({"by value", "call", "exceptions", "output", "task"}),
    ),
    (
        "transport",
        "transport/*",
        frozenset({"base", "by value", "call", "exceptions", "extension", "spec"}),
    ),
    (
        "pool",
        "pool/*",
        frozenset("base call events exceptions extension providers spec transport".split()),
    ),
    (
        "integrations",
        "integrations/*",
        frozenset("call exceptions pool spec task transport".split()),
    ),
    (
        "engines",
        "engines/*",
        frozenset("call distributed exceptions pool task transport".split()),
    ),
    # What programs import by these names, and the package itself.
    (
        "face",
        "*.py",
        frozenset(
            "base call distributed engines events exceptions extension integrations pool providers"
            " spec task".split()
        ),
    ),
]


@dataclass(frozen=True)
class Import:
    module: str
    line: int
    target: str


def module_of(path: str) -> str:
    name = "skyward." + path.removeprefix(PACKAGE).removesuffix(".py").replace("/", ".")
    return name.removesuffix(".__init__")


def room_of(path: str) -> tuple[str, frozenset[str]] | None:
    inside = path.removeprefix(PACKAGE)
    for room, pattern, allowed in ROOMS:
        if fnmatch(inside, pattern) and pattern.count("/") <= inside.count("/"):
            if pattern == "*.py" and "/" in inside:
                continue
            return room, allowed
    return None


def find_imports(module: str, text: str, modules: frozenset[str], is_package: bool) -> list[Import]:
    return [
        Import(module, getattr(node, "lineno", 0), target)
        for node in ast.walk(ast.parse(text))
        for target in _targets(node, module, modules, is_package)
        if target != module
    ]


def _targets(
    node: ast.AST, module: str, modules: frozenset[str], is_package: bool
) -> Iterator[str]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            if alias.name.partition(".")[0] == "skyward":
                yield alias.name
    elif isinstance(node, ast.ImportFrom):
        start = node.module or ""
        if node.level:
            parts = module.split(".")
            above = ".".join(parts[: len(parts) - node.level + is_package])
            start = f"{above}.{start}".rstrip(".")
        if start.partition(".")[0] == "skyward":
            for alias in node.names:
                inner = f"{start}.{alias.name}"
                yield inner if inner in modules or inner == EXTENSION else start
    elif isinstance(node, ast.Call) and "import_module" in ast.unparse(node.func) and node.args:
        name = node.args[0]
        if isinstance(name, ast.Constant) and str(name.value).startswith("skyward"):
            yield str(name.value)
        elif isinstance(name, ast.JoinedStr) and module != "skyward":  # whose names are listed
            pattern = "".join(
                re.escape(str(part.value)) if isinstance(part, ast.Constant) else r"\w+"
                for part in name.values
            )
            yield from (one for one in sorted(modules) if re.fullmatch(pattern, one))


def circles(arrows: dict[str, set[str]]) -> list[list[str]]:
    """The groups of modules of which each imports each, by whatever way."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    open_ones: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        number[module] = lowest[module] = len(number)
        open_ones.append(module)
        for target in sorted(arrows.get(module, ())):
            if target not in number:
                visit(target)
                lowest[module] = min(lowest[module], lowest[target])
            elif target in open_ones:
                lowest[module] = min(lowest[module], number[target])
        if lowest[module] == number[module]:
            group = open_ones[open_ones.index(module) :]
            del open_ones[open_ones.index(module) :]
            if len(group) > 1:
                found.append(sorted(group))

    for module in sorted(arrows):
        if module not in number:
            visit(module)
    return found


def check(files: dict[str, str]) -> list[str]:
    """All findings for the package's files, as path → text."""
    paths = {module_of(path): path for path in sorted(files)}
    modules = frozenset(paths)
    findings: list[str] = []
    arrows: dict[str, set[str]] = {module: set() for module in modules}
    for module, path in paths.items():
        own = room_of(path)
        if own is None:
            findings.append(f"{path}: lies in no room of the table of tools/python_arrows.py")
            continue
        room, allowed = own
        is_package = path.endswith("/__init__.py")
        for one in find_imports(module, files[path], modules, is_package):
            where = f"{path}:{one.line}"
            if one.target == EXTENSION:
                target_room = "extension"
            elif one.target in paths:
                target_room = (room_of(paths[one.target]) or ("", frozenset()))[0]
            else:
                findings.append(f"{where}: there is no module {one.target}")
                continue
            if target_room != room and target_room not in allowed:
                may = ", ".join(sorted(allowed)) or "nothing"
                findings.append(f"{where}: {room} may import {may}; not {target_room}")
            if one.target != EXTENSION:
                arrows[module].add(one.target)
    for group in circles(arrows):
        findings.append(f"these modules import each other: {', '.join(group)}")
    findings += circular_rooms()
    return findings


def circular_rooms() -> list[str]:
    arrows: dict[str, set[str]] = {}
    for room, _, allowed in ROOMS:
        arrows.setdefault(room, set()).update(allowed)
    return [f"the table has a circle: {', '.join(group)}" for group in circles(arrows)]
