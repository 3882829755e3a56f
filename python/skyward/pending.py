"""Calls that are written down; see skyward.call.function."""

from skyward.call.function import ComputeFunction, compute, lazy
from skyward.call.gather import gather
from skyward.call.pending import PendingBatch, PendingCompute, PendingStream

__all__ = [
    "ComputeFunction",
    "PendingBatch",
    "PendingCompute",
    "PendingStream",
    "compute",
    "gather",
    "lazy",
]
