"""docs/names.md: each public name of the Python package beside its name in C++; `--check` only
compares. A Python name without a C++ twin needs a reason here."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/names.md"
PACKAGE = ROOT / "python/skyward"
# What skyward.h and testing.h lead to.
HEADER_ROOMS = ("", "call", "pool", "pool/clouds", "worker", "display", "spec")
HEADERS = tuple(ROOT / "skyward" / room for room in HEADER_ROOMS)

# Names that are spelled in another way in C++, because the languages differ.
TWINS = {
    "Callback": "PoolOptions::on_event",
    "Error": "ErrorEvent",
    "GPU": "is_gpu",
    "distributed": "distributed",
    "InstanceSpec": "Offer",
    "NVIDIA": "accelerators",
    "PendingBatch": "Batch",
    "PendingCompute": "Pending",
    "Provider": "ProviderSpec",
    "S3Volume": "Volume",
    "SkywardEvent": "Event",
    "SpotLike": "SpotRequest",
    "Trainium": "is_trainium",
    "accelerators": "accelerators",
    "callback": "PoolOptions::on_event",
    "compute": "compute",
    "testing": "testing",
    "events": "Event",
    "is_head": "InstanceInfo::is_head",
    "lazy": "compute",
    "select_instance": "rank_offers",
    "select_instances": "rank_offers",
    "DEFAULT_IMAGE": "Image",
    "DistributedSampler": "shard_indices",
    "Worker": "PoolOptions::concurrency",
}
# Names that exist in Python alone, and why.
ONLY_PYTHON = {
    "__version__": "the version of the package",
    "emit": "C++ callbacks receive the pool's events only",
    "compose": "call the other functions from yours",
    "use_callback": "a C++ pool has one callback, set when it opens",
    "shard_iterator": "loop over `my_shard_indices`",
    "stdout": "redirect the stream in the function",
    "stderr": "redirect the stream in the function",
    "silent": "redirect the streams in the function",
    "ProviderName": "C++ events carry the name as text",
    "ComputeSpec": "providers get a `PoolSpec`",
    "ExitedInstance": "see `InstanceStopping` and `PoolStopped`",
    "PythonVersionMismatchError": "only Python has byte code",
    "ConfigurationTypeError": "the compiler rejects wrong types",
    "conc": "call `submit` and wait for the futures",
    "checkpoint_dir": "of a Python framework's restarts",
    "dask": "starts an engine that is a Python package",
    "integrations": "connects Python libraries",
    "mpi": "`broadcast` a call of a function of `distributed::mpi`",
    "ray": "starts an engine that is a Python package",
    "pool": "a decorator; open a pool in a scope",
}


def python_names() -> dict[str, str]:
    """Each public name and the module that defines it, as the package itself lists them."""
    text = (PACKAGE / "__init__.py").read_text()
    listed = re.findall(r"^    from skyward(?:\.([\w.]+))? import (\w+) as \2$", text, re.MULTILINE)
    return {name: module or name for module, name in listed} | {"__version__": "skyward"}


def cpp_text() -> str:
    parts = [file.read_text() for folder in HEADERS for file in sorted(folder.glob("*.h"))]
    return "\n".join(parts)


def cpp_name(name: str, text: str) -> str | None:
    """The C++ name, without its namespace; None when there is none."""
    if name in TWINS:
        return TWINS[name]
    patterns = (rf"\b(?:struct|class|using) {name}\b", rf"\b{name}\(")
    return name if any(re.search(pattern, text) for pattern in patterns) else None


def rows() -> list[tuple[str, str, str]]:
    """Python name, C++ name or "", remark."""
    text = cpp_text()
    found = []
    for name, module in sorted(python_names().items(), key=lambda item: item[0].lower()):
        twin = None if name in ONLY_PYTHON else cpp_name(name, text)
        if twin is None and name not in ONLY_PYTHON:
            raise SystemExit(
                f"tools/parity.py: {name} (skyward.{module}) has no twin in the C++ headers;"
                " name it in TWINS, or say in ONLY_PYTHON why there is none"
            )
        found.append((name, twin or "", ONLY_PYTHON.get(name, "")))
    return found


def page() -> str:
    lines = [
        "# Names in Python and in C++",
        "",
        "Every public name of the Python package, and its C++ twin (namespace `skyward`, short"
        " `sky`).",
        "`tools/parity.py` generates this page; a test compiles the C++ column.",
        "",
        "| Python | C++ | Why there is none, or what to use instead |",
        "|---|---|---|",
    ]
    for name, twin, remark in rows():
        shown = f"`sky::{twin}`" if twin else "—"
        lines.append(f"| `sky.{name}` | {shown} | {remark} |")
    return "\n".join(lines) + "\n"


def probe() -> str:
    """A C++ program that names the whole column, for the compiler to look at."""
    lines = ['#include "skyward/skyward.h"', '#include "skyward/testing.h"']
    for number, twin in enumerate(sorted({twin for _, twin, _ in rows() if twin})):
        if "::" in twin:
            lines.append(f"constexpr auto member{number} = &skyward::{twin};")
        elif twin in ("accelerators", "distributed", "testing"):
            lines.append(f"namespace space{number} = skyward::{twin};")
        else:
            lines.append(f"using skyward::{twin};")
    return "\n".join(lines) + "\n"


def main() -> int:
    if "--probe" in sys.argv[1:]:
        print(probe(), end="")
        return 0
    text = page()
    if PAGE.exists() and PAGE.read_text() == text:
        return 0
    if "--check" in sys.argv[1:]:
        print("docs/names.md is stale; run tools/parity.py")
        return 1
    PAGE.write_text(text)
    print("docs/names.md written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
