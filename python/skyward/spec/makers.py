"""Who makes an accelerator, by its name."""

from skyward.accelerators import VENDORS

_SEPARATORS = str.maketrans("", "", " -_/")
_MAKERS = ("NVIDIA", "AMD", "AWS", "GOOGLE", "HABANA", "INTEL", "TESLA", "GEFORCE")


def is_nvidia(acc: str) -> bool:
    """True for an NVIDIA model, with or without a variant ("A100-40GB"), in upper or lower case."""
    return _vendor(acc) == "nvidia"


def is_trainium(acc: str) -> bool:
    """True for AWS's Trainium."""
    return _vendor(acc) == "aws" and "TRAINIUM" in acc.upper()


def is_gpu(acc: str) -> bool:
    """True for a GPU of NVIDIA or AMD."""
    return _vendor(acc) in ("nvidia", "amd")


def _vendor(name: str) -> str | None:
    key = str(name).translate(_SEPARATORS).upper()
    makers = [key.removeprefix(maker) for maker in _MAKERS if key.startswith(maker)]
    series = [f"RTX{key}"] if key[:1].isalpha() else []
    return next((VENDORS[one] for one in (key, *makers, *series) if one in VENDORS), None)
