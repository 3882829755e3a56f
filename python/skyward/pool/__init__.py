"""Pools. ``sky.pool`` is this package and a decorator at once: ``@sky.pool(nodes=4)``."""

import sys

from skyward.pool.block import CallableModule, pool
from skyward.pool.compute_pool import ComputePool

__all__ = ["ComputePool", "pool"]

sys.modules[__name__].__class__ = CallableModule
