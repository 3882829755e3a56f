"""What skyward raises. Each class says what the caller may do about it; the text says what failed,
where and why."""

import builtins


class SkywardError(Exception):
    """Base of every error of skyward itself."""


class ConfigurationError(SkywardError, ValueError):
    """The request is wrong; nothing was started. Fix the call."""


class PythonVersionMismatchError(ConfigurationError):
    """The image asks for another Python minor version than the caller's: pickled code would not
    load there."""


class NotProvisionedError(SkywardError):
    """The pool is used outside its ``with`` block."""


class ProvisioningError(SkywardError):
    """Machines could not be had or prepared; all of them were given back."""


class SerializationError(SkywardError):
    """An argument, a function or a result cannot travel."""


class TimeoutError(SkywardError, builtins.TimeoutError):
    """A deadline passed."""


class CancelledError(SkywardError):
    """The task was cancelled, or its pool closed before it had an answer."""


class ConnectionError(SkywardError, builtins.ConnectionError):
    """The way to a machine is broken."""


class ConnectionLostError(ConnectionError):
    """The connection to an instance broke."""

    def __init__(self, instance_id: str, reason: str) -> None:
        super().__init__(instance_id, reason)
        self.instance_id = instance_id
        self.reason = reason

    def __str__(self) -> str:
        return f"lost the connection to {self.instance_id}: {self.reason}"


class InstanceTerminatedError(SkywardError):
    """An instance vanished while it was being prepared."""

    def __init__(self, instance_id: str, reason: str) -> None:
        super().__init__(instance_id, reason)
        self.instance_id = instance_id
        self.reason = reason

    def __str__(self) -> str:
        return f"instance {self.instance_id} is gone: {self.reason}"


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


class RemoteTraceback(Exception):  # noqa: N818 (not an error of its own: a cause)
    """Carries the traceback text of a node, as the cause of the error raised here."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f"\n{self.text.rstrip()}"
