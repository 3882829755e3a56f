"""Turns the answer of a failed task into the exception that the caller sees."""

import contextlib
import linecache
import os
import pickle
import re
import sys
from collections.abc import Iterable
from types import MemberDescriptorType
from typing import Any

from skyward.exceptions import (
    BudgetExceededError,
    CancelledError,
    ConfigurationError,
    ConnectionLostError,
    ExecutionError,
    InstanceTerminatedError,
    PreemptionError,
    RemoteTraceback,
    SerializationError,
    SkywardError,
    TimeoutError,
)

SHOWN_LINES = 5
"""Of the task's last output, in the traceback; ExecutionError.output has all that are known."""
SHOWN_CRASH_LINES = 12
"""The same when the interpreter itself crashed."""
SHOWN_BEFORE_CRASH = 2
"""Of these, the lines before it said so: there a library may have said why."""

FAILED_AFTER_ATTRIBUTE = "_skyward_failed_after"
"""Of what a distributed function raised: when, in seconds since all workers were connected."""

UNDELIVERED_ATTRIBUTE = "_skyward_undelivered"
"""True on the error of a function that has ended, and whose result was lost."""

_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: made by a class statement
_FAILED = {
    "timeout": TimeoutError,
    "cancelled": CancelledError,
    "invalid": ConfigurationError,
    "over_budget": BudgetExceededError,
}


def raised(report: dict[str, Any], task: int, outcome: Any) -> BaseException:
    """For a function that raised: `report` is what the worker says of the exception."""
    if report.get("of_result"):  # the function has ended, and its result does not pickle
        error: BaseException = SerializationError(report.get("message", ""))
        setattr(error, UNDELIVERED_ATTRIBUTE, True)
    else:
        error = _rebuilt(report)
    text = with_sources(report.get("traceback") or "")
    _mark(error, task, outcome, text, _own_names(error))
    if (after := report.get("failed_after")) is not None:
        with contextlib.suppress(Exception):  # its class is read-only
            setattr(error, FAILED_AFTER_ATTRIBUTE, after)
    for note in report.get("notes") or ():
        if note not in getattr(error, "__notes__", ()):
            error.add_note(note)
    _add_notes(error, outcome)
    if isinstance(error, ModuleNotFoundError) and error.name:
        if hint := _hint_of_module(error.name):
            error.add_note(f"hint: {hint}")
    if isinstance(error, FileNotFoundError):
        _note_file_left_here(error)
    if text:
        error.__cause__ = RemoteTraceback(text)
    return error


def with_sources(text: str) -> str:
    """The traceback with the lines that the node could not show: of a notebook's cells, of the
    program itself, and of files that are here and not there."""
    lines = text.splitlines()
    shown = []
    for position, line in enumerate(lines):
        shown.append(line)
        found = _FRAME.match(line)
        following = lines[position + 1] if position + 1 < len(lines) else ""
        if found is None or following.startswith(found[1] + "  "):
            continue
        linecache.checkcache(found[2])  # the file may have been edited
        # A node may name any path: what is no file could block, or never end.
        if found[2] not in linecache.cache and not os.path.isfile(found[2]):
            continue
        if source := linecache.getline(found[2], int(found[3])).strip():
            shown.append(f"{found[1]}  {source}")
    return "\n".join(shown) + ("\n" if text.endswith("\n") else "")


_FRAME = re.compile(r'^(\s*(?:\| )?\s*)File "(.+)", line (\d+)(?:, in |$)')


def _hint_of_module(missing: str) -> str:
    """What to do about a module that a node lacks. If that is a part of a package, the node has the
    package."""
    from skyward.transport.shipping import archive_of, is_own, lacks

    module, _, part = missing.partition(".")
    if part and lacks(missing):
        return ""
    if archive := archive_of(module):
        return (
            f"your module {module!r} is in the archive {archive}, and nodes get no modules of"
            " archives: unpack it, and run the program from that folder"
        )
    if is_own(module) and part:
        return (
            f"the nodes have your module {module!r} without {missing!r}, which was left out"
            " (Image(excludes=[…])) or written after the pool opened: open the pool again with it"
        )
    if is_own(module):
        return (
            f"the nodes do not have your module {module!r}: import it at the top of your program,"
            f" or add it with Image(includes=[{module!r}])"
        )
    from importlib import metadata  # what it does takes longer than all the rest

    packages = metadata.packages_distributions().get(module, [])
    if not part:
        package = next(iter(packages), module)
        return f"the nodes' environment has no {module!r}; Image(pip=[{package!r}]) adds it"
    if not packages:
        return ""
    package = f"{packages[0]}=={metadata.version(packages[0])}"
    return (
        f"the nodes have another version of {module!r}; Image(pip=[{package!r}]) installs that of"
        " this program"
    )


