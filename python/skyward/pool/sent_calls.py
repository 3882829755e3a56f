"""What ``pool.map()`` and large gather()s have sent and whose answers they have not read: groups,
single calls, and calls that the pool refused."""

from concurrent.futures import TimeoutError as TimeIsUp
from typing import Any, ClassVar

from skyward.call.pending import PendingCompute
from skyward.call.text import call_text
from skyward.exceptions import NotProvisionedError
from skyward.pool.grouped_calls import Group, Pace
from skyward.pool.outcome import answer_of


class MappedGroup(Group):
    __slots__ = ("news",)

    blobs: ClassVar[dict[int, int]] = {}

    def __init__(
        self, core: Any, calls: list[Any], pace: Pace, attempt: int = 1, *, news: Any
    ) -> None:
        super().__init__(core, calls, pace, attempt)
        self.news = news

    @property
    def run_seconds(self) -> float:
        """Of one of its calls."""
        return self.pace.seconds

    @property
    def has_news(self) -> bool:
        return bool(self.core.has_news)

    @property
    def running(self) -> int:
        """How many calls have not ended, as far as that is known."""
        return 0 if self.core.has_news else len(self.calls)

    def wait(self, seconds: float | None) -> bool:
        """Until it has news, or calls of another group have come back."""
        return bool(self.news.wait(self.core, self.token, seconds))

    def again(self, core: Any, calls: list[Any], attempt: int) -> "MappedGroup":
        return MappedGroup(core, calls, self.pace, attempt, news=self.news)


class SentCall:
    __slots__ = ("blobs", "bytes", "call", "handle", "is_stream", "item")

    def __init__(self, item: PendingCompute[Any], call: Any, handle: Any) -> None:
        self.item = item
        self.is_stream = call.is_stream
        # It keeps the arguments, in the form that travels.
        self.call = call if item.retries or self.is_stream else None
        self.handle = handle
        self.bytes, self.blobs = call.sizes()

    @property
    def result_bytes(self) -> int:
        return int(self.handle.result_bytes)

    @property
    def run_seconds(self) -> float:
        return float(self.handle.run_seconds)

    @property
    def has_news(self) -> bool:
        return bool(self.handle.done())

    @property
    def running(self) -> int:
        return int(not self.handle.done())

    def wait(self, seconds: float | None) -> bool:
        return bool(self.handle.wait(seconds))

    def cancel(self) -> None:
        self.handle.cancel()


class RetriedCall:
    """A call that is sent again as soon as it fails, whenever its turn comes."""

    __slots__ = ("blobs", "bytes", "future", "item")

    def __init__(self, item: PendingCompute[Any], call: Any, future: Any) -> None:
        self.item = item
        self.bytes, self.blobs = call.sizes()
        self.future = future

    @property
    def result_bytes(self) -> int:
        return int(self.future.handle.result_bytes)

    @property
    def run_seconds(self) -> float:
        return float(self.future.handle.run_seconds)

    @property
    def has_news(self) -> bool:
        return bool(self.future.done())

    @property
    def running(self) -> int:
        return int(not self.future.done())

    def wait(self, seconds: float | None) -> bool:
        try:
            self.future.exception(seconds)
        except TimeIsUp:
            return False
        return True

    def cancel(self) -> None:
        if not self.future.cancel():
            self.future.exception()  # mark it as read: only the first error is reported

    def take(self) -> Any:
        """The answer, once, unpickled now."""
        future, self.future = self.future, None  # it keeps the answer, and the error these frames
        error = future.exception()
        if error is None:
            try:
                return answer_of(self.item.name, future.task, future.result())
            except Exception as failure:  # it cannot be rebuilt here
                error = failure
        del future
        error.add_note(f"call: {call_text(self.item)}")
        try:
            raise error
        finally:
            del error


class RefusedCalls:
    """Calls that could not be sent, mostly since the pool has closed meanwhile."""

    __slots__ = ("calls", "reason")

    bytes = result_bytes = running = 0
    run_seconds = 0.0
    blobs: ClassVar[dict[int, int]] = {}
    has_news = True

    def __init__(self, calls: int, reason: Exception) -> None:
        self.calls = calls
        self.reason = reason

    def take(self) -> "list[Failed]":
        """Each with its own error."""
        if self.calls == 1:
            return [Failed(self.reason)]
        text = str(self.reason)
        return [Failed(NotProvisionedError(text)) for _ in range(self.calls)]

    def wait(self, _: float | None) -> bool:
        return True

    def cancel(self) -> None: ...


SentCalls = MappedGroup | SentCall | RetriedCall | RefusedCalls


class Failed:
    """The error of one of several calls, among the answers of the others."""

    __slots__ = ("error",)

    def __init__(self, error: Exception) -> None:
        self.error = error
