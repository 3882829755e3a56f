"""The API server of a cluster for tests: HTTPS, tokens and `exec`, in front of skyward-double,
which decides everything else."""

import asyncio
import json
import ssl
import subprocess
import threading
import urllib.parse
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests
from specification import Specification
from streams import SpdyStreams, WebSocketStreams, serve

Exec = Callable[[str, list[str]], Coroutine[Any, Any, asyncio.subprocess.Process]]
SPDY_VERSION = "v4.channel.k8s.io"


@dataclass
class Asked:
    method: str
    target: str
    headers: dict[str, str]
    head: bytes
    body: bytes

    @property
    def path(self) -> str:
        return urllib.parse.urlsplit(self.target).path

    @property
    def query(self) -> dict[str, list[str]]:
        return urllib.parse.parse_qs(urllib.parse.urlsplit(self.target).query)


def status_body(code: int, reason: str, message: str) -> bytes:
    return json.dumps(
        {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": reason,
            "code": code,
        }
    ).encode()


def make_certificate(folder: Path) -> Path:
    """Self-signed, for 127.0.0.1; key and certificate in one file."""
    file = folder / "server.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
        + ["-nodes", "-days", "2", "-subj", "/CN=kubernetes", "-addext"]
        + ["subjectAltName=IP:127.0.0.1", "-keyout", str(folder / "key.pem"), "-out"]
        + [str(folder / "cert.pem")],
        check=True,
        capture_output=True,
    )
    file.write_text((folder / "key.pem").read_text() + (folder / "cert.pem").read_text())
    return file


class ApiServer:
    """Runs on a thread of its own until close(). `double`: the address of the double."""

    def __init__(
        self, folder: Path, double: str, run: Exec, specification: Specification | None
    ) -> None:
        self.double = double
        self.run = run
        self.specification = specification
        self.tokens = {"secret": "jane"}
        self.forbidden: set[str] = set()
        self.ways: set[str] = set()  # by which `exec` came
        self.broken: list[str] = []
        self.connections: set[asyncio.StreamWriter] = set()
        self.certificate = make_certificate(folder)
        self.loop = asyncio.new_event_loop()
        started: threading.Event = threading.Event()
        self.thread = threading.Thread(target=self._serve, args=(started,))
        self.thread.start()
        assert started.wait(10)

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.stopping.set)
        self.thread.join(20)

    def refuse(self) -> None:
        """Ends every connection and refuses others until listen(), as while it restarts."""
        self.loop.call_soon_threadsafe(self.server.close)
        self.cut()

    def listen(self) -> None:
        asyncio.run_coroutine_threadsafe(self._listen(self.port), self.loop).result(10)

    def cut(self) -> None:
        """Ends every connection, as a load balancer may."""
        for writer in list(self.connections):
            self.loop.call_soon_threadsafe(writer.transport.abort)

    def _serve(self, started: threading.Event) -> None:
        asyncio.set_event_loop(self.loop)

        async def main() -> None:
            self.stopping = asyncio.Event()
            await self._listen(0)
            started.set()
            await self.stopping.wait()
            self.server.close()
            for writer in list(self.connections):
                writer.transport.abort()
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()

        self.loop.run_until_complete(main())
        self.loop.run_until_complete(asyncio.sleep(0))
        self.loop.close()

    async def _listen(self, port: int) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate)
        self.server = await asyncio.start_server(self._connection, "127.0.0.1", port, ssl=context)
        self.port = self.server.sockets[0].getsockname()[1]

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections.add(writer)
        try:
            while asked := await self._read(reader):
                if not await self._answer(asked, reader, writer):
                    break
        except (ConnectionError, OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        except AssertionError as error:
            self.broken.append(repr(error))
        finally:
            self.connections.discard(writer)
            writer.close()

    async def _read(self, reader: asyncio.StreamReader) -> Asked | None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return None
        first, *lines = head.decode("latin-1").rstrip().split("\r\n")
        method, target, _ = first.split(" ")
        headers: dict[str, str] = {}
        for line in lines:
            name, _, value = line.partition(":")
            known = headers.get(name.lower())
            headers[name.lower()] = f"{known}, {value.strip()}" if known else value.strip()
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        if headers.get("transfer-encoding") == "chunked":
            while size := int((await reader.readline()).strip() or b"0", 16):
                body += await reader.readexactly(size)
                await reader.readline()
            await reader.readline()
        return Asked(method, target, headers, head, body)

    async def _reply(self, writer: asyncio.StreamWriter, code: int, body: bytes) -> None:
        writer.write(
            b"HTTP/1.1 %d Status\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
            % (code, len(body))
            + body
        )
        await writer.drain()

    async def _answer(
        self, asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """False when the connection is used up."""
        token = asked.headers.get("authorization", "").removeprefix("Bearer ")
        if token not in self.tokens:
            await self._reply(writer, 401, status_body(401, "Unauthorized", "Unauthorized"))
            return True
        if asked.path.endswith("/exec"):
            return await self._exec(asked, reader, writer)
        code, body = await asyncio.to_thread(self._forward, asked)
        await self._reply(writer, code, body)
        return True

    def _forward(self, asked: Asked) -> tuple[int, bytes]:
        sent = json.loads(asked.body) if asked.body else None
        if self.specification is not None:
            wrong = self.specification.request(asked.method, asked.path, sent)
            if wrong:
                return 400, status_body(400, "BadRequest", wrong[0])
        reply = requests.request(
            asked.method, self.double + asked.target, data=asked.body, timeout=20
        )
        if self.specification is not None:
            told = reply.json() if reply.content else None
            self.specification.reply(asked.method, asked.path, reply.status_code, told)
        return reply.status_code, reply.content

    async def _exec(
        self, asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        pod = asked.path.removesuffix("/exec")
        name = pod.rpartition("/")[2]
        if "create pods/exec" in self.forbidden:
            words = f'pods "{name}" is forbidden: User "jane" cannot create resource "pods/exec"'
            await self._reply(writer, 403, status_body(403, "Forbidden", words))
            return True
        reply = await asyncio.to_thread(requests.get, self.double + pod, timeout=20)
        if reply.status_code != 200:
            await self._reply(writer, reply.status_code, reply.content)
            return True
        phase = reply.json()["status"]["phase"]
        if phase != "Running":
            words = f"cannot exec into a container in a completed pod; current phase is {phase}"
            await self._reply(writer, 500, status_body(500, "InternalError", words))
            return True
        wanted = {
            stream
            for stream in ("stdin", "stdout", "stderr")
            if asked.query.get(stream, [""])[0] in ("true", "1", "True")
        }
        streams: SpdyStreams | WebSocketStreams
        if asked.headers.get("upgrade", "").lower() == "websocket":
            streams = WebSocketStreams(reader, writer, asked.head)
            await streams.accept()
            self.ways.add("websocket")
        else:
            assert asked.headers.get("upgrade") == "SPDY/3.1", asked.headers
            writer.write(
                b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
                b"X-Stream-Protocol-Version: " + SPDY_VERSION.encode() + b"\r\n\r\n"
            )
            streams = SpdyStreams(reader, writer)
            await streams.open(wanted | {"error"})
            self.ways.add("spdy")
        process = await self.run(name, asked.query["command"])
        await serve(streams, process)
        return False
