"""Servers on the loopback that answer byte by byte what a test says, and transports that are closed after it."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from attrs import define, field

from pi_stream.http import HttpRequest
from pi_stream.transport.aiohttp import AiohttpBody, AiohttpTransport

SSE_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"


@define(eq=False)
class Exchange:
    """One request that a server received, and the connection to answer it on."""

    head: str
    body: bytes
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @property
    def request_line(self) -> str:
        return self.head.partition("\r\n")[0]

    @property
    def headers(self) -> dict[str, str]:
        lines = self.head.split("\r\n")[1:]
        return {
            name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)
        }

    async def send(self, *pieces: bytes) -> None:
        """Write each piece by itself; a reader that is waiting gets them one by one."""
        for piece in pieces:
            if self.writer.is_closing():
                raise ConnectionResetError
            self.writer.write(piece)
            await self.writer.drain()
            await asyncio.sleep(0.005)

    async def start(self) -> None:
        """The head of a chunked event stream."""
        await self.send(SSE_HEAD + b"transfer-encoding: chunked\r\n\r\n")

    async def chunks(self, *pieces: bytes) -> None:
        await self.send(*(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces))

    async def end(self) -> None:
        await self.send(b"0\r\n\r\n")

    async def closed(self) -> None:
        """Wait until the client has closed its side."""
        try:
            while await self.reader.read(65536):
                pass
        except ConnectionError:
            pass

    def reset(self) -> None:
        """Close with RST, as a crashed server or a load balancer does."""
        self.writer.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
        )
        self.writer.transport.abort()


@define(eq=False)
class Server:
    """A server for raw bytes. Answers every request of a connection, until the answer function closes it.

    Attributes:
        accepted: Connections so far.
        open: Connections that are open now.
        exchanges: All requests so far.
    """

    answer: Callable[[Exchange], Awaitable[None]]
    scheme: str
    port: int = 0
    accepted: int = 0
    open: int = 0
    exchanges: list[Exchange] = field(factory=list)
    tasks: set[asyncio.Task[Any]] = field(factory=set)

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        self.accepted += 1
        self.open += 1
        try:
            while not writer.is_closing():
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                exchange = Exchange(head, b"", reader, writer)
                exchange.body = await reader.readexactly(int(exchange.headers.get("content-length", 0)))
                self.exchanges.append(exchange)
                await self.answer(exchange)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self.open -= 1
            self.tasks.discard(task)
            writer.transport.abort()

    async def all_closed(self) -> None:
        """Wait until no connection is open; a leak hangs here, and the test with it."""
        async with asyncio.timeout(20):
            while self.open:
                await asyncio.sleep(0.005)


Serve = Callable[..., Awaitable[Server]]


@pytest.fixture
async def serve(anyio_backend: Any) -> AsyncIterator[Serve]:
    """Starts a server with an answer function; it is stopped after the test."""
    running: list[tuple[Server, asyncio.Server]] = []

    async def start(
        answer: Callable[[Exchange], Awaitable[None]], *, tls: ssl.SSLContext | None = None
    ) -> Server:
        server = Server(answer, "https" if tls else "http")
        listener = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=tls)
        server.port = listener.sockets[0].getsockname()[1]
        running.append((server, listener))
        return server

    yield start
    for server, listener in running:
        listener.close()
        for task in tuple(server.tasks):
            task.cancel()
        await asyncio.gather(*server.tasks)


class KeepingTransport(AiohttpTransport):
    """Keeps its bodies until it is closed, so that a test need not: dropping one open is a ResourceWarning."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.kept: list[AiohttpBody] = []

    async def send(self, request: HttpRequest, **limits: Any) -> AiohttpBody:
        body = await super().send(request, **limits)
        self.kept.append(body)
        return body


@pytest.fixture
async def connect(anyio_backend: Any) -> AsyncIterator[Callable[..., AiohttpTransport]]:
    """Makes transports that ignore the environment unless told; they are closed after the test."""
    transports: list[KeepingTransport] = []

    def make(**arguments: Any) -> KeepingTransport:
        transports.append(KeepingTransport(**{"trust_env": False, **arguments}))
        return transports[-1]

    yield make
    for transport in transports:
        await transport.aclose()


@pytest.fixture
def transport(connect: Callable[..., AiohttpTransport]) -> AiohttpTransport:
    """One such transport."""
    return connect()


@pytest.fixture
def closed_port() -> int:
    """A port where nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
