"""Pickles Triton's kernels by the functions that they are made of: a kernel itself has locks, and
code that was compiled for one machine. Driver and worker use this."""

import inspect
import sys

from .tensors import learn
from .type_names import importable_name

NAME = "skyward.worker.kernels"
"""This module, as its readers import it."""


def reducers():
    """What reduces objects of a class, by the class. Empty until the program loads Triton."""
    return learn(_reducers, "triton.runtime.jit", "JITFunction", reduce_kernel)


_reducers = {}


def reduce_kernel(kernel):
    """By its name, as a function, if a reader can import it."""
    if name := importable_name(kernel):
        return name
    cls, fields, options = type(kernel), vars(kernel), {}
    for option in list(inspect.signature(cls).parameters)[1:]:  # after the function
        for field in ("_" + option, option):
            if field in fields:
                options[option] = fields[field]
                break
    return make_kernel, (cls, kernel.fn, options)


def make_kernel(cls, function, options):
    return cls(function, **options)


# In a worker, whose modules have names of their own, this one has both.
make_kernel.__module__ = NAME
sys.modules.setdefault(NAME, sys.modules[__name__])
