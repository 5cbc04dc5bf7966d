"""A thousand streams at once, for as long as one likes: a server and a client, each in a process of its own.

``python tests/soak.py server`` prints its port; ``python tests/soak.py client PORT SECONDS`` prints what came of it as JSON.
The server does what the name of the model says, such as ``ok-8``: eight pieces, or ``cut-3``: it breaks off after three.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import json
import random
import re
import resource
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from chat_bodies import chat_chunk

from pi_stream import Client, Limits, Provider, RetryPolicy

STREAMS = 1000
PIECES = 8
PAUSE = 0.4
FAULTS = ("cut", "reset", "error", "busy", "stall", "short", "broken")
KINDS = {
    "cut": "transport",
    "reset": "transport",
    "error": "overloaded",
    "stall": "timeout_idle",
    "short": "truncated",
    "broken": "malformed",
}
LIMITS = Limits(idle=3 * PAUSE)
END = chat_chunk(finish="stop") + b"data: [DONE]\n\n"
USAGE = {"prompt_tokens": 3, "completion_tokens": PIECES}
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
BUSY = b"HTTP/1.1 503 Busy\r\nretry-after-ms: 20\r\ncontent-length: 0\r\n\r\n"


def piece(number: int) -> str:
    return f"piece {number} of a text; "


def allow_sockets() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, 8192), hard), hard))


# --- the server ---------------------------------------------------------------------------------------------------------


class Server:
    def __init__(self) -> None:
        self.requests = 0
        self.open = 0
        self.busy: set[str] = set()  # streams that were sent away once

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        try:
            while not writer.is_closing():
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                if head.startswith("GET"):
                    told = json.dumps({"requests": self.requests, "open": self.open - 1}).encode()
                    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(told), told))
                    continue
                size = re.search(r"content-length: (\d+)", head, re.IGNORECASE)
                request = json.loads(await reader.readexactly(int(size[1]) if size else 0))
                self.requests += 1
                await self.answer(request, reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.open -= 1
            writer.transport.abort()

    async def answer(
        self, request: dict[str, Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        kind, _, count = request["model"].partition("-")
        name = request["messages"][-1]["content"]
        if kind == "busy" and name not in self.busy:
            self.busy.add(name)
            writer.write(BUSY)
            return
        self.busy.discard(name)
        writer.write(HEAD)
        for number in range(int(count)):
            send(writer, chat_chunk({"content": piece(number)}))
            await writer.drain()
            await asyncio.sleep(PAUSE)
        if kind == "stall":
            await reader.read()  # until the client has enough
        if kind in ("cut", "reset"):
            writer.write(b"fff\r\nhalf a chunk")
            writer.transport.abort() if kind == "reset" else writer.close()
            return
        if kind == "error":
            send(writer, b'data: {"error": {"message": "busy", "type": "overloaded_error"}}\n\n')
        if kind == "broken":
            send(writer, b'data: {"broken\n\n')
        if kind in ("ok", "busy"):
            send(writer, chat_chunk(finish="stop", usage=USAGE) + b"data: [DONE]\n\n")
        writer.write(b"0\r\n\r\n")


def send(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(b"%x\r\n%s\r\n" % (len(data), data))


async def run_server() -> None:
    allow_sockets()
    listener = await asyncio.start_server(Server().serve, "127.0.0.1", 0, backlog=2048)
    print(listener.sockets[0].getsockname()[1], flush=True)
    await listener.serve_forever()


# --- the client -----------------------------------------------------------------------------------------------------------


class Soak:
    """Runs streams, and notes what contradicts what was asked for."""

    def __init__(self, client: Client, chance: random.Random) -> None:
        self.client = client
        self.chance = chance
        self.number = 0
        self.sent = 0
        self.outcomes: Counter[str] = Counter()
        self.wrong: list[str] = []

    async def run(self, until: float) -> None:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(STREAMS):
                tasks.create_task(self.streams(until))

    async def streams(self, until: float) -> None:
        await asyncio.sleep(self.chance.random() * PIECES * PAUSE)  # not all in step
        while time.monotonic() < until:
            await self.one()

    async def one(self) -> None:
        chance = self.chance.random()
        kind, count = "ok", PIECES
        if chance < 0.05:
            kind, count = self.chance.choice(FAULTS), self.chance.randrange(1, PIECES)
        leaving = (
            self.chance.choice(("abort", "leave", "cancel", "task")) if 0.05 <= chance < 0.25 else "read"
        )
        after = self.chance.randrange(1, PIECES)
        self.number += 1
        stream = self.client.stream(f"soak/{kind}-{count}", f"stream {self.number}", on_request=self.count)
        events: list[str] = []
        try:
            async with asyncio.timeout(None) as scope, stream:
                async for event in stream:
                    events.append(event.type)
                    if leaving != "read" and events.count("text_delta") == after:
                        if leaving == "leave":
                            break
                        if leaving == "cancel":
                            scope.reschedule(0)
                            await asyncio.sleep(3600)
                        elif leaving == "task":
                            asyncio.get_running_loop().call_soon(stream.abort)
                        else:
                            stream.abort()
        except TimeoutError:
            pass
        self.judge(kind, count, leaving, after, events, stream.message)

    def count(self, request: Any) -> None:
        self.sent += 1

    def judge(self, kind: str, count: int, leaving: str, after: int, events: list[str], message: Any) -> None:
        """Exactly one terminal event, the outcome that was asked for, and no text but what was sent."""
        self.outcomes[message.stop_reason] += 1
        what = f"{kind}-{count} {leaving}: {message.stop_reason}, {message.error_message}"
        terminals = events.count("done") + events.count("error")
        if terminals != (0 if leaving in ("leave", "cancel") else 1):
            self.wrong.append(f"{terminals} terminal events: {what}")
        pieces = after if leaving != "read" else count
        stop = "aborted" if leaving != "read" else "error" if kind in KINDS else "stop"
        if leaving == "task" and message.stop_reason == "stop":
            pieces, stop = (
                PIECES,
                "stop",
            )  # all of it had been received, and came before the other task's turn
        cause = message.error_cause.kind if message.error_cause else None
        wanted = {"aborted": "cancelled", "error": KINDS.get(kind)}.get(stop)
        if (message.stop_reason, cause) != (stop, wanted):
            self.wrong.append(what)
        text = "".join(map(piece, range(pieces)))
        if message.text != text and not (leaving == "task" and message.text.startswith(text)):
            self.wrong.append(f"other text: {what}")
        if stop == "stop" and message.usage.output != PIECES:
            self.wrong.append(f"other usage: {what}")


def memory() -> int:
    """Resident memory in bytes, without what the allocator merely keeps."""
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError):
        pass
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


async def run_client(port: int, seconds: float) -> None:
    """A first round, until everything has been loaded and used, and a second one that is measured."""
    allow_sockets()
    chance = random.Random(7)
    rounds = [await run_round(port, share * seconds, chance) for share in (0.2, 0.8)]
    names = [type(thing).__name__ for thing in gc.get_objects()]
    report = {
        "streams": sum(soak.number for soak, _ in rounds),
        "outcomes": sum((soak.outcomes for soak, _ in rounds), Counter()),
        "sent": sum(soak.sent for soak, _ in rounds),
        "wrong": [wrong for soak, _ in rounds for wrong in soak.wrong][:20],
        "memory": [used for _, used in rounds],
        "tasks": len(asyncio.all_tasks()) - 1,
        "alive": [name for name in names if name in ("AssistantStream", "AiohttpBody", "HttpSource")],
    }
    print(json.dumps(report))


async def run_round(port: int, seconds: float, chance: random.Random) -> tuple[Soak, int]:
    """Streams for some time, and the memory in use when all are over and the client is closed."""
    async with Client(
        providers=[Provider("soak", base_url=f"http://127.0.0.1:{port}/v1")],
        limits=LIMITS,
        retries=RetryPolicy(base_delay=0.01),
        trust_env=False,
    ) as client:
        soak = Soak(client, chance)
        await soak.run(time.monotonic() + seconds)
    await asyncio.sleep(0.5)
    return soak, memory()


if __name__ == "__main__":
    if sys.argv[1] == "server":
        asyncio.run(run_server())
    else:
        asyncio.run(run_client(int(sys.argv[2]), float(sys.argv[3])))
