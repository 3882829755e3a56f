"""Values that are compared by identity, which pickle would copy."""

import copyreg
import dataclasses


def keep_sentinels() -> None:
    """From now on, this process pickles those of dataclasses by name."""
    for name in ("MISSING", "KW_ONLY", "_HAS_DEFAULT_FACTORY"):
        copyreg.pickle(type(getattr(dataclasses, name)), lambda _, name=name: name)
