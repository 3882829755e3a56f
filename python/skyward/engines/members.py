"""The calls that hold an engine's processes: one on each node, for the length of a block."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from skyward.call.pending import PendingCompute
from skyward.engines.survey import NodeFacts, look
from skyward.exceptions import (
    CancelledError,
    ConnectionLostError,
    InstanceTerminatedError,
    SkywardError,
    TimeoutError,
)
from skyward.pool.compute_pool import ComputePool
from skyward.pool.open_pool import OpenPool
from skyward.pool.outcome import answer_of
from skyward.task.processes import wait_here
from skyward.transport import serialize

_CLOSE_SECONDS = 10.0
"""How long the end of a block waits for the processes; an agent kills what does not end."""
_RESTARTS = 3
"""How often the processes of a node are started again after they ended by themselves. A node that
is lost and replaced is not counted."""

NO_LIMIT_SECONDS = 1e9
"""The time limit of a call that ends with its block: the pool's own limit is not for it."""

_LOSSES = 3
"""How often a node may be lost, one time after the other, before its processes run."""
MakeCall = Callable[[NodeFacts], PendingCompute[Any]]
"""The call that holds the processes of a node: a generator, whose first item says that they run."""


def ask_nodes(
    verb: str, engine: OpenPool, nodes: int, call: PendingCompute[Any], seconds: float
) -> list[Any]:
    """The answers of all nodes, each given by the first slot that is free there. TimeoutError: one
    of them did not answer in `seconds`."""
    handles = [engine.send_to(call, node) for node in range(nodes)]
    end = time.monotonic() + seconds
    try:
        for node, handle in enumerate(handles):
            if not handle.wait(max(0.0, end - time.monotonic())):
                raise slots_are_busy(verb, node, seconds)
    except BaseException:
        for handle in handles:
            handle.cancel()
        raise
    return [answer_of(call.name, handle.task, handle.take()) for handle in handles]


def slots_are_busy(verb: str, node: int, seconds: float) -> TimeoutError:
    return TimeoutError(
        f"{verb}: node {node} did not answer in {seconds:g} s.\n"
        "It is running other calls, or it was lost and its replacement is not ready yet.\n"
        "An engine needs a free slot on each node: wait for your calls first, open the pool with a"
        " larger concurrency=, or give timeout=."
    )


def keep_slot() -> PendingCompute[Any]:
    """A call that does nothing until it is cancelled."""
    return PendingCompute(wait_here, name="wait_here", timeout=NO_LIMIT_SECONDS)


