"""A server on the loopback that does what the cases of :mod:`pi_stream.testing.faults` say, byte by byte."""

from __future__ import annotations

import asyncio
import socket
import struct
from types import TracebackType

from pi_stream.testing._fault import Fault
from pi_stream.testing.wires import WIRES

__all__ = ["FaultServer"]


class FaultServer:
    """Answers each request as the fault says that its address stands for. Runs in the loop of its ``async with``.

    ::

        async with FaultServer() as server:
            provider = Provider("x", api=fault.api, base_url=server.base_url(fault))

    Attributes:
        requests: How many requests came, over all connections.
        open: How many connections are open.
        held: Set when a server's part comes to a step ``hold``: from there on only the client can end it.
    """

    def __init__(self) -> None:
        self.requests = 0
        self.open = 0
        self.held = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._faults: list[Fault] = []
        self._listener: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> FaultServer:
        self._listener = await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=1024)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._listener is not None
        self._listener.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def base_url(self, fault: Fault) -> str:
        """The base URL at which a fault is played."""
        assert self._listener is not None
        port = closed_port() if "refuse" in fault.steps else self._listener.sockets[0].getsockname()[1]
        self._faults.append(fault)
        return f"http://127.0.0.1:{port}/{len(self._faults) - 1}{WIRES[fault.api].base_path}"

    async def all_closed(self) -> None:
        """Wait until no connection is open. A client that leaks one lets this wait for ever."""
        await self._idle.wait()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.open += 1
        self._idle.clear()
        try:
            while not writer.is_closing():
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                await reader.readexactly(_content_length(head))
                self.requests += 1
                await self._play(self._faults[int(head.split("/")[1])], reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.transport.abort()
            self.open -= 1
            if not self.open:
                self._idle.set()

    async def _play(self, fault: Fault, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not fault.raw:
            writer.write(_head(fault))
        for step in fault.steps:
            if writer.is_closing():
                raise ConnectionResetError
            if isinstance(step, bytes):
                writer.write(step if fault.raw else b"%x\r\n%s\r\n" % (len(step), step))
                await writer.drain()
            elif isinstance(step, float):
                await asyncio.sleep(step)
            elif step == "hold":
                self.held.set()
                await _gone(reader)
                return
            else:
                if step == "reset":  # RST instead of FIN
                    linger = struct.pack("ii", 1, 0)
                    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                    writer.transport.abort()
                else:
                    writer.close()
                return
        if not fault.raw:
            writer.write(b"0\r\n\r\n")
            await writer.drain()


def closed_port() -> int:
    """A port of the loopback where nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _content_length(head: str) -> int:
    for line in head.lower().split("\r\n"):
        if line.startswith("content-length:"):
            return int(line.partition(":")[2])
    return 0


def _head(fault: Fault) -> bytes:
    headers = {
        "content-type": WIRES[fault.api].content_type,
        **fault.headers,
        "transfer-encoding": "chunked",
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {fault.status} -\r\n{lines}\r\n".encode()


async def _gone(reader: asyncio.StreamReader) -> None:
    """Wait until the client has closed its side."""
    while await reader.read(65536):
        pass
