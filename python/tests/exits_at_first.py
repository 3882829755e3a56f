"""What a signal looks like that comes while a result is unpickled."""

loads: list[int] = []
"""One for each time."""


def exit_at_first():
    loads.append(len(loads))
    if len(loads) == 1:
        raise SystemExit(3)
    return "loaded"


class ExitsAtFirst:
    """As if a signal came while it is unpickled, whose handler calls sys.exit()."""

    def __reduce__(self):
        return exit_at_first, ()
