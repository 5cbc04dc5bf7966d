"""Where Ollama is, and which models it has."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from attrs import evolve

from pi_stream import Client
from pi_stream.exceptions import ConfigError, TransportError
from pi_stream.providers.ollama import list_models, locate, provider


@pytest.mark.parametrize(
    ("value", "url"),
    [
        ("", "http://127.0.0.1:11434"),
        ("1.2.3.4", "http://1.2.3.4:11434"),
        (":5678", "http://127.0.0.1:5678"),
        ("0.0.0.0:5678", "http://127.0.0.1:5678"),
        ("gpu", "http://gpu:11434"),
        ("gpu/path/", "http://gpu:11434/path"),
        ("http://gpu", "http://gpu"),
        ("https://gpu:1", "https://gpu:1"),
        ("https://ollama.com/", "https://ollama.com"),
        ("[::1]", "http://[::1]:11434"),
        ("[::]:5678", "http://127.0.0.1:5678"),
        (' "gpu:1" ', "http://gpu:1"),
    ],
)
def test_ollama_host_is_read_as_ollama_reads_it(value: str, url: str) -> None:
    assert locate({"OLLAMA_HOST": value}) == url


def test_an_address_that_is_none_is_an_error() -> None:
    with pytest.raises(ConfigError, match="OLLAMA_HOST"):
        locate({"OLLAMA_HOST": "gpu:port"})


MODELS: dict[str, Any] = {
    "qwen3:4b": {
        "capabilities": ["completion", "tools", "thinking"],
        "model_info": {"qwen3.context_length": 40960},
    },
    "llava": {"capabilities": ["completion", "vision"], "model_info": {"llama.context_length": 4096}},
    "old": {"model_info": None},
}


@asynccontextmanager
async def server(status: int = 200, text: str | None = None) -> AsyncIterator[str]:
    """A server that has these models, and answers every chat with one word."""

    async def tags(request: web.Request) -> web.Response:
        if text is not None:
            return web.Response(text=text, status=status)
        return web.json_response({"models": [{"model": name} for name in MODELS] + ["odd", {"size": 1}]})

    async def show(request: web.Request) -> web.Response:
        return web.json_response(MODELS[(await request.json())["model"]])

    async def chat(request: web.Request) -> web.Response:
        think = (await request.json())["think"]
        answer = {"message": {"content": f"think={think}"}, "done": True, "done_reason": "stop"}
        return web.json_response(answer)

    app = web.Application()
    app.router.add_get("/api/tags", tags)
    app.router.add_post("/api/show", show)
    app.router.add_post("/api/chat", chat)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@pytest.mark.anyio
@pytest.mark.http
async def test_the_models_of_a_server_are_known_to_a_client_that_is_told() -> None:
    async with server() as url:
        models = await list_models(base_url=url)
        told = [(model.id, model.reasoning, model.input, model.context_window) for model in models]
        assert told == [
            ("qwen3:4b", True, ("text",), 40960),
            ("llava", False, ("text", "image"), 4096),
            ("old", False, ("text",), 0),
        ]
        async with Client(providers=[evolve(provider, models=models)], base_urls={"ollama": url}) as client:
            message = await client.complete("ollama/qwen3:4b", "hi", reasoning="max")
    assert (message.text, message.diagnostics) == ("think=high", None)


@pytest.mark.anyio
@pytest.mark.http
async def test_a_server_that_has_no_list_is_an_error_that_says_so() -> None:
    async with server(404, "404 page not found") as url:
        with pytest.raises(TransportError, match="404 page not found"):
            await list_models(base_url=url)
    async with server(text="<html>") as url:
        with pytest.raises(TransportError, match="no JSON"):
            await list_models(base_url=url)
    async with server(text="[]") as url:
        with pytest.raises(TransportError, match="no JSON object"):
            await list_models(base_url=url)
