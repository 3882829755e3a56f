"""Which framework a list of packages is about."""

import re
from collections.abc import Iterable, Mapping

_PRIORITY = ("keras", "transformers", "torch", "jax", "tensorflow")
_KERAS_BACKENDS = ("jax", "torch", "tensorflow")


def detect_framework(
    pip: Iterable[str], env: Mapping[str, str] | None = None
) -> tuple[str | None, str | None]:
    """(framework, Keras backend) of an image's packages and environment; None for what is
    missing.

    Keras wins over transformers, torch, jax and tensorflow, in this order. The Keras backend is
    KERAS_BACKEND, or else the first of jax, torch and tensorflow among the packages."""
    names = {_plain(package) for package in pip}
    framework = next((name for name in _PRIORITY if name in names), None)
    if framework != "keras":
        return framework, None
    chosen = (env or {}).get("KERAS_BACKEND")
    return "keras", chosen or next((name for name in _KERAS_BACKENDS if name in names), None)


def _plain(package: str) -> str:
    """The name alone: lower case, without extras, version, marker or URL."""
    return re.split(r"[\s\[<>=!~;@(]", package.strip().lower(), maxsplit=1)[0].replace("_", "-")
