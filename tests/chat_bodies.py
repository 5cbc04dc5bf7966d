"""Chat Completions answers written by hand, and a real server that gives them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

SSE = {"content-type": "text/event-stream"}


def chat_chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> bytes:
    """One Chat Completions chunk as an SSE event."""
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish}
    return b"data: " + json.dumps({"id": "c1", "model": "m", "choices": [choice], **more}).encode() + b"\n\n"


def chat_pieces(text: str = "Hello there", *, end: bool = True) -> list[bytes]:
    """An answer of one chunk a word; with ``end`` it is complete."""
    pieces = [chat_chunk({"content": word + " "}) for word in text.split()]
    return [*pieces, chat_chunk(finish="stop"), b"data: [DONE]\n\n"] if end else pieces


@asynccontextmanager
async def chat_server(handler: Callable[..., Any]) -> AsyncIterator[str]:
    """A real aiohttp server that answers Chat Completions requests with a handler; gives its base URL."""
    from aiohttp import web

    app = web.Application()
    app.router.add_post("/v1/chat/completions", handler)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, backlog=1024)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    finally:
        await runner.cleanup()
