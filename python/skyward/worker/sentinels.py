"""Values that are compared by identity, which pickle would copy."""

import copyreg


def keep_sentinels() -> None:
    """From now on, this process pickles those of dataclasses by name."""
    import dataclasses  # which takes as long to import as a worker to start

    for name in ("MISSING", "KW_ONLY", "_HAS_DEFAULT_FACTORY"):
        copyreg.pickle(type(getattr(dataclasses, name)), lambda _, name=name: name)
