"""A wire format from outside: an invented protocol in a package of its own, found through the entry point group.

The package has a request file and a response file, as a protocol of ours; nothing in pi_stream knows of it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pi_stream import Client
from pi_stream.http import HttpRequest
from pi_stream.messages import TextContent, ThinkingContent, Tool, ToolCall, UserMessage
from pi_stream.testing import check_events
from pi_stream.transport.memory import MemoryResponse, MemoryTransport

REQUEST = '''
"""A transcript as lines of dialogue."""

from pi_stream.apis._request import endpoint, merge_headers
from pi_stream.http import HttpRequest


def build_request(model, messages, options):
    lines = [f"{message.role}: {message.content}" for message in messages if message.role == "user"]
    headers = merge_headers({"x-telegraph-key": options.api_key or ""}, model.headers, options.headers)
    return HttpRequest(url=endpoint(model.base_url, "wire"), headers=headers, body={"to": model.id, "lines": lines})
'''

RESPONSE = '''
"""One JSON array a line: ``["say", "..."]``, ``["think", "..."]``, ``["call", id, name, arguments]``, ``["over", why, tokens]``."""

from pi_stream.apis._blocks import Blocks
from pi_stream.apis._errors import provider_error
from pi_stream.apis._usage import make_usage
from pi_stream.events import BlockEnd, Finish, Metadata, ToolCallDelta


class TelegraphTranslator:
    def __init__(self, setup):
        self.complete = self.ended = False
        self._model = setup.model
        self._blocks = Blocks()
        self._why = "stop"

    def translate(self, chunks, out):
        for position, chunk in enumerate(chunks, 1):
            match chunk:
                case ["say", str(text)]:
                    self._blocks.text(text, out)
                case ["think", str(text)]:
                    self._blocks.thinking(text, out)
                case ["call", str(id), str(name), str(arguments)]:
                    index = self._blocks.open_call(id, name, out)
                    out += [ToolCallDelta(index, arguments), BlockEnd(index)]
                case ["over", str(why), int(tokens)]:
                    self._why = why
                    self.complete = self.ended = True
                    out.append(Metadata(usage=make_usage(self._model, prompt=0, output=tokens)))
                    return position
                case ["broken", str(words)]:
                    self.ended = True
                    out.append(provider_error({"message": words, "type": "overloaded_error"}))
                    return position
        return len(chunks)

    def whole(self, answer, out):
        self.translate(answer, out)

    def sentinel(self, out):
        pass

    def finish(self, out):
        self._blocks.close(out)
        out.append(Finish(self._why))
'''

PACKAGE = '''
"""The telegraph."""

from pi_stream.apis.base import Api
from pi_stream.models import Model
from pi_stream.providers.base import Provider
from telegraph_llm.request import build_request
from telegraph_llm.response import TelegraphTranslator

api = Api(id="telegraph", framing="ndjson", build_request=build_request, translator=TelegraphTranslator)
provider = Provider(
    "telegraph",
    api=api,
    base_url="https://telegraph.example/v1",
    key_env="TELEGRAPH_KEY",
    models=[Model(id="morse")],
)
'''


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The package, installed as pip would: a folder, and a description with its entry point."""
    package, info = tmp_path / "telegraph_llm", tmp_path / "telegraph_llm-1.0.dist-info"
    package.mkdir()
    info.mkdir()
    for name, code in (("__init__", PACKAGE), ("request", REQUEST), ("response", RESPONSE)):
        (package / f"{name}.py").write_text(code, encoding="utf-8")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: telegraph-llm\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[pi_stream.providers]\ntelegraph = telegraph_llm:provider\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("TELEGRAPH_KEY", "dot-dash")
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "telegraph_llm"]:
        del sys.modules[name]


def server(*lines: object) -> tuple[MemoryTransport, list[HttpRequest]]:
    """A server that sends each line in two reads, and what it was asked."""
    asked: list[HttpRequest] = []
    texts = [json.dumps(line).encode() + b"\n" for line in lines]
    reads = [part for text in texts for part in (text[:5], text[5:])]

    def reply(request: HttpRequest) -> MemoryResponse:
        asked.append(request)
        return MemoryResponse(headers={"content-type": "application/x-ndjson"}, chunks=reads)

    return MemoryTransport(reply), asked


@pytest.mark.anyio
@pytest.mark.trio
@pytest.mark.usefixtures("installed")
async def test_an_invented_protocol_streams_live() -> None:
    transport, asked = server(
        ["think", "hm"],
        ["say", "Hel"],
        ["say", "lo"],
        ["call", "c1", "look", '{"q": 1}'],
        ["over", "toolUse", 7],
        ["say", "never read"],
    )
    tool = Tool("look", "Looks.", {"type": "object"})
    async with Client(transport=transport) as client:
        assert "telegraph" in client.providers.ids()
        async with client.stream("telegraph/morse", [UserMessage("hi")], tools=[tool]) as stream:
            events = [event async for event in stream]
    message = check_events(events)
    assert message == stream.message
    assert message.content == [ThinkingContent("hm"), TextContent("Hello"), ToolCall("c1", "look", {"q": 1})]
    assert (message.api, message.provider, message.model) == ("telegraph", "telegraph", "morse")
    assert (message.stop_reason, message.usage.output, message.diagnostics) == ("toolUse", 7, None)
    (request,) = asked
    assert request.url == "https://telegraph.example/v1/wire"
    assert request.headers == {"x-telegraph-key": "dot-dash"}
    assert request.body == {"to": "morse", "lines": ["user: hi"]}


@pytest.mark.anyio
@pytest.mark.trio
@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        ([["say", "half"]], "truncated"),
        ([["say", "half"], ["broken", "the line is down"]], "overloaded"),
    ],
)
async def test_its_failures_are_data_that_keep_the_content(lines: list[object], kind: str) -> None:
    transport, _ = server(*lines)
    async with Client(transport=transport) as client:
        message = await client.complete("telegraph/morse", "hi")
    assert (message.stop_reason, message.text) == ("error", "half")
    assert message.error_cause is not None
    assert message.error_cause.kind == kind
