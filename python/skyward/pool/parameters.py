"""Checks of single parameters that pools alone have; the others are in spec/options.py."""

from skyward.callback import Callback
from skyward.exceptions import ConfigurationError, ConfigurationTypeError
from skyward.spec.image import Image
from skyward.spec.options import (
    MAX_CONCURRENCY,
    STANDARD_CONCURRENCY,
    Worker,
    concurrency_of,
    either,
    positive_seconds,
    whole,
)

DISPLAYS = ("log", "spinner", "quiet")


def checked_mode(display: str) -> str:
    if display not in DISPLAYS:
        raise ConfigurationError(f"display={display!r}: choose one of {', '.join(DISPLAYS)}")
    return display


def checked_callback(value: Callback | None) -> Callback | None:
    if value is not None and not callable(value):
        raise ConfigurationError(f"on_event={value!r}: a function that receives events is expected")
    return value


def slots_of(concurrency: int, worker: Worker | None) -> int:
    given = concurrency is not STANDARD_CONCURRENCY
    slots = either("concurrency", concurrency, given, "worker", concurrency_of(worker))
    return whole("concurrency", slots, MAX_CONCURRENCY)


def time_limit(default_compute_timeout: float | None) -> float | None:
    if default_compute_timeout is None:
        return None
    return positive_seconds("default_compute_timeout", default_compute_timeout)


def checked_image(value: Image | None) -> Image:
    if value is None:
        return Image()
    if not isinstance(value, Image):
        raise ConfigurationTypeError(
            f'image={value!r}: an Image is expected, such as Image(pip=["numpy"])'
        )
    return value
