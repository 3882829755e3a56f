"""A future that knows errors which are false."""

from concurrent.futures import Future
from typing import Any


class AnswerFuture(Future[Any]):
    """One of concurrent.futures, which takes an exception that is false (a ``__len__`` of 0) for
    none."""

    def result(self, timeout: float | None = None) -> Any:
        answer = super().result(timeout)
        if answer is None and (error := super().exception(0)) is not None:
            raise error
        return answer
