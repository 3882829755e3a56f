"""What a figure is held to: a number, a peer in the same run, or a floor of the machine."""


def times(peer, figure, factor):
    """A target: `factor` times what a peer reached in the same run."""

    def target(summary, _floors):
        value = summary.get(peer, {}).get(figure)
        return None if value is None else factor * value

    target.__doc__ = f"{factor:g} × {peer}"
    return target


def own(figure, factor, words):
    """A target: `factor` times another figure of the same workload; `words` say what that is."""

    def target(summary, _floors):
        value = summary["skyward"].get(figure)
        return None if value is None else factor * value

    target.__doc__ = f"{factor:g} × {words}"
    return target


def floor(name, factor):
    """A target: `factor` times a floor of the machine."""

    def target(_summary, floors):
        return factor * floors[name]

    target.__doc__ = f"{factor:g} × {name}"
    return target
