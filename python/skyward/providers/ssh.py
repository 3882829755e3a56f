"""Machines that you already have, by SSH."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from skyward.exceptions import ConfigurationError, ConfigurationTypeError
from skyward.spec.options import text_or_none, whole

_Path = str | os.PathLike[str]


@dataclass(frozen=True)
class SSH:
    """Nodes on machines that you can log in to with OpenSSH; each host is one node.

        sky.SSH(hosts=["10.0.0.5", "me@gpu-box:2222"], user="ubuntu")

    Your own ssh configuration, keys and agent are used. The host key of every machine is verified,
    always: against `host_keys`, else against your known_hosts files. Parameters that
    you leave out come from the table ``[providers.ssh]`` of skyward.toml, under the same names.

    Parameters:
        hosts: addresses, names, or Hosts of ~/.ssh/config, each as host, user@host or
            user@host:port. A single string is one host, or several separated by commas.
        user: login name where a host names none.
        port: port where a host names none.
        identity_file: path of a private key to log in with, besides those that your ssh
            configuration names; keys of your agent are not offered then.
        jump: host, or hosts in order, through which the machines are reached.
        host_keys: the keys that the machines must show: path of a known_hosts file, lines of one,
            or a mapping from each host (as in `hosts`, and of each `jump`) to its key,
            "ssh-ed25519 AAAA…".
        config: path of an ssh configuration to use instead of ~/.ssh/config.
        preemption: "ec2" when the hosts are spot machines of EC2: Skyward listens for the
            preemption notice (see sky.on_preemption).

    More nodes than hosts are refused; hosts beyond the nodes replace those that fail. What a pool
    installs is kept in ~/.cache/skyward on the machine, for the next time."""

    hosts: Sequence[str] | str | None = None
    user: str | None = None
    port: int | None = None
    identity_file: _Path | None = None
    jump: str | Sequence[str] | None = None
    host_keys: _Path | Sequence[str] | Mapping[str, str] | None = field(default=None, hash=False)
    config: _Path | None = None
    preemption: str | None = None

    name: ClassVar[str] = "ssh"

    def __post_init__(self) -> None:
        for name in ("hosts", "jump"):
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, tuple(_words(name, value)))
        for name in ("user", "preemption"):
            text_or_none(f"SSH: {name}", getattr(self, name))
        if self.port is not None:
            object.__setattr__(self, "port", whole("SSH: port", self.port, 65535))
        for name in ("identity_file", "config"):
            path = getattr(self, name)
            if path is not None and not isinstance(path, (str, os.PathLike)):
                raise ConfigurationTypeError(f"SSH: {name}={path!r}: a path is expected, or None")

    @property
    def remote(self) -> bool:
        """Whether its nodes share no files with this machine."""
        return True

    def settings(self) -> dict[str, str]:
        """What was given, as the engine's provider reads it. Raises ConfigurationError."""
        settings = {}
        if self.hosts is not None:
            settings["hosts"] = "\n".join(_words("hosts", self.hosts))
        if self.jump is not None:
            settings["jump"] = ",".join(_words("jump", self.jump))
        if self.user is not None:
            settings["user"] = self.user
        if self.port is not None:
            settings["port"] = str(self.port)
        for name, path in (("identity_file", self.identity_file), ("config", self.config)):
            if path is not None:
                settings[name] = _absolute(path)
        if self.preemption is not None:
            settings["preemption"] = self.preemption
        if self.host_keys is not None:
            settings["host_keys"] = _host_keys(self.host_keys)
        return settings


def _absolute(path: _Path) -> str:
    return os.path.abspath(os.path.expanduser(os.fspath(path)))


def _host_keys(keys: Any) -> str:
    """A path, lines, or the keys by host as JSON."""
    if isinstance(keys, Mapping):
        return json.dumps({str(host): str(key).strip() for host, key in keys.items()})
    if isinstance(keys, (str, os.PathLike)):
        text = os.fspath(keys)
        return _absolute(text) if " " not in text.strip() or os.path.exists(text) else text
    return "\n".join(_words("host_keys", keys))


def _words(name: str, value: Any) -> list[str]:
    if not isinstance(value, (str, list, tuple)):
        raise ConfigurationTypeError(f"SSH({name}={value!r}): a list of strings is expected")
    words = value.split(",") if isinstance(value, str) else list(value)
    for word in words:
        if not isinstance(word, str) or not word.strip() or "\n" in word:
            raise ConfigurationError(f"SSH({name}=…): {word!r} is not a line of text")
    if not words:
        raise ConfigurationError(f"SSH({name}=…) is empty; name some, or leave it out")
    return [word.strip() for word in words]
