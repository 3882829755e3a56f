"""Where machines come from."""

from skyward.providers.choice import Local, Provider

__all__ = ["Local", "Provider"]
