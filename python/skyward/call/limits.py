"""The limits of a call: how long it may run, and how often it is retried."""

from skyward.exceptions import ConfigurationError
from skyward.spec.options import plain_number, positive_seconds

LONGEST_SECONDS = 999_999_999.0

seconds_to_wait = positive_seconds  # the `timeout` of what waits for its workers before it begins


def checked_limits(timeout: float | None, retries: int) -> tuple[float | None, int]:
    timeout, retries = plain_number(timeout), plain_number(retries)
    if timeout is not None and (
        isinstance(timeout, bool)
        or not isinstance(timeout, (int, float))
        or not 0 < timeout <= LONGEST_SECONDS
    ):
        raise ConfigurationError(
            f"timeout={timeout!r}: a time limit is a positive number of seconds, or None"
        )
    if isinstance(retries, bool) or not isinstance(retries, int) or not 0 <= retries <= 1000:
        raise ConfigurationError(f"retries={retries!r}: retries is a number from 0 to 1000")
    return timeout, retries


def limit_together(each: float | None, calls: int) -> float | None:
    """The time limit of so many calls that run one after the other."""
    return None if each is None else min(each * calls, LONGEST_SECONDS)
