"""Calls that are written down; see skyward.function."""

from skyward.function import (
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