def _note_file_left_here(error: FileNotFoundError) -> None:
    path = error.filename
    if not isinstance(path, str) or not os.path.exists(path):
        return
    if os.path.isabs(path):
        error.add_note(
            f"hint: {path!r} exists on this machine, and the node had no such file: pass its"
            " content, or mount a volume (importlib.resources.files() finds the files of a"
            " package of yours where the node has them)"
        )
    else:
        error.add_note(
            f"hint: {path!r} exists on this machine, but tasks run in another folder: pass the"
            " file's content, or mount a volume (a file of Image(includes=[…]) is in a folder of"
            " sys.path)"
        )


def failed(task: int, outcome: Any) -> BaseException:
    """For a task without an answer: its worker died, it ran too long, it was cancelled, its result
    was lost."""
    text, hint = outcome.error_message, outcome.error_hint
    if hint:
        text = f"{text}. {hint[0].upper()}{hint[1:]}"
    error: SkywardError
    if outcome.error_kind == "lost" and outcome.preempted:
        error = PreemptionError(outcome.instance_id, text, outcome.attempts)
    elif outcome.error_kind == "lost":
        error = InstanceTerminatedError(outcome.instance_id, text)
    elif outcome.error_kind == "unreachable":
        error = ConnectionLostError(outcome.instance_id, text)
    elif outcome.error_kind == "task":
        error = _worker_died()(text)
    elif outcome.error_kind == "undelivered":
        error = ExecutionError(text)
        setattr(error, UNDELIVERED_ATTRIBUTE, True)
    else:
        error = _FAILED.get(outcome.error_kind, ExecutionError)(text)
    _mark(error, task, outcome, "")
    _add_notes(error, outcome, placed=f"(node {outcome.node}, worker {outcome.worker}" in text)
    return error


def _worker_died() -> type[ExecutionError]:
    """For programs that catch what ProcessPoolExecutor raises: that is loaded where they do."""
    global _died
    module = sys.modules.get("concurrent.futures.process")
    if _died is None and module is not None:
        body = {"__module__": ExecutionError.__module__, "__doc__": ExecutionError.__doc__}
        _died = type(ExecutionError.__name__, (_both(module.BrokenProcessPool),), body)
    return _died or ExecutionError


_died: type[ExecutionError] | None = None


_FACTS = ("node", "worker", "instance_id", "task", "remote_traceback", "output")
_MARKED = "_skyward_marked"  # the facts that were written here, not by the exception's own class


def _own_names(error: BaseException) -> list[str]:
    """The facts whose names the exception uses itself: those are left to it."""
    marked = error.__dict__.get(_MARKED, ())
    classes = [base for base in type(error).__mro__ if base is not ExecutionError]
    return [
        name
        for name in _FACTS
        if (name in error.__dict__ and name not in marked)
        or any(name in vars(base) for base in classes)
    ]


def _mark(
    error: BaseException, task: int, outcome: Any, text: str, own: Iterable[str] = ()
) -> None:
    place = (outcome.node, outcome.worker, outcome.instance_id)
    facts = dict(zip(_FACTS, (*place, task, text, tuple(outcome.tail)), strict=True))
    for name in own:
        del facts[name]
    error.__dict__.update(facts)
    error.__dict__[_MARKED] = tuple(facts)


def _add_notes(error: BaseException, outcome: Any, placed: bool = False) -> None:
    """`placed`: the text says already where it was."""
    if outcome.node >= 0 and not placed:
        machine = f" ({outcome.instance_id})" if outcome.instance_id else ""
        worker = f", worker {outcome.worker}" if outcome.worker >= 0 else ""
        error.add_note(f"raised on node {outcome.node}{worker}{machine}")
    if outcome.tail:
        lines = "\n".join(f"  | {line}" for line in _last_words(list(outcome.tail)))
        error.add_note(f"last output of the task:\n{lines}")


def _last_words(lines: list[str]) -> list[str]:
    """The last lines; of an interpreter that crashed, those that say what it was and where in the
    function, which come first."""
    crash = [at for at, line in enumerate(lines) if line.startswith("Fatal Python error")]
    if not crash:
        return lines[-SHOWN_LINES:]
    ours = ("/skyward/worker/", "Extension modules:")
    first = max(0, crash[-1] - SHOWN_BEFORE_CRASH)  # where a library has said why
    shown = [line for line in lines[first:] if line and not any(part in line for part in ours)]
    return shown[:SHOWN_CRASH_LINES]


def _rebuilt(report: dict[str, Any]) -> BaseException:
    name, message = report.get("type") or "Exception", report.get("message") or ""
    original = _load(report.get("exception"))
    parts = _load(report.get("parts"))  # of one whose pickle does not load
    error = None
    if isinstance(original, BaseException):
        error = _combined(type(original), original.args, original)
    elif isinstance(parts, tuple):
        cls, args, fields = parts
        error = _combined(cls, args, None, fields)
    if error is None and name == "SystemExit":
        return ExecutionError(f"the task called sys.exit({message})")
    if error is None and (found := _find(report.get("module") or "", name)) is not None:
        error = _combined(found, (message,), None)  # the class is known, its fields are lost
    if error is None:
        return ExecutionError(f"{name}: {message}" if message else name)
    _keep_text(error, message)
    return error


