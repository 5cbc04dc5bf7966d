"""A planted key is found nowhere: not in messages, events, reprs, logs, or the output of the command line.

The server is the worst there is: it sends back every header it was sent.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from aiohttp import web

from pi_stream import (
    Client,
    HttpRequest,
    Model,
    Provider,
    RetryPolicy,
    StreamOptions,
    build_request,
    dumps,
    to_json,
)
from pi_stream.cli import main
from pi_stream.http import MASK
from pi_stream.providers.registry import Registry

KEY = "planted-0123456789abcdef"
VENDORS = [
    id
    for id in Registry().ids()
    if (provider := Registry().provider(id)).generate is None and provider.runtime is None
]
ONCE = RetryPolicy(max_retries=0)
KEY_VARIABLES = {"cloudflare-ai-gateway": "CLOUDFLARE_API_KEY"}


def plant(monkeypatch: pytest.MonkeyPatch, id: str) -> None:
    """Set the variable of a vendor's key, and what else its address needs."""
    names = Registry().provider(id).key_env
    monkeypatch.setenv(names[0] if names else KEY_VARIABLES[id], KEY)
    for name in ("AZURE_OPENAI_RESOURCE_NAME", "CLOUDFLARE_ACCOUNT_ID", "CLOUDFLARE_GATEWAY_ID"):
        monkeypatch.setenv(name, "mine")


def sent_back(request: web.Request) -> str:
    return "; ".join(f"{name}: {value}" for name, value in request.headers.items())


@pytest.fixture
async def echo(anyio_backend: Any) -> AsyncIterator[str]:
    """The address of a server that answers with what it was sent: as an error, a page, a stream that breaks."""

    async def answer(request: web.Request) -> web.StreamResponse:
        words = sent_back(request)
        if "page" in request.path:
            return web.Response(text=f"<html><title>{words}</title></html>", content_type="text/html")
        if "stream" in request.path:
            error = json.dumps({"error": {"message": words, "code": "bad"}})
            return web.Response(text=f"data: {error}\n\n", content_type="text/event-stream")
        status = 401 if "refused" in request.path else 400
        return web.json_response({"error": {"message": words, "type": "some_error"}}, status=status)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.DEBUG):
        yield caplog


@pytest.mark.anyio
@pytest.mark.http
@pytest.mark.parametrize("id", VENDORS)
async def test_no_key_comes_back(
    id: str, echo: str, monkeypatch: pytest.MonkeyPatch, log: pytest.LogCaptureFixture
) -> None:
    """Whatever a server does with the key that it was sent, the message has it not; what was sent had it."""
    plant(monkeypatch, id)
    sent: list[HttpRequest] = []
    for path in ("error", "page", "stream"):
        async with Client(base_urls={id: f"{echo}/{path}"}, retries=ONCE) as client:
            async with client.stream(f"{id}/m", "Hello", on_request=sent.append) as stream:
                events = [event async for event in stream]
            shown = f"{stream.message!r} {dumps(stream.message)} {dumps(events)} {events!r} {sent[-1]!r}"
            assert stream.message.stop_reason == "error"
            assert KEY not in shown
            assert MASK in shown
    assert all(KEY in str(request.headers) for request in sent), (
        "the key was not sent: this test tests nothing"
    )
    assert KEY not in log.text


@pytest.mark.anyio
@pytest.mark.http
async def test_no_key_in_what_a_check_says(echo: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, "openai")
    for path in ("error", "refused", "page", "stream"):
        async with Client(base_urls={"openai": f"{echo}/{path}"}) as client:
            found = await client.check("openai/m")
        assert KEY not in f"{found}{found!r}{dumps(found)}"


@pytest.mark.parametrize("id", VENDORS)
def test_no_key_in_a_request_that_is_shown(id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, id)
    request = build_request(f"{id}/m", "Hello")
    assert KEY not in repr(request)
    assert KEY not in dumps(request.masked())


def test_no_key_in_reprs() -> None:
    """Of everything that may hold one; the JSON of options leaves the key out."""
    options = StreamOptions(api_key=KEY, headers={"authorization": KEY})
    request = HttpRequest(url=f"https://user:{KEY}@host/v1?key={KEY}", headers={"X-Acme-Token": KEY})
    provider = Provider("acme", base_url="https://x/v1", headers={"x-key": KEY})
    model = Model(id="m", headers={"x-key": KEY})
    client = Client(api_keys={"acme": KEY}, providers=[provider])
    for value in (options, request, request.masked().headers, provider, model, client, client.providers):
        assert KEY not in repr(value)
    assert "apiKey" not in to_json(options)


def test_no_key_in_the_output_of_commands(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Any
) -> None:
    """A request that is shown, the list of models, a check and a stream that cannot connect, with all that is logged."""
    plant(monkeypatch, "openai")
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://user:{KEY}@127.0.0.1:9/v1?key={KEY}")
    context = tmp_path / "context.json"
    context.write_text('[{"role": "user", "content": "Hello", "timestamp": 0}]')
    for command in (
        ["payload", "-m", "openai/m", str(context)],
        ["models", "openai"],
        ["models", "--json", "openai"],
        ["models", "--check", "openai/m"],
        ["models", "--check", "openai/m", "--json"],
        ["run", "-v", "-m", "openai/m", "Hello"],
    ):
        main(command)
        out, err = capsys.readouterr()
        assert out + err
        assert KEY not in out + err, command