class Members:
    """The nodes of an engine. The loss of node 0, where its head is, ends the engine. On any other
    node its processes are started again: when they end by themselves, and when the node is lost
    and replaced."""

    def __init__(
        self,
        verb: str,
        pool: ComputePool,
        engine: OpenPool,
        facts: Sequence[NodeFacts],
        make_call: MakeCall,
    ) -> None:
        """`facts`: of each node, as it is now; a replacement is asked for its own."""
        self._verb = verb
        self._pool = pool
        self._engine = engine
        self._make_call = make_call
        self._facts = {fact.node: fact for fact in facts}
        self._changed = threading.Condition()
        self._ready: dict[int, Any] = {}
        self._known: set[int] = set()  # nodes that have been ready
        self._handles: dict[tuple[int, str], Any] = {}
        self._failure: BaseException | None = None
        self._starting = self._closing = False
        self._threads: list[threading.Thread] = []

    def start(self, nodes: Sequence[int], seconds: float) -> list[Any]:
        """Starts the processes of these nodes, and returns what they say when they run. Raises
        what a node raises instead, or TimeoutError."""
        self._starting = True
        for node in nodes:
            thread = threading.Thread(
                target=self._watch, args=(node,), name=f"skyward-engine-{node}", daemon=True
            )
            thread.start()
            self._threads.append(thread)
        end = time.monotonic() + seconds
        with self._changed:
            while missing := [node for node in nodes if node not in self._ready]:
                if self._failure is not None:
                    raise self._failure
                left = end - time.monotonic()
                if left <= 0:
                    raise slots_are_busy(self._verb, missing[0], seconds)
                self._changed.wait(min(left, 0.2))  # Ctrl-C is seen between two waits
            self._starting = False
            return [self._ready[node] for node in nodes]

    def close(self) -> None:
        """Ends the processes of all nodes, those of node 0 last, and waits until they have
        ended."""
        with self._changed:
            self._closing = True
            head = [handle for (node, _), handle in self._handles.items() if node == 0]
            others = [handle for (node, _), handle in self._handles.items() if node != 0]
        end = time.monotonic() + _CLOSE_SECONDS
        for part in (others, head):
            for handle in part:
                handle.cancel()
            for handle in part:
                handle.wait(max(0.0, end - time.monotonic()))
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))

    def _watch(self, node: int) -> None:
        restarts = losses = 0
        while True:
            with self._changed:
                was_ready = self._ready.pop(node, None) is not None
            losses = 0 if was_ready else losses + 1
            error = self._run(node)
            if error is None:
                return
            if isinstance(error, (InstanceTerminatedError, ConnectionLostError)):
                if node == 0:
                    return self._fail(node, self._head_lost(error))
                if losses > _LOSSES:
                    return self._fail(node, error)
                why = f"{self._verb}: node {node} was lost; its replacement joins when it is ready"
            elif node == 0 or node not in self._known or (restarts := restarts + 1) > _RESTARTS:
                return self._fail(node, error)
            else:
                text = str(error).partition("\n")[0]
                why = f"{self._verb}: {text} (node {node}); it is started again"
            self._engine.tell(why)

    def _run(self, node: int) -> BaseException | None:
        """What ended the call; None: the block, or the pool."""
        keeper = None
        try:
            facts = self._facts.pop(node) if node in self._facts else self._ask(node)
            call = self._make_call(facts)
            if self._pool.concurrency > 1:
                # The first slot is for calls that run once on each worker.
                keeper = self._send(keep_slot(), node, "keeper", 0)
                keeper.next()
            handle = self._send(call, node, "engine", None)
            while (item := handle.next()) is not None:
                if keeper is not None:
                    keeper = keeper.cancel()
                with self._changed:
                    self._ready[node] = serialize.loads(item, call.name)
                    self._known.add(node)
                    self._changed.notify_all()
            answer_of(call.name, handle.task, handle.take())
        except BaseException as error:
            if self._closing or not self._pool.is_active:
                return None
            return error
        finally:
            if keeper is not None:
                keeper.cancel()
        return None

    def _ask(self, node: int) -> NodeFacts:
        """What a replacement has, when it is there."""
        call: PendingCompute[Any] = PendingCompute(look, ((),), name="look")
        handle = self._send(call, node, "look", None)
        handle.wait()
        facts: NodeFacts = answer_of(call.name, handle.task, handle.take())
        return facts

    def _send(self, call: PendingCompute[Any], node: int, kind: str, worker: int | None) -> Any:
        with self._changed:
            if self._closing:
                raise CancelledError("the block of the engine has ended")
            handle = self._handles[node, kind] = self._engine.send_to(call, node, worker)
            return handle

    def _fail(self, node: int, error: BaseException) -> None:
        """The node's processes are not started again."""
        with self._changed:
            was_known = node in self._known
            if self._failure is None and (node == 0 or self._starting):
                self._failure = error
            self._changed.notify_all()
        if was_known:
            lines = str(error).partition("\n")[0]
            self._engine.tell(
                lines if node == 0 else f"{self._verb} gives up on node {node}: {lines}"
            )

    def _head_lost(self, error: BaseException) -> SkywardError:
        failure = SkywardError(
            f"{self._verb}: node 0, where its head runs, was lost.\n"
            "What the engine knew is gone with it; the pool continues.\n"
            f"Leave the block and enter it again: {self._verb} then starts on the replacement."
        )
        failure.__cause__ = error
        return failure
