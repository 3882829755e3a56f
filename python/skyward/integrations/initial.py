"""What each worker process does once, before the first of some calls."""

from collections.abc import Callable
from typing import Any, NamedTuple


class Initial(NamedTuple):
    """Travels with each of the calls."""

    key: str
    function: Callable[..., Any]
    args: tuple[Any, ...]

    def run_once(self) -> None:
        """In this process; again when it has raised."""
        if self.key not in _done:
            self.function(*self.args)
            _done.add(self.key)


_done: set[str] = set()


def run_after(
    initial: Initial, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    initial.run_once()
    return fn(*args, **kwargs)
