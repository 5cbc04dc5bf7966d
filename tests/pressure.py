"""A server that pushes a gigabyte, and a reader who sleeps between pulls: ``python tests/pressure.py PORT SECONDS PULLS``.

The server runs where :func:`pushing` is used. The reader is a process of its own, so that its memory can be told: it prints a
report as JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from chat_bodies import chat_chunk

from pi_stream import Client, Limits, Provider, RetryPolicy

GIGABYTE = 10**9
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


@contextlib.contextmanager
def pushing(text_size: int) -> Iterator[tuple[int, list[int]]]:
    """A server, in a thread, that writes as fast as it can; gives its port, and how many bytes it got rid of."""
    written: list[int] = []
    frame = chat_chunk({"content": "x" * text_size})
    block = b"%x\r\n%s\r\n" % (len(frame), frame) * max(1, 65536 // len(frame))
    ready, ports, loop = threading.Event(), [], asyncio.new_event_loop()
    stop = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        size = re.search(r"content-length: (\d+)", head, re.IGNORECASE)
        await reader.readexactly(int(size[1]) if size else 0)
        writer.write(HEAD)
        written.append(0)
        number = len(written) - 1
        try:
            while written[number] < GIGABYTE:
                writer.write(block)
                await writer.drain()
                written[number] += len(block)
        except ConnectionError:
            pass
        finally:
            writer.transport.abort()

    async def serve() -> None:
        listener = await asyncio.start_server(answer, "127.0.0.1", 0)
        ports.append(listener.sockets[0].getsockname()[1])
        ready.set()
        await stop.wait()
        listener.close()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    ready.wait()
    try:
        yield ports[0], written
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


def memory(name: str) -> int:
    """A figure of this process in bytes, such as ``VmRSS``, or ``VmHWM`` for the highest since it was last forgotten."""
    found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


def forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


async def read(port: int, seconds: float, pulls: int) -> dict[str, object]:
    """Sleep between pulls, for longer than any limit but the total; then go on until the total passes."""
    limits = Limits(first=seconds / 3, idle=seconds / 3, content=seconds / 3)
    provider = Provider("push", base_url=f"http://127.0.0.1:{port}/v1")
    async with Client(providers=[provider], retries=RetryPolicy(max_retries=0), trust_env=False) as client:
        for total in (False, True):  # the first time to load and use everything
            async with client.stream("push/m", "hi", limits=limits) as stream:
                async for event in stream:
                    if event.type == "text_delta":
                        break
            if not total:
                await asyncio.sleep(0.1)
        async with client.stream("push/m", "hi", limits=limits) as stream:
            await anext(stream)
            gc.collect()
            forget_peak()
            before = memory("VmRSS")
            kinds = set()
            for _ in range(pulls):
                await asyncio.sleep(seconds)
                kinds.add((await anext(stream)).type)
            grown = memory("VmHWM") - before
        bounded = Limits(total=seconds, idle=seconds / 3)
        async with client.stream("push/m", "hi", limits=bounded) as late:
            await anext(late)
            await asyncio.sleep(1.5 * seconds)
            message = await late.result()
    return {
        "grown": grown,
        "kinds": sorted(kinds),
        "stop": stream.message.stop_reason,
        "late": message.error_cause.kind if message.error_cause else message.stop_reason,
    }


if __name__ == "__main__":
    print(json.dumps(asyncio.run(read(int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])))))
