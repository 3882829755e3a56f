"""The four streams of `kubectl exec`, over SPDY or WebSocket, between a client and a process."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress

import spdy
from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Message,
    Ping,
    Request,
    TextMessage,
)

CHANNELS = ("stdin", "stdout", "stderr", "error")
CLOSE_CHANNEL = 255  # of version 5: one more byte says which channel the client has closed
CHUNK = 1 << 16


class Streams:
    """What both ways have in common. `incoming` yields stdin until its end."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.gone = False  # the client is

    async def incoming(self) -> AsyncIterator[bytes]:
        raise NotImplementedError
        yield b""

    async def send(self, channel: str, data: bytes, last: bool = False) -> None:
        raise NotImplementedError

    async def read(self) -> bytes:
        """Empty when the connection has ended."""
        with suppress(ConnectionError, OSError):
            return await self.reader.read(CHUNK)
        return b""

    async def flush(self, data: bytes) -> None:
        with suppress(ConnectionError, OSError):
            self.writer.write(data)
            await self.writer.drain()


class SpdyStreams(Streams):
    """After `Upgrade: SPDY/3.1`. The client opens a stream for each channel that it wants."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        super().__init__(reader, writer)
        self.connection = spdy.Connection()
        self.numbers: dict[str, int] = {}
        self.early: list[spdy.Event] = []

    async def open(self, wanted: set[str]) -> None:
        while set(self.numbers) != wanted:
            data = await self.read()
            assert data, "the client has gone before it opened its streams"
            for event in self.connection.receive(data):
                if isinstance(event, spdy.Opened):
                    self.numbers[event.headers["streamtype"]] = event.stream
                else:
                    self.early.append(event)
            await self._flush()

    async def incoming(self) -> AsyncIterator[bytes]:
        while True:
            for event in self.early:
                if isinstance(event, spdy.Closed):
                    self.gone = event.stream in (0, self.numbers.get("stdin"))
                elif isinstance(event, spdy.Data) and event.stream == self.numbers.get("stdin"):
                    yield event.data
                    if event.last:
                        return
                if self.gone:
                    return
            data = await self.read()
            if not data:
                self.gone = True
                return
            self.early = list(self.connection.receive(data))
            await self._flush()

    async def send(self, channel: str, data: bytes, last: bool = False) -> None:
        if channel in self.numbers:
            self.connection.send(self.numbers[channel], data, last)
            await self._flush()

    async def _flush(self) -> None:
        out, self.connection.out = bytes(self.connection.out), bytearray()
        if out:
            await self.flush(out)


class WebSocketStreams(Streams):
    """Each message begins with the number of its channel."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes
    ) -> None:
        super().__init__(reader, writer)
        self.connection = WSConnection(ConnectionType.SERVER)
        self.connection.receive_data(head)
        self.request = next(iter(self.connection.events()))
        assert isinstance(self.request, Request)

    async def accept(self) -> None:
        assert isinstance(self.request, Request)
        known = [f"v{number}.channel.k8s.io" for number in (5, 4)]
        chosen = next(name for name in known if name in self.request.subprotocols)
        await self.flush(self.connection.send(AcceptConnection(subprotocol=chosen)))

    async def incoming(self) -> AsyncIterator[bytes]:
        message = b""
        while True:
            data = await self.read()
            if not data:
                self.gone = True
                return
            self.connection.receive_data(data)
            for event in self.connection.events():
                if isinstance(event, Ping):
                    await self.flush(self.connection.send(event.response()))
                elif isinstance(event, CloseConnection):
                    self.gone = True
                    return
                elif isinstance(event, BytesMessage | TextMessage):
                    part = event.data
                    message += part.encode() if isinstance(part, str) else bytes(part)
                    if not event.message_finished:
                        continue
                    whole, message = message, b""
                    if whole[:1] == b"\0":
                        yield whole[1:]
                    elif whole[:2] == bytes((CLOSE_CHANNEL, 0)):
                        return

    async def send(self, channel: str, data: bytes, last: bool = False) -> None:
        if data:
            number = bytes((CHANNELS.index(channel),))
            with suppress(Exception):  # it may have been closed
                await self.flush(self.connection.send(Message(data=number + data)))
        if channel == "error" and last:
            with suppress(Exception):
                await self.flush(self.connection.send(CloseConnection(code=1000)))


def outcome(code: int) -> bytes:
    """What the stream "error" says in the end."""
    if code == 0:
        return json.dumps({"metadata": {}, "status": "Success"}).encode()
    return json.dumps(
        {
            "metadata": {},
            "status": "Failure",
            "reason": "NonZeroExitCode",
            "message": f"command terminated with non-zero exit code: exit status {code}",
            "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
        }
    ).encode()


async def serve(streams: Streams, process: asyncio.subprocess.Process) -> None:
    """Copies until the process has ended and all that it wrote is sent. A client that goes leaves
    the process: its input ends, as at a kubelet."""

    async def feed() -> None:
        assert process.stdin is not None
        with suppress(ConnectionError, OSError):
            async for data in streams.incoming():
                process.stdin.write(data)
                await process.stdin.drain()
        process.stdin.close()

    async def copy(source: asyncio.StreamReader | None, channel: str) -> None:
        assert source is not None
        while data := await source.read(CHUNK):
            await streams.send(channel, data)
        await streams.send(channel, b"", last=True)

    feeding = asyncio.create_task(feed())
    try:
        await asyncio.gather(copy(process.stdout, "stdout"), copy(process.stderr, "stderr"))
        code = await process.wait()
        await streams.send("error", outcome(code if code >= 0 else 128 - code), last=True)
    finally:
        feeding.cancel()
