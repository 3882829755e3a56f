"""What the code inside a function uses: the bodies of its classes, its lambdas and generators.
cloudpickle looks there for the globals of functions alone. Driver and worker use this."""

import contextlib
import dis
import inspect
from types import CodeType

from cloudpickle.cloudpickle import _find_imported_submodules


def add_names(function, state):
    """Adds to cloudpickle's state of the function the globals of bodies of classes, and the
    submodules that only nested code names."""
    nested = list(_codes_in(function.__code__))
    variables, submodules = state["__globals__"], state["_cloudpickle_submodules"]
    for name in {name: None for code in nested for name in _names_of_body(code)}:
        if name in function.__globals__:
            variables.setdefault(name, function.__globals__[name])
    cells = list(_contents(function.__closure__ or ())) if nested else []
    for code in nested:
        used = [variables[name] for name in code.co_names if name in variables]
        for module in _find_imported_submodules(code, used + cells):
            if module not in submodules:
                submodules.append(module)


def _codes_in(code):
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes_in(constant)


_LOADS = "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"


def _names_of_body(code):
    """The names that the body of a class, or what depends on its names, may take from globals."""
    if code.co_flags & inspect.CO_OPTIMIZED and "__classdict__" not in code.co_freevars:
        return
    own = {"__name__"}  # which functions have anyway
    for step in dis.get_instructions(code):
        if step.opname == "STORE_NAME":
            own.add(step.argval)
        elif step.opname in _LOADS and step.argval not in own:
            yield step.argval


def _contents(cells):
    for cell in cells:
        with contextlib.suppress(ValueError):  # empty
            yield cell.cell_contents
