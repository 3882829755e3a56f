"""Machines that one has already, by SSH."""

import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar

from skyward.exceptions import ConfigurationError

_Path = str | os.PathLike[str]


@dataclass(frozen=True)
class SSH:
    """Nodes on machines that you can log in to with OpenSSH; each host is one node.

        sky.SSH(hosts=["10.0.0.5", "me@gpu-box:2222"], user="ubuntu")

    Your own ssh configuration, keys and agent are used. The host key of every machine is verified,
    always: against `host_keys`, else against your known_hosts files.

    Parameters:
        hosts: addresses, names, or Hosts of ~/.ssh/config, each as host, user@host or
            user@host:port. None: the inventory of the nearest skyward.toml, a table
            ``[providers.ssh]`` with the names of these parameters.
        user: login name where a host names none.
        port: port where a host names none.
        identity_file: path of the private key to use, and no other.
        jump: host, or hosts in order, by way of which the machines are reached.
        host_keys: the keys that the machines must show: path of a known_hosts file, lines of one,
            or a mapping from each host (as in `hosts`, and of each `jump`) to its key,
            "ssh-ed25519 AAAA…".
        config: path of an ssh configuration to use instead of ~/.ssh/config.
        preemption: "ec2" when the hosts are spot machines of EC2: the notice that comes before they
            are taken back is listened for (see sky.on_preemption).

    More nodes than hosts are refused; hosts beyond the nodes replace those that fail. What a pool
    installs is kept in ~/.cache/skyward on the machine, for the next time."""

    hosts: Sequence[str] | None = None
    user: str | None = None
    port: int | None = None
    identity_file: _Path | None = None
    jump: str | Sequence[str] | None = None
    host_keys: _Path | Sequence[str] | Mapping[str, str] | None = field(default=None, hash=False)
    config: _Path | None = None
    preemption: str | None = None

    name: ClassVar[str] = "ssh"
    remote: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for name in ("hosts", "jump"):
            if isinstance(value := getattr(self, name), list):
                object.__setattr__(self, name, tuple(value))

    def settings(self) -> dict[str, str]:
        """What the engine's provider needs to know, as text. Raises ConfigurationError."""
        full = self if self.hosts is not None else _with_inventory(self)
        hosts, jumps = _words("hosts", full.hosts), _words("jump", full.jump)
        settings = {"hosts": "\n".join(hosts), "jump": ",".join(jumps)}
        if full.user is not None:
            settings["user"] = full.user
        if full.port is not None:
            settings["port"] = str(full.port)
        for name, path in (("identity_file", full.identity_file), ("config", full.config)):
            if path is not None:
                settings[name] = os.path.abspath(os.path.expanduser(path))
        if full.preemption is not None:
            settings["preemption"] = full.preemption
        settings.update(_host_keys(full.host_keys, hosts, jumps, full.port))
        return settings

    def check(self, accelerator: Any, cpu: int | None, memory: str | None, volume: Any) -> None:
        """Refuses what nobody can promise of machines that are as they are."""
        for name, value in (("accelerator", accelerator), ("cpu", cpu), ("memory", memory)):
            if value is not None:
                raise ConfigurationError(
                    f"{name}={value!r}: SSH takes the machines that you name as they are; leave"
                    f" {name} out and name machines that have it"
                )


def _host_keys(
    keys: Any, hosts: Sequence[str], jumps: Sequence[str], port: int | None
) -> dict[str, str]:
    if keys is None:
        return {}
    if isinstance(keys, (str, os.PathLike)):
        text = os.fspath(keys)
        if isinstance(text, str) and (" " not in text.strip() or os.path.exists(text)):
            return {"known_hosts": os.path.abspath(os.path.expanduser(text))}
        return {"host_keys": str(text)}
    if not isinstance(keys, Mapping):
        return {"host_keys": "\n".join(_words("host_keys", keys))}
    missing = [host for host in [*hosts, *jumps] if host not in keys]
    if missing:
        raise ConfigurationError(
            f"host_keys has no key for {', '.join(missing)}: each host needs one, so that nothing"
            " else can stand in its place"
        )
    lines = [f"{_alias(host, port)} {keys[host].strip()}" for host in hosts]
    lines += [f"{_alias(host, None)} {keys[host].strip()}" for host in jumps]
    return {"host_keys": "\n".join(lines), "pinned": "1"}


def _alias(host: str, port: int | None) -> str:
    """The name under which the engine's provider looks a pinned key up."""
    name = host.removeprefix("ssh://").rpartition("@")[2].lower()
    own_port = name.startswith("[") or name.count(":") == 1
    if own_port or port is None:
        return name
    return f"[{name}]:{port}" if ":" in name else f"{name}:{port}"


def _words(name: str, value: Any) -> list[str]:
    if value is None:
        return []
    words = value.split(",") if isinstance(value, str) else list(value)
    for word in words:
        if not isinstance(word, str) or not word.strip() or "\n" in word:
            raise ConfigurationError(f"SSH({name}=…): {word!r} is no line of text")
    return [word.strip() for word in words]


def _with_inventory(provider: SSH) -> SSH:
    """The provider with what skyward.toml says of everything that it leaves open."""
    path = _inventory()
    if path is None:
        raise ConfigurationError(
            "SSH() names no hosts, and neither this folder nor one above it has a skyward.toml;"
            " give hosts=[…]"
        )
    try:
        table = tomllib.loads(path.read_text()).get("providers", {}).get("ssh")
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}") from None
    known = {field.name for field in fields(SSH)}
    if not isinstance(table, dict) or not table.get("hosts"):
        raise ConfigurationError(f"{path} has no hosts in a table [providers.ssh]")
    if unknown := sorted(table.keys() - known):
        raise ConfigurationError(
            f"{path}: [providers.ssh] has no setting {unknown[0]!r}; known are"
            f" {', '.join(sorted(known))}"
        )
    values = {
        name: _from_file(path, name, value)
        for name, value in table.items()
        if getattr(provider, name) is None
    }
    return replace(provider, **values)


def _from_file(path: Path, name: str, value: Any) -> Any:
    """Paths in the file are relative to it."""
    if name in ("identity_file", "config") or (
        name == "host_keys" and isinstance(value, str) and " " not in value
    ):
        return path.parent / Path(value).expanduser()
    return value


def _inventory() -> Path | None:
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / "skyward.toml").is_file():
            return folder / "skyward.toml"
    return None
