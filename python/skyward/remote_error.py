"""Turns the answer of a failed task into the exception that the caller sees."""

import os
import pickle
import sys
from typing import Any

from skyward.exceptions import (
    BudgetExceededError,
    CancelledError,
    ConfigurationError,
    ConnectionLostError,
    ExecutionError,
    InstanceTerminatedError,
    RemoteTraceback,
    SerializationError,
    SkywardError,
    TimeoutError,
)

SHOWN_LINES = 5
"""Of the task's last output, in the traceback; ExecutionError.output has all that are known."""
SHOWN_CRASH_LINES = 12
"""The same when the interpreter itself crashed."""

_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: made by a class statement
_FAILED = {
    "timeout": TimeoutError,
    "cancelled": CancelledError,
    "invalid": ConfigurationError,
    "over_budget": BudgetExceededError,
}


def raised(report: dict[str, Any], task: int, outcome: Any) -> BaseException:
    """For a function that raised: `report` is what the worker says of the exception."""
    if report.get("type") == "SerializationError" and report.get("module", "").startswith(
        "skyward"
    ):
        error: BaseException = SerializationError(report.get("message", ""))
    else:
        error = _rebuilt(report)
    text = report.get("traceback") or ""
    _mark(error, task, outcome, text)
    for note in report.get("notes") or ():
        if note not in getattr(error, "__notes__", ()):
            error.add_note(note)
    _add_notes(error, outcome)
    if isinstance(error, ModuleNotFoundError) and error.name:
        package = error.name.partition(".")[0]
        error.add_note(
            f"hint: the nodes' environment has no {package!r}; Image(pip=[…]) installs the package "
            "that contains it"
        )
    if isinstance(error, FileNotFoundError):
        _note_file_left_here(error)
    if text:
        error.__cause__ = RemoteTraceback(text)
    return error


def _note_file_left_here(error: FileNotFoundError) -> None:
    path = error.filename
    if isinstance(path, str) and not os.path.isabs(path) and os.path.exists(path):
        error.add_note(
            f"hint: {path!r} is a file of this machine, in the folder where this program runs; a"
            " task runs elsewhere: pass what the file holds, or mount a volume"
        )


def failed(task: int, outcome: Any) -> BaseException:
    """For a task without an answer: its worker died, it ran too long, it was cancelled."""
    text, hint = outcome.error_message, outcome.error_hint
    if hint:
        text = f"{text}. {hint[0].upper()}{hint[1:]}"
    error: SkywardError
    if outcome.error_kind == "lost":
        error = InstanceTerminatedError(outcome.instance_id, text)
    elif outcome.error_kind == "unreachable":
        error = ConnectionLostError(outcome.instance_id, text)
    else:
        error = _FAILED.get(outcome.error_kind, ExecutionError)(text)
    _mark(error, task, outcome, "")
    _add_notes(error, outcome, placed=f"(node {outcome.node}, worker {outcome.worker}" in text)
    return error


def _mark(error: BaseException, task: int, outcome: Any, text: str) -> None:
    facts = {
        "node": outcome.node,
        "worker": outcome.worker,
        "instance_id": outcome.instance_id,
        "task": task,
        "remote_traceback": text,
        "output": tuple(outcome.tail),
    }
    for name, value in facts.items():
        try:
            setattr(error, name, value)
        except (AttributeError, TypeError):  # a class with a read-only attribute of this name
            continue


def _add_notes(error: BaseException, outcome: Any, placed: bool = False) -> None:
    """`placed`: the text says already where it was."""
    if outcome.node >= 0 and not placed:
        machine = f" ({outcome.instance_id})" if outcome.instance_id else ""
        error.add_note(f"raised on node {outcome.node}, worker {outcome.worker}{machine}")
    if outcome.tail:
        lines = "\n".join(f"  | {line}" for line in _last_words(list(outcome.tail)))
        error.add_note(f"last output of the task:\n{lines}")


