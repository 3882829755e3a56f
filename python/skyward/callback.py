"""Callbacks: functions that receive events, and the ambient one of the current context.

A callback returns nothing, or an event (or a sequence of events) that follows from the one it
received. Derived events are delivered to the same chain after the current event; the event itself
always reaches every callback."""

import os
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, ForwardRef

from skyward.exceptions import ConfigurationTypeError

if TYPE_CHECKING:
    from skyward.events import SkywardEvent
else:

    def _events():
        from skyward import events

        return events

    # Its classes are made when somebody asks for them, as `typing.get_type_hints` does: that takes
    # longer than all else that a quiet pool imports.
    SkywardEvent = ForwardRef("_events().SkywardEvent", module=__name__)

Callback = Callable[[SkywardEvent], SkywardEvent | Sequence[SkywardEvent] | None]

BUSY_SECONDS = 1.0
"""How long an event waits for a handler that is busy in another thread. That thread goes on with
it: nobody who reports something waits for a handler that hangs, and a loop of asyncio for none."""
REPORT_SECONDS = 60.0
"""A handler that fails again and again is reported this often."""
MAX_DERIVED_DEPTH = 100
"""An event derived from an event derived from … this often is dropped: some callback always
answers."""

_ambient: ContextVar[Callback | None] = ContextVar("skyward_callback", default=None)


def current_callback() -> Callback | None:
    """The ambient callback of this context. Skips pools that have closed, in whichever context they
    were closed."""
    callback = _ambient.get()
    while isinstance(callback, Delivery) and callback.is_closed:
        callback = callback.around
    return callback


def users_callback() -> Callback | None:
    """The innermost callback of ``use_callback``, which skips other pools."""
    callback = _ambient.get()
    while isinstance(callback, Delivery):
        callback = callback.around
    return callback


def emit(event: SkywardEvent) -> None:
    """Sends an event to the handlers of the pool whose ``with`` block this is, else to the callback
    of ``use_callback``.

    Does nothing when there is none. A pool logs errors of its handlers; outside of pools, an error
    of the callback is raised here."""
    if not _is_event(event):
        raise ConfigurationTypeError(f"emit({event!r:.80}): an event of skyward.events is expected")
    callback = current_callback()
    if isinstance(callback, Delivery):
        callback(event)
    elif callback is not None:
        _drain(deque([(event, 0)]), [callback], _raise)


def compose(*callbacks: Callback) -> Callback:
    """One callback that passes each event to all of them, in order, and joins what they return."""
    for callback in callbacks:
        _check_callable("compose", callback)
    if not callbacks:
        return _ignore
    if len(callbacks) == 1:
        return callbacks[0]

    def composed(event: SkywardEvent) -> Sequence[SkywardEvent] | None:
        return [derived for callback in callbacks for derived in _derived(callback(event))] or None

    return composed


@contextmanager
def use_callback(cb: Callback) -> Iterator[None]:
    """Makes `cb` the ambient callback for the block. Pools that open inside also deliver their
    events to it."""
    _check_callable("use_callback", cb)
    before = _ambient.get()
    token = _ambient.set(cb)
    try:
        yield
    finally:
        try:
            _ambient.reset(token)
        except ValueError:  # entered in another thread or asyncio task, or in a copy of its context
            if _ambient.get() is cb:
                _ambient.set(before)


