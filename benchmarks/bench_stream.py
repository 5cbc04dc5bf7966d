"""What the engine costs per event, beside the floor that any client pays.

The floor is aiohttp's ``iter_any``, a split at newlines and one ``json.loads`` per event: bytes to dictionaries, no types,
no rules, no message. A server in a process of its own sends the same 320-byte Chat Completions chunks

- as a burst: 20,000 chunks as fast as the socket takes them, and
- paced: a few chunks at a time with pauses, so that nearly every read brings one event.

The client's CPU time is measured, never the wall clock; the ways take turns, and the best round of each counts.

    python benchmarks/bench_stream.py [--events 20000] [--paced 1500] [--rounds 5]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import time
from collections.abc import Awaitable, Callable
from multiprocessing.connection import Connection

import aiohttp

import pi_stream
from pi_stream.wire.json import use_backend

Way = Callable[[aiohttp.ClientSession, str], Awaitable[int]]


def chunk(delta: dict[str, str], finish: str | None = None) -> bytes:
    """One chunk of about 320 bytes, as servers send them."""
    value = {
        "id": "chatcmpl-0123456789abcdefghijklmnopqrs",
        "object": "chat.completion.chunk",
        "created": 1_760_000_000,
        "model": "bench-model-2026-01-01",
        "system_fingerprint": "fp_0123456789",
        "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}],
        "usage": None,
        "obfuscation": "x" * 8,
    }
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def serve(pipe: Connection) -> None:
    """Answer every request with as many chunks as its path says: ``/burst/N`` or ``/paced/N``."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            try:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            except asyncio.IncompleteReadError:
                return writer.close()
            length = int(head.lower().partition("content-length:")[2].partition("\r\n")[0] or 0)
            await reader.readexactly(length)
            _, kind, count, *_ = head.split()[1].split("/")
            pieces = [chunk({"content": f" word{number}"}) for number in range(int(count))]
            pieces.append(chunk({}, "stop") + b"data: [DONE]\n\n")
            size = sum(map(len, pieces))
            writer.write(
                f"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {size}\r\n\r\n".encode()
            )
            if kind == "burst":
                writer.write(b"".join(pieces))
            else:
                for piece in pieces:
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0.0004)
            await writer.drain()

    async def main() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0, limit=2**20)
        pipe.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(main())


async def floor(session: aiohttp.ClientSession, url: str) -> int:
    """Bytes to dictionaries, and nothing else."""
    events, rest = 0, b""
    async with session.post(url + "/chat/completions", json={}) as response:
        async for data in response.content.iter_any():
            lines = (rest + data).split(b"\n")
            rest = lines.pop()
            for line in lines:
                if line.startswith(b"data: ") and line != b"data: [DONE]":
                    json.loads(line[6:])
                    events += 1
    return events


def engine(backend: str) -> Way:
    """The whole engine, event by event."""

    async def run(session: aiohttp.ClientSession, url: str) -> int:
        provider = pi_stream.Provider("bench", base_url=url)
        events = 0
        with use_backend(backend):
            client = pi_stream.Client(providers=[provider], session=session)
            async with client.stream("bench/bench-model-2026-01-01", "hi") as stream:
                async for event in stream:
                    if event.type == "text_delta":
                        events += 1
            assert stream.message.stop_reason == "stop", stream.message.error_message
        return events

    return run


async def measure(ways: dict[str, Way], url: str, rounds: int) -> dict[str, float]:
    """Best CPU time of each way in µs per event; the ways take turns."""
    best: dict[str, float] = {}
    async with aiohttp.ClientSession() as session:
        for _ in range(rounds):
            for name, way in ways.items():
                before = time.process_time()
                events = await way(session, url)
                cost = (time.process_time() - before) / events * 1e6
                best[name] = min(cost, best.get(name, cost))
    return best


def main() -> None:
    """Run both loads and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--paced", type=int, default=1_500)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    mine, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs,), daemon=True)
    server.start()
    port = mine.recv()
    ways: dict[str, Way] = {"floor": floor, "pi_stream, json": engine("json")}
    try:
        import orjson  # noqa: F401

        ways["pi_stream, orjson"] = engine("orjson")
    except ImportError:
        print("orjson is not installed: pip install 'pi-stream[fast]'")
    for kind, count in (("burst", arguments.events), ("paced", arguments.paced)):
        costs = asyncio.run(measure(ways, f"http://127.0.0.1:{port}/{kind}/{count}", arguments.rounds))
        print(f"{kind}: 1 x {count} chunks, {len(chunk({'content': ' word12345'}))} bytes each")
        for name, cost in costs.items():
            print(f"  {name:<20} {cost:7.2f} µs CPU per event   {cost / costs['floor']:5.2f} x floor")
    server.terminate()


if __name__ == "__main__":
    main()
