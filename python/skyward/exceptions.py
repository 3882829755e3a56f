"""What skyward raises. Each class says what the caller may do about it; the text says what failed,
where and why."""

import builtins
from _pickle import PicklingError
from collections.abc import Iterable
from typing import ClassVar


class SkywardError(Exception):
    """Base of every error of skyward itself."""


class ConfigurationError(SkywardError, ValueError):
    """The request is wrong; nothing was started. Fix the call."""


class ConfigurationTypeError(ConfigurationError, TypeError):
    """A value of the wrong type."""


class NoMatchingInstanceError(ConfigurationError):
    """No machine type has what is asked for; the text names the closest ones."""


class PythonVersionMismatchError(ConfigurationError):
    """The image asks for another Python minor version than the caller's: pickled code would not
    load there."""


class NotProvisionedError(SkywardError):
    """The pool is used outside its ``with`` block."""


class ProvisioningError(SkywardError):
    """Machines could not be provisioned or set up; all of them were released."""


class CapacityError(ProvisioningError):
    """There was not enough capacity; Skyward released what it had launched."""

    def __init__(
        self,
        text: str = "",
        *,
        requested: int = 0,
        got: int = 0,
        region: str = "",
        regions_checked: Iterable[str] = (),
        instance_type: str = "",
        offers: Iterable[str] = (),
    ) -> None:
        super().__init__(text)
        self.requested = requested
        """Number of machines; for SpotMinimumNotMetError, the minimum number of spot machines."""
        self.got = got
        """The most machines that ran at the same time."""
        self.region = region
        """The first region that was tried."""
        self.regions_checked = tuple(regions_checked)
        self.instance_type = instance_type
        self.offers = tuple(offers)
        """Similar machines: type, place and on-demand price, as text."""


class SpotCapacityError(CapacityError):
    """There was no spot capacity after all retries, and the pool allows no other machines."""


class SpotMinimumNotMetError(CapacityError):
    """There was less spot capacity than the minimum share requires."""


class QuotaExceededError(CapacityError):
    """The account is not allowed that many machines of that kind."""


class AllProvidersFailedError(ProvisioningError):
    """No provider of the list has machines for the pool. `errors` has a pair for each, in the
    order in which they were tried: its name, and what it raised."""

    def __init__(self, errors: Iterable[tuple[str, SkywardError]], text: str = "") -> None:
        self.errors = tuple(errors)
        super().__init__(self.errors, text)
        self._text = text

    def __str__(self) -> str:
        return self._text or "; ".join(f"{name}: {error}" for name, error in self.errors)


class BudgetExceededError(SkywardError):
    """The money that ``budget`` or ``max_hourly_cost`` allows is spent, or is not enough; the
    text says what was spent and what to do. If the pool did not open, also a ProvisioningError."""


class MachinesLeftError(SkywardError):
    """The pool is closed, but Skyward could not confirm that all its machines terminated; the text
    names those that may still cost money. Raised at the end of the block. If the block raises
    another error, that one is raised, with this one as a note."""


class NoAvailableRegionError(ProvisioningError):
    """The machine type is offered in none of the regions."""

    def __init__(self, instance_type: str, regions_checked: Iterable[str], text: str = "") -> None:
        super().__init__(instance_type, tuple(regions_checked), text)
        self.instance_type = instance_type
        self.regions_checked = tuple(regions_checked)
        self._text = text

    def __str__(self) -> str:
        return (
            self._text
            or f"{self.instance_type} is offered in none of {', '.join(self.regions_checked)}"
        )


class SerializationError(SkywardError, PicklingError):
    """An argument, a function or a result cannot travel."""


class TimeoutError(SkywardError, builtins.TimeoutError):
    """A deadline passed."""


class CancelledError(SkywardError):
    """The pool or the executor closed before the call had an answer. A future that you cancel
    raises ``concurrent.futures.CancelledError`` instead, or ``asyncio.CancelledError``."""


class ConnectionError(SkywardError, builtins.ConnectionError):
    """A machine could not be reached. If the pool did not open, also a ProvisioningError."""


class ExecutionError(SkywardError):
    """A task failed: its function raised, or its worker died.

    When the function raised, the class of the error you catch is also the function's own exception
    class, so that both ``except ValueError`` and ``except ExecutionError`` catch a remote
    ``ValueError``. ``__cause__`` prints the traceback as it was on the node."""

    node: int = -1
    """Node that ran the task; -1 when none did."""
    worker: int = -1
    """Worker within the node."""
    instance_id: str = ""
    task: int = 0
    """Number of the task within its pool."""
    remote_traceback: str = ""
    """Traceback text from the node; empty when the worker died."""
    output: tuple[str, ...] = ()
    """Last lines that the task wrote."""


class _InstanceError(ExecutionError):
    """A task failed because its machine was lost."""

    _what: ClassVar[str]

    def __init__(self, instance_id: str, reason: str) -> None:
        super().__init__(instance_id, reason)
        self.instance_id = instance_id
        self.reason = reason

    def __str__(self) -> str:
        if not self.instance_id:
            return self.reason
        return f"{self._what.format(self.instance_id)}: {self.reason}"


class InstanceTerminatedError(_InstanceError):
    """The task's machine was lost, on every attempt. A distributed call on several nodes has one
    attempt."""

    _what = "instance {} is gone"


class PreemptionError(InstanceTerminatedError):
    """The last machine of the task was lost after its cloud had announced that it would preempt it,
    or it was not replaced. Clouds that preempt without notice raise the base class. `attempts`: how
    often the task was sent to a machine."""

    _what = "instance {} was preempted"

    def __init__(self, instance_id: str, reason: str, attempts: int) -> None:
        super().__init__(instance_id, reason)
        self.args = (instance_id, reason, attempts)
        self.attempts = attempts


class ConnectionLostError(_InstanceError, ConnectionError):
    """The connection to the task's machine broke for good, and so did those of all further
    attempts. The machine may still be running."""

    _what = "lost the connection to {}"


class RemoteTraceback(Exception):  # noqa: N818 (not an error of its own: a cause)
    """Carries the traceback text of a node, as the cause of the error raised here."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f"\n{self.text.rstrip()}"