class Delivery:
    """A pool's chain of callbacks. Delivers one event at a time, whatever the thread; a failing
    callback is reported once a minute and stops neither the others nor the pool."""

    is_closed = False

    def __init__(self, callbacks: Iterable[Callback], around: Callback | None = None) -> None:
        """`around`: the ambient callback outside of the pool."""
        self.around = around
        self._callbacks = list(callbacks)
        self._lock: Any = threading.RLock()
        self._queue: deque[tuple[Any, int]] = deque()
        self._depth: int | None = None  # of the event in delivery; None: nobody delivers
        self._reported: dict[int, tuple[float, int]] = {}  # when, and failures since then
        _deliveries.add(self)

    @property
    def has_receivers(self) -> bool:
        return bool(self._callbacks)

    def add(self, callback: Callback) -> None:
        self._callbacks.append(callback)

    def remove(self, callback: Callback) -> None:
        if callback in self._callbacks:
            self._callbacks.remove(callback)
            self._reported.pop(id(callback), None)  # another one may get its id

    def __call__(self, event: SkywardEvent) -> None:
        if self._lock.acquire(timeout=0 if runs_a_loop() else BUSY_SECONDS):
            try:
                self._deliver(event)
            finally:
                self._lock.release()
        else:
            self._queue.append((event, 0))
        # Whoever was busy may have seen an empty queue just before.
        while self._queue and self._depth is None and self._lock.acquire(blocking=False):
            try:
                self._deliver_queue()
            finally:
                self._lock.release()

    def _deliver(self, event: SkywardEvent) -> None:
        if self._depth is not None:  # emitted by a callback of this chain: after the current event
            self._queue.append((event, self._depth + 1))
            return
        self._queue.append((event, 0))
        self._deliver_queue()

    def _deliver_queue(self) -> None:
        try:
            _drain(self._queue, self._callbacks, self._report, self._set_depth)
        finally:
            self._depth = None

    def _set_depth(self, depth: int) -> None:
        self._depth = depth

    def _report(self, callback: object, error: BaseException) -> None:
        now = time.monotonic()
        reported, since = self._reported.get(id(callback), (-REPORT_SECONDS, 0))
        if now < reported + REPORT_SECONDS:
            self._reported[id(callback)] = reported, since + 1
            return
        self._reported[id(callback)] = now, 0
        import logging

        logging.getLogger("skyward").error(
            "event callback %r failed%s; its failures are shown once a minute",
            callback,
            f", and {since} times since the last report" if since else "",
            exc_info=error,
        )


_deliveries: "weakref.WeakSet[Delivery]" = weakref.WeakSet()


def _renew() -> None:
    """In a forked child, no other thread delivers."""
    for delivery in list(_deliveries):
        if not delivery._lock._is_owned():
            delivery._lock._at_fork_reinit()
            delivery._queue.clear()
            delivery._depth = None


os.register_at_fork(after_in_child=_renew)


def _drain(
    queue: "deque[tuple[SkywardEvent, int]]",
    callbacks: list[Callback],
    report: Callable[[object, BaseException], None],
    set_depth: Callable[[int], None] = lambda depth: None,
) -> None:
    """Delivers the queue breadth-first, derived events included, until it is empty."""
    while queue:
        event, depth = queue.popleft()
        set_depth(depth)
        if depth > MAX_DERIVED_DEPTH:
            too_deep = RecursionError(
                f"callbacks keep returning new events; Skyward drops this {type(event).__name__}"
            )
            report(_drain, too_deep)
            continue
        for callback in list(callbacks):
            try:
                queue.extend((derived, depth + 1) for derived in _derived(callback(event)))
            except BaseException as error:  # sys.exit() would end the thread, and all events
                if isinstance(error, KeyboardInterrupt) and _is_main_thread():
                    raise
                report(callback, error)


def print_under_running_cell() -> None:
    """For this thread, which prints as long as a pool is open. Jupyter would show that under the
    cell that started the thread; without these entries, it is shown under the one that runs."""
    thread = threading.get_ident()
    for stream in (sys.stdout, sys.stderr):
        for name in ("_thread_to_parent_header", "_thread_to_parent"):
            getattr(stream, name, {}).pop(thread, None)


def runs_a_loop() -> bool:
    """Whether this thread runs an asyncio loop, whose other tasks would wait, too."""
    asyncio = sys.modules.get("asyncio")  # it is imported by whoever has a loop
    running = getattr(asyncio, "_get_running_loop", None)  # none yet while it is being imported
    return running is not None and running() is not None


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _derived(answer: Any) -> Sequence[Any]:
    """What a callback returned, as a sequence of events."""
    if answer is None:
        return ()
    if _is_event(answer):
        return (answer,)
    if isinstance(answer, (list, tuple)) and all(map(_is_event, answer)):
        return answer
    # Lambdas return what their last call did ("print(...)" None, "seen.append" None, "seen.add" …):
    # no event, no matter.
    return ()


def _is_event(value: object) -> bool:
    from skyward.events import EVENT_TYPES

    return isinstance(value, EVENT_TYPES)


def _check_callable(what: str, callback: Any) -> None:
    if not callable(callback):
        raise ConfigurationTypeError(
            f"{what}({callback!r:.80}): a function that receives events is expected"
        )


def _raise(callback: object, error: BaseException) -> None:
    raise error


def _ignore(event: SkywardEvent) -> None:
    return None
