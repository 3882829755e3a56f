"""Calls on their way to the engine: pickled, each with its function."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import cloudpickle  # noqa: F401  # else the first call that needs it would import it

from skyward import _core
from skyward.call.by_value import PROGRAMS, plain_dumps, registered_by_value
from skyward.call.function import is_generator
from skyward.call.pending import PendingCompute
from skyward.call.starts import STARTS_ATTRIBUTE
from skyward.call.text import note_position
from skyward.exceptions import ConfigurationError, NotProvisionedError, SerializationError
from skyward.pool.machines import Teller
from skyward.transport import functions, serialize
from skyward.transport.forks import renewed
from skyward.transport.module_watch import ModuleWatch, newer_version, outdated
from skyward.transport.read_only_arrays import ReadOnlyArrays
from skyward.transport.references import heaviest
from skyward.transport.shared_arguments import SharedArguments

STREAM_WINDOW = 16
"""Items that a generator may be ahead of its reader."""
FUNCTIONS_KEPT, FUNCTION_BYTES_KEPT = 256, 64 << 20
"""Functions that nodes need not receive again; the newest is kept whatever its size."""
HEAVY_BYTES = 8 << 20
HEAVY_SECONDS = 1.0
"""A function deserves a warning if each call carries this much of its data, or if serializing it
has taken this long in total."""
BY_VALUE_CALLS = 500
"""So many arguments of one class of the program deserve a warning, too: each brings the definition
of its class along, which takes most of a millisecond."""
CHECK_SECONDS = 0.02
CHECK_REST = 50.0
"""How often calls check for edits of the program's modules: less than it takes to edit and reload
one, but in a large program only after so many times as long as the last check took. Sending a new
function object always checks."""
EDITS_NAMED = 5
"""More files that changed at once, as after a `git pull`, are reported together."""


class Packing:
    """Prepares the calls of one open pool. Any thread may send."""

    def __init__(self, core: Any, tell: Teller, workers: int, timeout: float | None) -> None:
        """`timeout`: for calls without one."""
        self._core = core
        self._tell = tell
        self._workers = workers
        self.timeout = timeout
        self._functions: dict[bytes, Any] = {}  # the core's function of each body
        self._functions_lock = renewed(threading.RLock())
        self._modules = ModuleWatch()
        self.read_only = ReadOnlyArrays(core)
        self._heavy: set[str] = set()  # names of functions
        self._newer: set[Any] = set()  # versions of functions that a reload has made
        self._spent: dict[str, float] = {}  # seconds that functions have taken, by name
        self._by_value: dict[str, int] = {}  # arguments of the program's own classes, by name
        self._next_check = 0.0
        self._checking = renewed(threading.Lock())

    def calls(
        self,
        items: Sequence[PendingCompute[Any]],
        everywhere: bool = False,
        shared: SharedArguments | None = None,
        known: dict[int, tuple[Any, int]] | None = None,
    ) -> list[Any]:
        """`known`: keeps functions as they are now, for the calls of the same functions that follow
        with it; the caller keeps these."""
        calls: list[Any] = []
        for part in self.parts(items, len(items), everywhere, shared, known=known):
            calls += part
        return calls

    def send(
        self,
        items: Sequence[PendingCompute[Any]],
        size: int,
        sent: Any,
        begin: int = 0,
        end: int | None = None,
        unsent: dict[int, Exception] | None = None,
    ) -> None:
        """Sends the calls from `begin` to `end`, `size` at a time: the first ones run while the
        others are pickled. `sent`: a Sent of the core, which has what was sent if this raises.
        `unsent` as in parts()."""
        for _ in self.parts(items, size, sent=sent, begin=begin, end=end, unsent=unsent):
            pass

    def parts(
        self,
        items: Sequence[PendingCompute[Any]],
        size: int,
        everywhere: bool = False,
        shared: SharedArguments | None = None,
        sent: Any = None,
        begin: int = 0,
        end: int | None = None,
        known: dict[int, tuple[Any, int]] | None = None,
        unsent: dict[int, Exception] | None = None,
    ) -> Iterator[list[Any]]:
        """The calls, at most `size` at a time; they share what they have in common all the same.
        With `sent` they are sent, and none are returned. `unsent` gets the errors of calls that
        cannot be sent, by position, and they are left out; without it, the first one is raised."""
        packer = self._core.packer()
        distinct: dict[int, tuple[Any, int]] = {} if known is None else known
        function_of = partial(self._function_in, distinct, everywhere, known is None)

        def pack(item: PendingCompute[Any], position: int, dumps: Any) -> Any:
            function, window = function_of(item)
            args = item.args if shared is None else shared.arguments(item.args)
            try:
                stream, buffers = dumps(item.fn, item.name, args, item.kwargs)
            except SerializationError as error:
                if unsent is None:
                    note_position(error, items, position)
                raise
            self._note_classes(item)
            if shared is not None:
                buffers = shared.buffers(self._core, buffers)
            else:
                buffers = list(map(reference, buffers))
            return _core.Call(function, packer.pack(stream, buffers), self.limit_of(item), window)

        plain = shared is None and not registered_by_value()
        reference = self.read_only.for_calls()
        beside, buffers = serialize.collector(reference)

        def pack_some(some: Sequence[PendingCompute[Any]], first: int) -> list[Any]:
            if plain:
                how = (
                    some,
                    function_of,
                    plain_dumps,
                    beside,
                    buffers,
                    lambda item, at: pack(item, first + at, serialize.dumps_beyond_plain),
                    self.timeout,
                )
                return packer.calls(*how) if sent is None else sent.send(packer, *how) or []
            calls = [
                pack(item, position, serialize.dumps_arguments)
                for position, item in enumerate(some, first)
            ]
            if sent is None:
                return calls
            for item, call in zip(some, calls, strict=True):
                sent.add(packer, call, bool(item.retries or call.is_stream))
            return []

        end = len(items) if end is None else end
        if sent is not None and unsent is not None and not plain:
            size = 1  # else some of them may have been sent when one fails
        for first in range(begin, end, max(1, size)):
            some = items[first : min(first + size, end)]
            if unsent is None:
                yield pack_some(some, first)
            else:
                yield _packed_past(some, first, pack_some, function_of, unsent)

    def _function_in(
        self,
        distinct: dict[int, tuple[Any, int]],
        everywhere: bool,
        again: bool,
        item: PendingCompute[Any],
    ) -> tuple[Any, int]:
        """The function of the call, and its stream's window: each function once per batch."""
        function = distinct.get(id(item.fn))
        if function is None:
            if not everywhere:
                self._refuse_alone(item)
            window = STREAM_WINDOW if is_generator(item.fn) else 0
            body = self.function(item, again=again)
            function = distinct[id(item.fn)] = (body, window)
        return function

    def _refuse_alone(self, item: PendingCompute[Any]) -> None:
        """Refuses a distributed function if there are other workers: it would wait for them until
        it times out. Refuses one with `max_restarts` in any case: only a broadcast restarts it."""
        framework = getattr(item.fn, "__skyward_distributed__", None)
        if framework is None:
            return
        if self._workers > 1:
            raise ConfigurationError(
                f"{item.name} is distributed ({framework}): it runs on all {self._workers} workers"
                f" at the same time, and waits until they meet; write {item.name}(…) @ pool"
            )
        if getattr(item.fn, STARTS_ATTRIBUTE, None) is not None:
            raise ConfigurationError(
                f"{item.name} has max_restarts=: only a broadcast can restart it, even on a single"
                f" worker; write {item.name}(…) @ pool"
            )

    def limit_of(self, item: PendingCompute[Any]) -> float | None:
        """Run time allowed to the call, in seconds; None: no limit."""
        return self.timeout if item.timeout is None else item.timeout

    def call_by_value(
        self,
        item: PendingCompute[Any],
        function: Any,
        reference: Callable[[memoryview], Any],
    ) -> Any:
        """A call of plain_function() with arguments that the core's plain pickle does not take.
        `reference`: of ReadOnlyArrays."""
        stream, buffers = serialize.dumps_beyond_plain(item.fn, item.name, item.args, item.kwargs)
        self._note_classes(item)
        buffers = list(map(reference, buffers))
        payload = self._core.packer().pack(stream, buffers)
        return _core.Call(function, payload, self.limit_of(item))

    def plain_function(self, item: PendingCompute[Any]) -> Any:
        """The core's function of the call; None if plain pickle must not take its arguments, or its
        answer is a stream."""
        if registered_by_value() or is_generator(item.fn):
            return None
        self._refuse_alone(item)
        return self.function(item)

    def function(self, item: PendingCompute[Any], again: bool = True) -> Any:
        """The core's function of the call. `again`: the next call of it asks, too; otherwise the
        caller keeps the answer."""
        was_kept = functions.is_kept(item.fn)
        if not was_kept or time.monotonic() >= self._next_check:
            self.report_edits()
            self._report_reload(item)
        if not was_kept:
            self._modules.watch(item.fn)
        begin = 0.0 if was_kept else time.monotonic()
        body = functions.dumps_function(item.fn, item.name)
        if again and not was_kept and not functions.is_kept(item.fn):
            self._weigh(item, len(body), time.monotonic() - begin)
        if (known := self._functions.get(body)) is not None:
            return known
        function = _core.make_function(body, item.name)
        with self._functions_lock:
            kept = self._functions
            kept[body] = function
            size = 2 * sum(map(len, kept))  # here, and in the core
            for oldest in list(kept)[:-1]:
                if len(kept) <= FUNCTIONS_KEPT and size <= FUNCTION_BYTES_KEPT:
                    break
                kept.pop(oldest, None)
                size -= 2 * len(oldest)
        return function

    def _weigh(self, item: PendingCompute[Any], size: int, seconds: float) -> None:
        """Reports once for each name what takes long: such a function is pickled for every call,
        since what it refers to may change."""
        spent = self._spent[item.name] = self._spent.get(item.name, 0.0) + seconds
        if (size < HEAVY_BYTES and spent < HEAVY_SECONDS) or item.name in self._heavy:
            return
        self._heavy.add(item.name)
        data = f"{size >> 20} MiB" if size >= 1 << 20 else f"{max(1, size >> 10)} KiB"
        self._tell(
            f"{item.name}() carries {data} of data, in what it refers to"
            f"{heaviest(item.fn)}, which is serialized again for each call; pass it"
            " as an argument, or create it inside the function"
        )

    def _note_classes(self, item: PendingCompute[Any]) -> None:
        """Reports once for each name a class of the program whose objects are arguments of many
        calls: workers cannot import it, so its definition is pickled for every call."""
        for value in (*item.args, *item.kwargs.values()):
            kind = type(value)
            if kind.__module__ not in PROGRAMS and "<locals>" not in kind.__qualname__:
                continue
            name = kind.__qualname__
            count = self._by_value[name] = self._by_value.get(name, 0) + 1
            if count == BY_VALUE_CALLS:
                self._tell(
                    f"{BY_VALUE_CALLS} arguments were objects of {name}, a class that workers"
                    " cannot import: its definition is serialized again for each of them, which"
                    f" takes most of a millisecond; define {name} in a module that your program"
                    " imports, or pass tuples"
                )

    def report_edits(self) -> None:
        """Reports edited modules: nodes may have another version than the program."""
        if not self._checking.acquire(blocking=False):
            return  # another thread does
        begin = time.monotonic()
        try:
            texts = _edited_texts(self._modules.changed())
        finally:
            end = time.monotonic()
            self._next_check = end + max(CHECK_SECONDS, CHECK_REST * (end - begin))
            self._checking.release()
        for text in texts:
            self._tell.warn(text)

    def _report_reload(self, item: PendingCompute[Any]) -> None:
        """Reports once that the program calls a function of a module that was reloaded since."""
        newer = newer_version(item.fn)
        if newer is None or newer in self._newer:
            return
        self._newer.add(newer)
        module = item.fn.__module__
        self._tell.warn(
            f"{item.name}() is from before {module} was reloaded: import it again, or call"
            f" {module}.{item.fn.__qualname__}()"
        )


