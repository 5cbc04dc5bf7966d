"""After the end mark a stream ends at once, although the connection stays open; without one within the drain limit."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from recording_checks import Recording, recordings

from pi_stream import Client, Limits, Provider
from pi_stream.transport.memory import MemoryResponse, MemoryTransport

pytestmark = pytest.mark.anyio
PLACES = {
    "openai-completions": "openai-completions",
    "anthropic-messages": "anthropic-messages",
    "openai-responses": "openai-responses",
    "google-generative-ai": "google-generative-ai",
    "google-vertex": "google-generative-ai",
    "mistral-conversations": "mistral",
    "bedrock-converse-stream": "bedrock-converse-stream",
    "ollama": "ollama-native",
    "cohere-chat": "cohere",
}


def finished(shared: Path, api: str) -> list[Recording]:
    """Three answers of an api that ended well as streams."""
    found = []
    for recording in recordings(shared, PLACES[api], api):
        body = recording.body
        # An event without its closing blank line counts only when the connection closes.
        closed = api in ("ollama", "bedrock-converse-stream") or body.endswith((b"\n\n", b"\r\n\r\n"))
        if closed and recording.decode()[-1].type == "done":
            found.append(recording)
        if len(found) == 3:
            break
    return found


@pytest.mark.parametrize("api", PLACES)
async def test_the_stream_ends_while_the_connection_stays_open(shared: Path, api: str) -> None:
    """The server sends the whole answer and then keeps the connection open for an hour."""
    cases = finished(shared, api)
    assert cases
    for recording in cases:
        transport = MemoryTransport(
            lambda request, body=recording.body: MemoryResponse(chunks=[body, 3600.0])
        )
        provider = Provider("open", api=api, base_url="https://open.test/v1")
        client = Client(providers=[provider], transport=transport, limits=Limits(drain=0.2))
        expected = recording.decode()[-1].message
        with anyio.fail_after(30):
            message = await client.complete(f"open/{recording.case['model']}", "hi", api_key="k")
        assert message.stop_reason == expected.stop_reason, (recording.name, message.error_message)
        assert message.content == expected.content
        assert transport.open_bodies == 0