def _keep_text(error: BaseException, message: str) -> None:
    """What its class prints, or the node's text if the class needs a field that is missing."""
    try:
        type(error).__str__(error)
    except Exception:
        error.__dict__["_skyward_text"] = message


def _load(data: bytes | None) -> Any:
    try:
        return None if data is None else pickle.loads(data)
    except KeyboardInterrupt:
        raise
    except BaseException:  # also one whose making calls sys.exit()
        return None


def _find(module: str, name: str) -> type[BaseException] | None:
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found if isinstance(found, type) and issubclass(found, BaseException) else None


def _combined(
    cls: type[BaseException],
    args: tuple[Any, ...],
    original: BaseException | None,
    fields: dict[str, Any] | None = None,
) -> BaseException | None:
    """An exception that is both an ExecutionError and a `cls`; None when there is no such thing.

    SystemExit, KeyboardInterrupt and GeneratorExit would end the caller's program, StopIteration
    its loop: they become plain ExecutionErrors."""
    if not issubclass(cls, Exception) or issubclass(cls, (StopIteration, StopAsyncIteration)):
        return None
    try:
        error = _instance(_both(cls), args, original)
    except Exception:
        return None
    _take_fields(error, fields or {})
    return error


CLASSES_KEPT = 1000
"""A class that a function defines is another one in each error of it."""
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
            "__str__": _text,
            # Place, notes and cause are assigned to it, which a frozen class would refuse.
            "__setattr__": BaseException.__setattr__,
            "__delattr__": BaseException.__delattr__,
        }
        if hasattr(cls, "__getattr__"):
            body["__getattr__"] = _attribute
        for base in reversed(cls.__mro__):  # ExecutionError's fields do not stand before its own
            body.update((name, vars(base)[name]) for name in _FACTS if name in vars(base))
        bases: tuple[type, ...] = (ExecutionError, cls)
        if cls in (Exception, SkywardError):
            bases = (ExecutionError,)
        elif issubclass(cls, MemoryError):  # it insists on making its instances itself
            bases = (cls, ExecutionError)
        known = type(cls.__name__, bases, {**body, "_original_class": cls, "__doc__": cls.__doc__})
        _classes[cls] = known
        for oldest in list(_classes)[:-CLASSES_KEPT]:
            _classes.pop(oldest, None)
    return known


def _instance(
    cls: type[ExecutionError], args: tuple[Any, ...], original: BaseException | None
) -> BaseException:
    """Makes the object without the class's own __init__, whose arguments are unknown, but with that
    of the builtin class below it, which fills the fields that are not in __dict__."""
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
        _take_fields(error, {**_members(original), **original.__dict__})
    return error


def _members(error: BaseException) -> dict[str, Any]:
    """What is kept beside ``__dict__``: slots, and fields of builtin classes such as OSError."""
    found: dict[str, Any] = {}
    for base in type(error).__mro__:
        for name, member in vars(base).items():
            if isinstance(member, MemberDescriptorType) and not name.startswith("__"):
                found.setdefault(name, getattr(error, name, None))
    return found


def _take_fields(error: BaseException, fields: dict[str, Any]) -> None:
    for name, value in fields.items():
        kept = getattr(type(error), name, None)
        if not isinstance(kept, MemberDescriptorType):
            error.__dict__[name] = value
        elif value is not None:
            try:
                kept.__set__(error, value)
            except (AttributeError, TypeError):  # a field that only its class writes
                continue


def _text(self: Any) -> str:
    try:
        text: str = self._original_class.__str__(self)
    except Exception:
        if "_skyward_text" not in self.__dict__:
            raise
        return str(self.__dict__["_skyward_text"])
    return text


def _attribute(self: Any, name: str) -> Any:
    """A ``__getattr__`` may rely on fields that were not sent."""
    try:
        return self._original_class.__getattr__(self, name)
    except AttributeError:
        raise
    except Exception as error:
        raise AttributeError(f"{type(self).__name__!r} has no {name!r}: {error!r}") from None


def _reduce(self: BaseException, protocol: int) -> Any:
    """Made classes have no importable name: pickles refer to the class they were made from."""
    original: Any = type(self)
    fields = {**_members(self), **self.__dict__}
    return _restore, (original._original_class, self.args, fields)


def _restore(
    cls: type[BaseException], args: tuple[Any, ...], fields: dict[str, Any]
) -> BaseException:
    error = _combined(cls, args, None, fields)
    if error is None:
        error = ExecutionError(*args)
        error.__dict__.update(fields)
    return error
