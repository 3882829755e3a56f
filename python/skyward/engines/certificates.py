"""Certificates of one block: an authority whose key never leaves this program, and what it signs.

Needs the package `cryptography`."""

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_LIFE = datetime.timedelta(days=30)
_CLOCK_SKEW = datetime.timedelta(days=1)


@dataclass(frozen=True)
class Identity:
    """What a process needs to prove that it belongs to the block, in PEM."""

    authority: str
    certificate: str
    key: str

    def __repr__(self) -> str:
        return "Identity()"


class Authority:
    """Whoever shows a certificate of this authority belongs to the block."""

    def __init__(self, name: str) -> None:
        from cryptography.hazmat.primitives.asymmetric import ec

        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        self._certificate = self._sign(self._name, self._key.public_key(), (), is_authority=True)

    def issue(self, name: str, addresses: Sequence[str]) -> Identity:
        """A key and its certificate for a process that is reached at these IP addresses, and at
        the loopback address."""
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec

        key = ec.generate_private_key(ec.SECP256R1())
        names = list(dict.fromkeys([*addresses, "127.0.0.1"]))
        certificate = self._sign(_name(name), key.public_key(), names, is_authority=False)
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        return Identity(_pem(self._certificate), _pem(certificate), private.decode())

    def _sign(self, subject: Any, key: Any, addresses: Sequence[str], is_authority: bool) -> Any:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes

        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _CLOCK_SKEW)
            .not_valid_after(now + _LIFE)
            .add_extension(x509.BasicConstraints(is_authority, None), critical=True)
        )
        if addresses:
            known = [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
            builder = builder.add_extension(
                x509.SubjectAlternativeName([*known, x509.DNSName("localhost")]), critical=False
            )
        return builder.sign(self._key, hashes.SHA256())


def _name(text: str) -> Any:
    from cryptography import x509

    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])


def _pem(certificate: Any) -> str:
    from cryptography.hazmat.primitives import serialization

    return str(certificate.public_bytes(serialization.Encoding.PEM).decode())
