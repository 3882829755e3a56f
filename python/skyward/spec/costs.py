"""What a pool has cost."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PoolCost:
    """Dollars until now. The four parts add up to the total."""

    total: float = 0.0
    hourly: float = 0.0
    """Dollars an hour for the current machines."""
    setup: float = 0.0
    """From the request for a machine to its node being ready."""
    useful: float = 0.0
    """While tasks ran."""
    idle: float = 0.0
    lost: float = 0.0
    """Work that was lost with its machine."""
