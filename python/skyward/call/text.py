"""How messages and events name functions and calls."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol

SHOWN_ARGUMENTS = 6
"""Of a call, in messages."""


class Recorded(Protocol):
    """A recorded call."""

    @property
    def name(self) -> str: ...
    @property
    def args(self) -> tuple[Any, ...]: ...
    @property
    def kwargs(self) -> dict[str, Any]: ...


def name_of(fn: Any) -> str:
    """The name that messages and events use for a callable."""
    name = getattr(fn, "__name__", None)
    if name is None and isinstance(fn, partial):
        name = name_of(fn.func)
    return name or type(fn).__name__


def call_text(call: Recorded) -> str:
    """The call as written, with long arguments shortened: "train(3, data=<ndarray>)"."""
    arguments = [*map(short, call.args), *(f"{k}={short(v)}" for k, v in call.kwargs.items())]
    if len(arguments) > SHOWN_ARGUMENTS:
        arguments[SHOWN_ARGUMENTS:] = ["…"]
    return f"{call.name}({', '.join(arguments)})"


def note_position(
    error: BaseException, items: Sequence[Recorded], position: int, more: int = 0
) -> None:
    """Notes which of several calls failed, and how many others did."""
    if len(items) > 1:
        others = f"; {more} more failed" if more else ""
        error.add_note(f"call {position + 1} of {len(items)}: {call_text(items[position])}{others}")


def short(value: Any) -> str:
    """repr(), unless that is long or slow."""
    if isinstance(value, (float, bool, type(None))):
        return repr(value)
    if isinstance(value, int) and -(10**20) < value < 10**20:
        return repr(value)
    if isinstance(value, str):
        return repr(value if len(value) <= 40 else value[:39] + "…")
    return f"<{type(value).__name__}>"
