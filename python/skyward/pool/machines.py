"""A pool's machines, from the request to the last event."""

import atexit
import sys
import threading
import warnings
import weakref
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from skyward import _core
from skyward.callback import Delivery, print_under_running_cell, runs_a_loop
from skyward.exceptions import CancelledError, ConfigurationError
from skyward.pool.answer import brings_answers

HANDLER_GRACE_SECONDS = 10.0
"""How long leaving a pool waits for event handlers that are still busy."""

C = TypeVar("C", bound="Closable")


class Closable(Protocol):
    def close(self) -> None: ...


class Teller:
    """Reports to the receivers of events what deserves attention: in the thread that calls, unless
    others wait for it. Receivers may take their time, or wait for an answer or for the loop."""

    def __init__(self, core: Any, deliver: Delivery) -> None:
        self._core = core
        self._deliver = deliver

    def __call__(self, message: str, instance_id: str | None = None) -> None:
        from skyward.events import Error, as_utf8

        message = as_utf8(message)  # it may quote an error of the program
        if (runs_a_loop() or brings_answers()) and self._core.tell(message, instance_id):
            return  # the thread of events delivers it
        self._core.note(message, instance_id)
        self._deliver(Error(message, instance_id, pool=self._core.job_id))

    def warn(self, message: str) -> None:
        """Reports a mistake of the program. Warns if nobody hears of it at a prompt or in a
        notebook, where such mistakes are easily made."""
        self(message)
        if not self._deliver.has_receivers and hasattr(sys, "ps1"):
            # Without a registry, which would show the same text only once.
            warnings.warn_explicit(message, UserWarning, "skyward", 1)


def refuse_in_spawned_child() -> None:
    """A child process that multiprocessing starts by spawn or forkserver first runs the program's
    module again, which must not rent machines once more."""
    process = sys.modules.get("multiprocessing.process")
    if process is None or not getattr(process.current_process(), "_inheriting", False):
        return
    raise ConfigurationError(
        "multiprocessing is importing your program into a child process, which would open the pool"
        " once more; open it under `if __name__ == '__main__':`"
    )


def refuse_greenlets() -> None:
    """Where gevent or eventlet has replaced threads, those of a pool would be greenlets, and the
    first one that waits for the engine would stop the whole process."""
    for name, question, part in (
        ("gevent.monkey", "is_module_patched", "threading"),
        ("eventlet.patcher", "is_monkey_patched", "thread"),
    ):
        is_patched = getattr(sys.modules.get(name), question, None)
        if is_patched is not None and is_patched(part):
            raise ConfigurationError(
                f"{name.partition('.')[0]} has replaced this process's threads, and a pool needs"
                " real ones: use a server's workers with threads (gunicorn -k gthread), or open the"
                " pool in a process of its own"
            )


def refuse_subinterpreter() -> None:
    """The engine calls back into the main interpreter, whose types are not this one's."""
    if not _core.is_main_interpreter():
        raise ConfigurationError(
            "a pool cannot be used in a subinterpreter of Python, and this is one: under mod_wsgi,"
            " set WSGIApplicationGroup %{GLOBAL}; elsewhere, open the pool in its own process"
        )


class Opening:
    """One opening of a pool, which others may end before its time."""

    def __init__(self) -> None:
        self.machines: Machines | None = None
        self._lock = threading.RLock()  # a signal's handler may close the pool
        self._is_abandoned = self._is_over = False

    def abandon(self) -> bool:
        """The pool is not wanted any more: what opens it releases everything, and raises
        CancelledError. False: too late, it has opened or failed."""
        with self._lock:
            self._is_abandoned = self._is_abandoned or not self._is_over
            return self._is_abandoned

    def check(self) -> None:
        if self._is_abandoned:
            raise CancelledError("the pool was closed while it was opening")

    def end(self) -> None:
        """From here on, it cannot be abandoned."""
        with self._lock:
            self._is_over = True

    def is_event_thread(self) -> bool:
        """Whether this is the thread of its events, for which its end waits."""
        return self.machines is not None and self.machines.is_event_thread()


class Machines:
    """Provisions them, delivers what happens to them, and releases them."""

    def __init__(self, spec: Any, deliver: Delivery, display: Closable | None = None) -> None:
        """`display`: closed after the last event, also of a pool that ends by itself."""
        self.core = _core.Pool(spec)
        self.collect_tasks = bool(spec.collect_tasks)
        self.workers = self.core.total_slots // max(1, spec.concurrency)
        self._deliver = deliver
        self._display = display
        self._kept: Closable | None = None
        self._has_events = threading.Event()  # they are being provisioned
        self._events = threading.Thread(
            target=self._pump_events, name="skyward-events", daemon=True
        )
        self.tell = Teller(self.core, deliver)

    def open(self, check: Callable[[], None], meanwhile: Callable[["Machines"], C]) -> C:
        """Blocks until the nodes are ready. Returns what `meanwhile` makes while they start.
        Releases everything before it raises."""
        made: list[C] = []

        def poll() -> None:
            self._has_events.set()
            check()
            if not made:
                made.append(meanwhile(self))

        try:
            self._events.start()
            _opening.add(self)  # the program may end meanwhile
            self.core.open(poll, self._tell_interrupt)
            _opening.discard(self)
        except BaseException:
            self._has_events.set()  # a program that ends waits until they are delivered
            try:
                (made[0] if made else self).close()
            finally:
                _opening.discard(self)
            raise
        # No call from here on: a signal that is handled in it would leave all this open.
        self._kept = made[0]  # by the thread of events, until it is closed
        return made[0]

    def close(self) -> None:
        """Releases them. Returns when all events have been delivered. Raises MachinesLeftError
        then, if some machines may still run."""
        try:
            self.core.close()
        finally:
            self.join_events()

    def is_event_thread(self) -> bool:
        """Whether this is the thread that calls the receivers of events."""
        return threading.get_ident() == self._events.ident

    def join_events(self) -> None:
        """Waits until the events of the closed core have been delivered."""
        self._kept = None
        if self._events.is_alive() and not self.is_event_thread():
            self._events.join(HANDLER_GRACE_SECONDS)

    def _tell_interrupt(self) -> None:
        self.tell("interrupted; closing the pool")

    def _pump_events(self) -> None:
        print_under_running_cell()
        self._has_events.wait()
        while (batch := self.core.next_events(0.5)) is not None:
            if self._deliver.has_receivers:
                self._deliver_all(batch)
        # A program that drops an expired pool need not close it: nothing here keeps it.
        self._deliver.is_closed = True
        self._kept = None
        if self._display is not None:
            self._display.close()

    def _deliver_all(self, batch: list[tuple[str, tuple[Any, ...]]]) -> None:
        from skyward.events import event_from_fields

        pool = self.core.job_id
        for name, fields in batch:
            self._deliver(event_from_fields(name, fields, pool))


_opening: "weakref.WeakSet[Machines]" = weakref.WeakSet()


@atexit.register
def _close_opening() -> None:
    """For a pool that another thread opens while the program ends."""
    for machines in list(_opening):
        machines.close()
