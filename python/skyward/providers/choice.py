"""Which provider a pool takes: a value, a name, or the one of the settings."""

from typing import Any, ClassVar, Protocol

from skyward.base.extension import compiled
from skyward.exceptions import ConfigurationError
from skyward.providers.local import Local


class Provider(Protocol):
    """What a pool needs to know of a provider on this side. `sky.Local()`, `sky.AWS()` and the
    other clouds are such values."""

    name: ClassVar[str]

    @property
    def remote(self) -> bool:
        """Its nodes share no files with this machine."""

    def settings(self) -> dict[str, str]:
        """What the engine's half of the provider needs to know, as text."""


def resolve_providers(provider: Any) -> tuple[Any, ...]:
    """The providers that a pool may take: the one it is given, or those of the list."""
    if not isinstance(provider, (list, tuple)):
        return (resolve_provider(provider),)
    if not provider:
        raise ConfigurationError(
            f"provider={provider!r}: the list is empty; leave provider out for this machine"
        )
    return tuple(map(resolve_provider, provider))


def resolve_provider(provider: Any) -> Any:
    """The provider that a pool is given: a value, or a name for one with nothing said. None means
    the one of $SKYWARD_PROVIDER, else of skyward.toml, else this machine.

    $SKYWARD_PROVIDER=local uses this machine instead of the cloud that a program names, to try the
    program out."""
    provider = _taken(provider)
    if provider == Local.name:
        return Local()
    if isinstance(provider, str):
        known = _known()
        if provider in known:
            return known[provider]()
        from difflib import get_close_matches

        spelled = provider.lower().replace("-", "").replace("_", "").replace(".", "")
        near = [name for name in known if name.replace("_", "") == spelled]
        near = near or get_close_matches(provider, known, 1)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        raise ConfigurationError(
            f"provider={provider!r}: unknown provider{hint}"
            f" Choose one of {', '.join(map(repr, known))}"
        )
    if not isinstance(provider, type) and all(
        hasattr(provider, part) for part in ("name", "remote", "settings")
    ):
        return provider
    call = f"; make one: {provider.__name__}()" if isinstance(provider, type) else ""
    if isinstance(provider, (list, tuple)):
        call = "; a list contains providers, not lists"
    raise ConfigurationError(
        f"provider={provider!r}: this is not a provider{call}. Use one of"
        f" {', '.join(f'{kind.__name__}()' for kind in _known().values())}, or its name"
    )


def _taken(provider: Any) -> Any:
    """The provider, or the name of the one that the settings choose."""
    named = provider if isinstance(provider, str) else getattr(type(provider), "name", None)
    if provider is None:
        named = ""
    elif not isinstance(named, str) or not named:
        return provider
    core = compiled()
    taken = core.provider_to_take(named) if core else named or Local.name
    return provider if taken == named else taken


def _known() -> dict[str, type[Any]]:
    """The classes by name. To make them takes time: a local pool does without."""
    from skyward.providers.clouds import CLOUDS
    from skyward.providers.command import Command
    from skyward.providers.ssh import SSH

    return {Local.name: Local, "ssh": SSH, "command": Command, **CLOUDS}
