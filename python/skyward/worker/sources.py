"""Source lines of functions that travel by value: there may be no such file where they run. Triton,
TorchScript and AutoGraph translate the source of a function, and debuggers show it. Driver and
worker use this."""

import inspect
import io
import linecache
import os
import sys
import weakref

NAME = "skyward.worker.sources"
"""This module, as its readers import it."""


def lines_of(function):
    """The text of the function, with its decorators; "" if there is none."""
    code = function.__code__
    key = id(code)  # equal ones may have other texts
    found = _texts.get(key)
    if found is None:
        forget = weakref.ref(code, lambda _: _texts.pop(key, None))
        found = _texts[key] = forget, _text_of(code, function.__globals__)
    return found[1]


_texts = {}  # by the id of a code: a reference to it, and its text


def _text_of(code, variables):
    try:
        linecache.checkcache(code.co_filename)  # it may have been edited, and run again
        lines = linecache.getlines(code.co_filename, variables)[code.co_firstlineno - 1 :]
        text = "".join(inspect.getblock(lines)) if lines and lines[0].strip() else ""
    except Exception:
        return ""
    part = "lambda" if code.co_name == "<lambda>" else f"def {code.co_name}"
    return text if part in text else ""  # the file was edited since it was run


def make_function(filename, first, text, make, arguments):
    """The function, whose `text` begins in line `first`. Lines that are known here remain."""
    if filename in _files or not (filename in linecache.cache or os.path.exists(filename)):
        lines, places = _files.setdefault(filename, ([], {}))
        new = list(io.StringIO(text))
        begin, end = first - 1, first - 1 + len(new)
        for at, after in list(places.items()):
            low, high = max(at, begin), min(after, end)
            # Of a function that was here before the file was edited, nothing remains.
            if low < high and lines[low:high] != new[low - begin : high - begin]:
                lines[at:after] = ["\n"] * (after - at)
                places.pop(at, None)
        lines.extend(["\n"] * (end - len(lines)))
        lines[begin:end] = new
        places[begin] = end
        linecache.cache[filename] = len(lines), None, lines, filename
    return make(*arguments)


_files = {}  # by name: lines, and where functions begin and end among them

# In a worker, whose modules have names of their own, this one has both.
make_function.__module__ = NAME
sys.modules.setdefault(NAME, sys.modules[__name__])
