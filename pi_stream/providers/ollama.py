"""Ollama (https://docs.ollama.com/api), on this machine or where ``OLLAMA_HOST`` says; its cloud takes a key.

The variables are those that the Python package ollama 0.6 reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from pi_stream.apis._errors import body_error
from pi_stream.apis._request import merge_headers, rooted_endpoint
from pi_stream.exceptions import ConfigError, TransportError
from pi_stream.http import HttpRequest, mask_url
from pi_stream.models import Model
from pi_stream.providers.base import Provider, from_environment
from pi_stream.providers.registry import located
from pi_stream.transport.base import Transport
from pi_stream.wire import json

__all__ = ["list_models", "locate", "provider"]

_PORT = 11434
_KEY = "OLLAMA_API_KEY"
_TIMEOUT = 30.0


def locate(environment: Mapping[str, str]) -> str:
    """The base URL that ``OLLAMA_HOST`` means, as Ollama reads it: scheme, host, port and path may each be missing.

    An address to listen on (``0.0.0.0``) is that of this machine.

    Args:
        environment: Environment variables.

    Raises:
        ConfigError: The value is no address.
    """
    value = environment.get("OLLAMA_HOST", "").strip().strip("\"'")
    scheme, slashes, place = value.partition("://")
    if not slashes:
        scheme, place = "http", value
    try:
        parts = urlsplit(f"//{place}")
        host, port = parts.hostname or "127.0.0.1", parts.port
    except ValueError as problem:
        raise ConfigError(f"OLLAMA_HOST is no address: {value!r} ({problem})") from None
    if host in ("0.0.0.0", "::"):
        host = "127.0.0.1"
    if ":" in host:
        host = f"[{host}]"
    if port is None and not slashes:
        port = _PORT
    return f"{scheme}://{host}{'' if port is None else f':{port}'}{parts.path.rstrip('/')}"


provider = Provider(
    "ollama",
    name="Ollama",
    api="ollama",
    locate=locate,
    key_env=_KEY,
    key_required=False,
)


async def list_models(
    *, base_url: str | None = None, api_key: str | None = None, transport: Transport | None = None
) -> list[Model]:
    """The models a server of Ollama has, with what it tells of them: thinking, images, context window.

    ``Client(providers=[evolve(provider, models=await list_models())])`` makes them known.

    Args:
        base_url: Where the server is; else what ``OLLAMA_HOST`` says.
        api_key: Key for Ollama's cloud; else ``OLLAMA_API_KEY``.
        transport: Sends the requests; without one they go over HTTP.

    Raises:
        TransportError: The server cannot be reached, or its answer is an error (kind ``http_status``) or no list.
    """
    base_url = located(provider, Model(id=""), base_url).base_url
    key = api_key or from_environment((_KEY,))
    headers = merge_headers({"authorization": f"Bearer {key}"} if key else None)
    if transport is not None:
        return await _list_models(base_url, headers, transport)
    from pi_stream.transport.aiohttp import AiohttpTransport

    own = AiohttpTransport()
    try:
        return await _list_models(base_url, headers, own)
    finally:
        await own.aclose()


async def _list_models(base_url: str, headers: dict[str, str], transport: Transport) -> list[Model]:
    url = rooted_endpoint(base_url, "api", "tags")
    listed = await _ask(HttpRequest(method="GET", url=url, headers=headers), transport)
    entries = listed.get("models")
    found: list[Model] = []
    for entry in entries if isinstance(entries, list) else ():
        name = entry.get("model") or entry.get("name") if isinstance(entry, dict) else None
        if not isinstance(name, str):
            continue
        show = HttpRequest(
            url=rooted_endpoint(base_url, "api", "show"), headers=headers, body={"model": name}
        )
        found.append(_model(name, await _ask(show, transport)))
    return found


def _model(name: str, shown: dict[str, Any]) -> Model:
    """A model by what ``/api/show`` tells of it."""
    told, about = shown.get("capabilities"), shown.get("model_info")
    capabilities = told if isinstance(told, list) else []
    windows = [
        value
        for key, value in (about if isinstance(about, dict) else {}).items()
        if key.endswith(".context_length") and type(value) is int
    ]
    return Model(
        id=name,
        name=name,
        provider=provider.id,
        api="ollama",
        reasoning="thinking" in capabilities,
        input=("text", "image") if "vision" in capabilities else ("text",),
        context_window=max(windows, default=0),
    )


async def _ask(request: HttpRequest, transport: Transport) -> dict[str, Any]:
    """The JSON object that answers a request."""
    body = await transport.send(request, connect=_TIMEOUT, head=_TIMEOUT)
    try:
        body.set_deadline(transport.time() + _TIMEOUT, "timeout_total")
        received = bytearray()
        while data := await body.receive():
            received += data
    finally:
        await body.aclose()
    url = mask_url(request.url)
    if body.head.status != 200:
        words = body_error(body.head, bytes(received)).error_message
        raise TransportError(f"{url}: {words}", kind="http_status")
    try:
        answer = json.loads(bytes(received))
    except json.JsonDecodeError as problem:
        raise TransportError(f"{url} sent no JSON: {problem}", kind="malformed") from None
    if not isinstance(answer, dict):
        raise TransportError(f"{url} sent no JSON object", kind="malformed")
    return answer