def _packed_past(
    some: Sequence[PendingCompute[Any]],
    first: int,
    pack_some: Callable[[Sequence[PendingCompute[Any]], int], list[Any]],
    function_of: Callable[[PendingCompute[Any]], Any],
    unsent: dict[int, Exception],
) -> list[Any]:
    """What pack_some() makes of the calls from position `first` on, without those that fail."""
    try:
        return pack_some(some, first)
    except NotProvisionedError:
        raise
    except Exception:  # which of them?
        calls = []
    for position, item in enumerate(some, first):
        function_of(item)  # its error is that of all its calls
        try:
            calls += pack_some([item], position)
        except NotProvisionedError:
            raise
        except Exception as error:
            unsent[position] = error.with_traceback(None)
    return calls


def _edited_texts(paths: list[str]) -> list[str]:
    if not paths:
        return []
    if len(paths) > EDITS_NAMED:
        return [
            f"{len(paths)} files of this program changed, {min(paths)} among them; nodes may run"
            " other versions than the program. Restart it, or reload the modules"
            " (importlib.reload) and open the pool again"
        ]
    old = outdated(paths)
    return [_edited_text(path, path in old) for path in paths]


def _edited_text(path: str, is_outdated: bool) -> str:
    if not is_outdated:  # the program has the new version, or has never imported it
        return (
            f"{path} changed after the pool opened; nodes may run the old version. Open the pool"
            " again"
        )
    return (
        f"{path} changed after this program imported it; nodes may run another version than the"
        " program. Reload it (importlib.reload) or restart the program, and open the pool again"
    )
