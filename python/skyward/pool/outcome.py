"""The answer in a task's outcome: its result, or its exception."""

from typing import Any

from skyward.transport import remote_error, serialize


def answer_of(name: str, task: int, outcome: Any) -> Any:
    """The result of a task, or its exception."""
    if outcome.status == "ok":
        return serialize.loads(outcome.payload(), f"{name}()")
    if outcome.status == "raised":
        report = serialize.loads(outcome.payload(), f"the error report of {name}()")
        raise remote_error.raised(report, task, outcome)
    raise remote_error.failed(task, outcome)


def may_retry(outcome: Any, error: Exception) -> bool:
    """Whether the call that has failed with `error` may be run again. One that has ended, and whose
    result does not pickle, would do all of its work once more for the same error."""
    return bool(outcome.may_retry) and remote_error.UNDELIVERED_ATTRIBUTE not in error.__dict__


def note_attempts(error: BaseException, retries: int, left: int) -> None:
    """Says on the error of the last attempt that it was not the first one. `left`: of `retries`."""
    if retries > left:
        error.add_note(f"attempt {retries - left + 1} of {retries + 1}")


def summary_of(error: Exception) -> str:
    """The first line of a task's error, with its class."""
    return f"{type(error).__name__}: {error}".partition("\n")[0].rstrip(": ")
