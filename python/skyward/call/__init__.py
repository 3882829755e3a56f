"""Recorded calls: what ``f(x)`` of a ``@compute`` function returns."""
