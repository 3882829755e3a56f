"""SPDY/3.1 as far as `kubectl exec` speaks it: streams with headers, data, and their ends. Without
input and output of its own: bytes go in, events come out. Its clients do not count windows."""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

_NAMES = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language"
    " accept-ranges age allow authorization cache-control connection content-base content-encoding"
    " content-language content-length content-location content-md5 content-range content-type date"
    " etag expect expires from host if-match if-modified-since if-none-match if-range"
    " if-unmodified-since last-modified location max-forwards pragma proxy-authenticate"
    " proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade"
    " user-agent vary via warning www-authenticate method get status"
).split()
_REST = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request"
    "401 Unauthorized403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented"
    "503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00"
    " Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,"
    "application/xml,application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age=gzip,"
    "deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)


def _counted(texts: list[str]) -> bytes:
    return b"".join(struct.pack(">I", len(text)) + text.encode() for text in texts)


# What compressed headers begin with, by the protocol's specification.
DICTIONARY = (
    _counted([*_NAMES, "200 OK", "version", "HTTP/1.1", "url", "public", "set-cookie"])
    + _counted(["keep-alive", "origin"])
    + _REST.encode()
)

SYN_STREAM, SYN_REPLY, RST_STREAM, SETTINGS, PING, GOAWAY = 1, 2, 3, 4, 6, 7
FIN = 1


@dataclass
class Opened:
    stream: int
    headers: dict[str, str]


@dataclass
class Data:
    stream: int
    data: bytes
    last: bool


@dataclass
class Closed:
    """A stream that the client has given up, or all of them (0)."""

    stream: int


Event = Opened | Data | Closed


class Connection:
    """The server's end. What has to be sent is in `out`."""

    def __init__(self) -> None:
        self.out = bytearray()
        self._rest = bytearray()
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    def receive(self, data: bytes) -> Iterator[Event]:
        self._rest += data
        while len(self._rest) >= 8:
            first, second = struct.unpack(">II", self._rest[:8])
            flags, length = second >> 24, second & 0xFFFFFF
            if len(self._rest) < 8 + length:
                return
            payload = bytes(self._rest[8 : 8 + length])
            del self._rest[: 8 + length]
            if not first >> 31:
                yield Data(first, payload, bool(flags & FIN))
                continue
            assert first >> 16 & 0x7FFF == 3, "not SPDY/3"
            yield from self._control(first & 0xFFFF, payload)

    def _control(self, kind: int, payload: bytes) -> Iterator[Event]:
        if kind == SYN_STREAM:
            (stream,) = struct.unpack(">I", payload[:4])
            headers = self._headers(payload[10:])
            self._frame(SYN_REPLY, struct.pack(">I", stream) + self._block({}))
            yield Opened(stream, headers)
        elif kind == PING:
            self._frame(PING, payload)
        elif kind == RST_STREAM:
            yield Closed(struct.unpack(">I", payload[:4])[0])
        elif kind == GOAWAY:
            yield Closed(0)
        else:
            assert kind == SETTINGS, f"a frame of the kind {kind}"

    def send(self, stream: int, data: bytes, last: bool = False) -> None:
        for at in range(0, max(len(data), 1), 1 << 15):
            part = data[at : at + (1 << 15)]
            is_last = last and at + len(part) == len(data)
            self.out += struct.pack(">II", stream, (FIN if is_last else 0) << 24 | len(part)) + part

    def _frame(self, kind: int, payload: bytes) -> None:
        self.out += struct.pack(">II", 1 << 31 | 3 << 16 | kind, len(payload)) + payload

    def _headers(self, block: bytes) -> dict[str, str]:
        plain = self._inflate.decompress(block)
        (count,) = struct.unpack(">I", plain[:4])
        texts, at = [], 4
        for _ in range(2 * count):
            (size,) = struct.unpack(">I", plain[at : at + 4])
            texts.append(plain[at + 4 : at + 4 + size].decode())
            at += 4 + size
        return dict(zip(texts[::2], texts[1::2], strict=True))

    def _block(self, headers: dict[str, str]) -> bytes:
        texts = [text for pair in headers.items() for text in pair]
        plain = struct.pack(">I", len(headers)) + _counted(texts)
        return self._deflate.compress(plain) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