def _last_words(lines: list[str]) -> list[str]:
    """The last lines; of an interpreter that crashed, those that say what it was and where in the
    function, which come first."""
    crash = [at for at, line in enumerate(lines) if line.startswith("Fatal Python error")]
    if not crash:
        return lines[-SHOWN_LINES:]
    ours = ('/_worker.py", line ', "Extension modules:")
    shown = [line for line in lines[crash[-1] :] if line and not any(part in line for part in ours)]
    return shown[:SHOWN_CRASH_LINES]


def _rebuilt(report: dict[str, Any]) -> BaseException:
    original = _load(report.get("exception"))
    if original is not None:
        error = _combined(type(original), original.args, original)
        if error is not None:
            return error
    name, message = report.get("type") or "Exception", report.get("message") or ""
    if name == "SystemExit":
        return ExecutionError(f"the task called sys.exit({message})")
    cls = _find(report.get("module") or "", name)
    if cls is not None:  # its pickle could not be read, but the class is known: its fields are lost
        error = _combined(cls, (message,), None)
        if error is not None:
            return error
    return ExecutionError(f"{name}: {message}" if message else name)


def _load(data: bytes | None) -> BaseException | None:
    if data is None:
        return None
    try:
        error = pickle.loads(data)
    except Exception:
        return None
    return error if isinstance(error, BaseException) else None


def _find(module: str, name: str) -> type[BaseException] | None:
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found if isinstance(found, type) and issubclass(found, BaseException) else None


def _combined(
    cls: type[BaseException], args: tuple[Any, ...], original: BaseException | None
) -> BaseException | None:
    """An exception that is both an ExecutionError and a `cls`; None when there is no such thing.

    SystemExit, KeyboardInterrupt and GeneratorExit would end the caller's program, StopIteration
    its loop: they become plain ExecutionErrors."""
    if not issubclass(cls, Exception) or issubclass(cls, (StopIteration, StopAsyncIteration)):
        return None
    try:
        error = _instance(_both(cls), args, original)
        str(error)
    except Exception:
        return None
    return error


_classes: dict[type, type[ExecutionError]] = {}


def _both(cls: type[BaseException]) -> type[ExecutionError]:
    if issubclass(cls, ExecutionError):
        return cls
    known = _classes.get(cls)
    if known is None:
        body = {
            "__module__": cls.__module__,
            "__qualname__": cls.__qualname__,
            "__reduce_ex__": _reduce,
        }
        bases: tuple[type, ...] = (ExecutionError, cls)
        if cls in (Exception, SkywardError):
            bases = (ExecutionError,)
        elif issubclass(cls, MemoryError):  # it insists on making its instances itself
            bases = (cls, ExecutionError)
        known = type(cls.__name__, bases, {**body, "_original_class": cls, "__doc__": cls.__doc__})
        _classes[cls] = known
    return known


def _instance(
    cls: type[ExecutionError], args: tuple[Any, ...], original: BaseException | None
) -> BaseException:
    """Makes the object without the class's own __init__, whose arguments nobody knows, but with
    that of the builtin class below it, which fills the fields that are not in __dict__."""
    if original is not None:
        reduced = original.__reduce__()
        if isinstance(reduced, tuple) and reduced[0] is type(original):
            args = reduced[1]  # OSError leaves its file name out of .args
    error = cls.__new__(cls, *args)
    builtin = next(base for base in cls.__mro__ if not base.__flags__ & _HEAP_TYPE)
    try:
        builtin.__init__(error, *args)  # type: ignore[misc]
    except TypeError:
        pass
    if original is not None:
        error.args = original.args
        error.__dict__.update(original.__dict__)
        for name in (
            "name",
            "path",
            "obj",
            "name_from",
        ):  # ImportError, NameError, AttributeError keep these apart
            if name not in error.__dict__ and hasattr(original, name):
                try:
                    setattr(error, name, getattr(original, name))
                except (AttributeError, TypeError):
                    continue
    return error


def _reduce(self: BaseException, protocol: int) -> Any:
    """Made classes have no importable name: pickles refer to the class they were made from."""
    original: Any = type(self)
    return _restore, (original._original_class, self.args, dict(self.__dict__))


def _restore(
    cls: type[BaseException], args: tuple[Any, ...], state: dict[str, Any]
) -> BaseException:
    error = _combined(cls, args, None) or ExecutionError(*args)
    error.__dict__.update(state)
    return error
