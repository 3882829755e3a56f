"""A future that knows errors which are false, and whose process it is."""

import os
import threading
from concurrent.futures import Future
from typing import Any

from skyward.exceptions import NotProvisionedError

_generation = 0
"""Another number in each forked child; the extension has one, too, but nodes have no extension."""


def _count_fork() -> None:
    global _generation
    _generation += 1


os.register_at_fork(after_in_child=_count_fork)


class AnswerFuture(Future[Any]):
    """One of concurrent.futures, which takes an exception that is false (a ``__len__`` of 0) for
    none. A forked child may read an answer that had come before the fork. Any other comes to the
    parent alone, and the child is refused at once."""

    def __init__(self) -> None:
        super().__init__()
        self._owner = _generation

    def result(self, timeout: float | None = None) -> Any:
        self._check_process()
        answer = super().result(timeout)
        if answer is None and (error := super().exception(0)) is not None:
            raise error
        return answer

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self._check_process()
        return super().exception(timeout)

    def _check_process(self) -> None:
        if self._owner == _generation:
            return
        if self._state in ("PENDING", "RUNNING"):
            raise NotProvisionedError(
                "this future belongs to the parent process; wait for it there, or open another"
                " pool in this process"
            )
        # A thread that does not exist here may have held the parent's.
        self._condition = threading.Condition()
