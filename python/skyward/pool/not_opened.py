"""Errors that calls raise, too, as raised by a pool that does not open: there they are also
ProvisioningErrors."""

from skyward import exceptions


class BudgetExceededError(exceptions.BudgetExceededError, exceptions.ProvisioningError):
    __doc__ = exceptions.BudgetExceededError.__doc__


class ConnectionError(exceptions.ConnectionError, exceptions.ProvisioningError):
    __doc__ = exceptions.ConnectionError.__doc__
