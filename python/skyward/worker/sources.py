"""Source lines of functions that travel by value: there may be no such file where they run. Triton,
TorchScript and AutoGraph translate the source of a function, and debuggers show it. Driver and
worker use this."""

import inspect
import linecache
import os
import sys
import weakref

NAME = "skyward.worker.sources"
"""This module, as its readers import it."""


def lines_of(function):
    """The text of the function, with its decorators; "" if there is none."""
    code = function.__code__
    text = _texts.get(code)
    if text is None:
        text = _texts[code] = _text_of(code, function.__globals__)
    return text


_texts = weakref.WeakKeyDictionary()  # by code


def _text_of(code, variables):
    try:
        lines = linecache.getlines(code.co_filename, variables)[code.co_firstlineno - 1 :]
        return "".join(inspect.getblock(lines))
    except Exception:  # the file is another one by now
        return ""


def make_function(filename, first, text, make, arguments):
    """The function, whose `text` begins in line `first`. A file that is here has the say."""
    known = _files.get(filename)
    if known is None and not os.path.exists(filename):
        known = _files[filename] = []
    if known is not None:
        at, lines = first - 1, text.splitlines(keepends=True)
        known.extend(["\n"] * (at + len(lines) - len(known)))
        known[at : at + len(lines)] = lines
        linecache.cache[filename] = len(known), None, known, filename
    return make(*arguments)


_files = {}  # lines by the name of the file; those that nobody sent are empty

# In a worker, whose modules have names of their own, this one has both.
make_function.__module__ = NAME
sys.modules.setdefault(NAME, sys.modules[__name__])
