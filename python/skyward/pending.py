"""Calls that are written down; see skyward.call.function."""

from skyward.call.function import (
    ComputeFunction,
    PendingBatch,
    PendingCompute,
    PendingStream,
    compute,
    gather,
    lazy,
)

__all__ = [
    "ComputeFunction",
    "PendingBatch",
    "PendingCompute",
    "PendingStream",
    "compute",
    "gather",
    "lazy",
]
