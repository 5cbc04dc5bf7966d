"""Our client against servers that nobody here wrote: every api that one of them speaks, by one table."""

from __future__ import annotations

import json
import os
import re
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from attrs import frozen

from pi_stream import Client, Provider, RetryPolicy, Tool
from pi_stream.apis import api_ids
from pi_stream.apis.azure_openai_completions import api as azure_chat
from pi_stream.apis.base import Api
from pi_stream.engine.stream import AssistantStream
from pi_stream.events import Event
from pi_stream.messages import AssistantMessage, ToolCall
from pi_stream.providers.local_server import REQUEST_HEADERS
from pi_stream.testing import check_events

CASES = ("text", "tool", "thinking", "error", "abort")
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "live-servers.md"

WEATHER = Tool(
    "get_weather",
    "Tells the weather of a city.",
    {
        "type": "object",
        "properties": {"city": {"type": "string", "enum": ["Rome"], "description": "Name of the city"}},
        "required": ["city"],
        "additionalProperties": False,
    },
)
TEXT = 'Hello from the other end: naïve, 你好, 😀, and a "quote".\n\nTwo paragraphs.'
THOUGHT = "The user asks for a thought, and here is one: 思考 🤔."
ANSWER = "That was a thought."
LONG = " ".join(f"word {number}" for number in range(2000))


@pytest.fixture(scope="session")
def aimock_fixtures() -> list[dict[str, Any]]:
    """What aimock answers, by what the prompt holds."""
    call = {"id": "call_abc123XYZ", "name": WEATHER.name, "arguments": {"city": "Rome"}}
    return [
        {"match": {"userMessage": "weather"}, "response": {"toolCalls": [call]}},
        {"match": {"userMessage": "hello"}, "response": {"content": TEXT}},
        {"match": {"userMessage": "think"}, "response": {"content": ANSWER, "reasoning": THOUGHT}},
        {
            "match": {"userMessage": "refuse"},
            "response": {
                "error": {"message": "Slow down, please.", "type": "rate_limit_error"},
                "status": 429,
            },
        },
        {"match": {"userMessage": "story"}, "response": {"content": LONG}, "latency": 20},
    ]


@frozen
class Cell:
    """An api on a server.

    Attributes:
        api: Id of the api.
        server: Name of the fixture, without ``_url``.
        path: What follows the address of the server in the base URL.
        cases: What the server can do there.
        model: Model to ask for; the servers take any, aimock looks whether it is one that thinks.
        protocol: The api itself, where its id alone does not name it.
    """

    api: str
    server: str
    path: str = ""
    cases: tuple[str, ...] = CASES
    model: str = "m"
    protocol: Api | None = None

    def __str__(self) -> str:
        return f"{self.api}-{self.server}"


def without(*missing: str) -> tuple[str, ...]:
    return tuple(case for case in CASES if case not in missing)


CELLS = [
    Cell("openai-completions", "xllamacpp", "/v1"),
    Cell("openai-responses", "xllamacpp", "/v1"),
    Cell("anthropic-messages", "xllamacpp", "/v1"),
    Cell("openai-completions", "llmock", "/v1", without("thinking")),
    Cell("openai-responses", "llmock", "/v1", without("thinking")),
    Cell("anthropic-messages", "llmock", "/anthropic", without("thinking")),
    Cell("google-generative-ai", "llmock", "/gemini/v1beta", without("thinking")),
    Cell("mistral-conversations", "llmock", "/mistral", without("thinking")),
    Cell("cohere-chat", "llmock", "/cohere", without("thinking")),
    Cell("openai-completions", "aimock", "/v1", model="deepseek-reasoner"),
    Cell("openai-responses", "aimock", "/v1", model="o3-mini"),
    Cell(
        "azure-openai-completions",
        "aimock",
        "/openai/deployments/o3-mini",
        model="o3-mini",
        protocol=azure_chat,
    ),
    Cell("azure-openai-responses", "aimock", "/openai/v1", model="o3-mini"),
    Cell("anthropic-messages", "aimock", model="claude-sonnet-4-5"),
    Cell("google-generative-ai", "aimock", "/v1beta", model="gemini-2.5-flash"),
    Cell("google-vertex", "aimock", "/v1/projects/p/locations/global", model="gemini-2.5-flash"),
    Cell("bedrock-converse-stream", "aimock", model="anthropic.claude-sonnet-4-5-20250929-v1:0"),
    Cell("bedrock-invoke", "aimock", model="anthropic.claude-sonnet-4-5-20250929-v1:0"),
    # aimock sends what Cohere's model thinks as text.
    Cell("cohere-chat", "aimock", cases=without("thinking"), model="command-a-reasoning-08-2025"),
    Cell("ollama", "aimock", model="qwen3"),
]

# What a request needs on a server for a case, beside the prompt. llama.cpp: the small model has to be held.
_NO_THINKING = {"chat_template_kwargs": {"enable_thinking": False}}
_THINKING = {"chat_template_kwargs": {"enable_thinking": True}, "thinking_budget_tokens": 8}
NEEDS: dict[tuple[str, str], dict[str, Any]] = {
    ("xllamacpp", "text"): {"max_tokens": 12, "seed": 1, "extra_body": _NO_THINKING},
    # The bias is against going on after the call, which Messages knows as a text to stop at.
    ("xllamacpp", "tool"): {
        "max_tokens": 100,
        "tool_choice": "required",
        "extra_body": {**_NO_THINKING, "logit_bias": [[2, 80]], "stop_sequences": ["<jupyter_output>"]},
    },
    ("xllamacpp", "thinking"): {"max_tokens": 24, "extra_body": _THINKING},
    ("xllamacpp", "error"): {"max_tokens": 12},
    ("xllamacpp", "abort"): {"max_tokens": 400, "extra_body": _NO_THINKING},
    ("llmock", "error"): {"headers": {"X-LLMock-Force-Status": "429"}},
    ("aimock", "thinking"): {"reasoning": "low"},
}
_MANY = " and so on" * 600  # more than llama.cpp has room for
PROMPTS = {
    "text": "Say hello.",
    "tool": "What is the weather in Rome?",
    "thinking": "Please think about it.",
    "error": f"Please refuse{_MANY}.",
    "abort": "Tell a long story.",
}


@pytest.fixture
def anyio_backend() -> str:
    """It is the servers that are looked at: one loop is enough."""
    return "asyncio"


def parametrized(case: str) -> Callable[[Any], Any]:
    """Run a test on all cells that can do the case."""
    cells = [cell for cell in CELLS if case in cell.cases]
    return pytest.mark.parametrize("cell", cells, ids=str)


class Live:
    """A cell with its server running: asks for the answer of a case."""

    def __init__(self, cell: Cell, url: str) -> None:
        self.cell = cell
        self.url = url
        provider = Provider(
            "live",
            api=cell.protocol or cell.api,
            base_url=url + cell.path,
            headers=dict(REQUEST_HEADERS) if cell.server == "xllamacpp" else {},
        )
        self.client = Client(
            providers=[provider],
            api_keys={"live": "key"},
            retries=RetryPolicy(max_retries=0),
            trust_env=False,
        )

    def stream(self, case: str, **options: Any) -> AssistantStream:
        needs = NEEDS.get((self.cell.server, case), {})
        return self.client.stream(f"live/{self.cell.model}", PROMPTS[case], **needs, **options)

    async def events(self, case: str, **options: Any) -> list[Event]:
        with anyio.fail_after(40):
            async with self.client, self.stream(case, **options) as stream:
                return [event async for event in stream]


@pytest.fixture
def live(cell: Cell, request: pytest.FixtureRequest, record_property: Callable[[str, Any], None]) -> Live:
    """The cell, its server started; what ran is noted for the summary."""
    case = request.function.__name__.removeprefix("test_")
    record_property("live", (cell.api, cell.server, case))
    return Live(cell, request.getfixturevalue(f"{cell.server}_url"))


def joined(message: AssistantMessage, kind: str) -> str:
    """All text, or all thinking, of a message."""
    return "".join(getattr(block, kind) for block in message.content if block.type == kind)


@pytest.mark.anyio
@parametrized("text")
async def test_text(live: Live) -> None:
    """Text comes whole, in more than one piece, with the reason it ended."""
    events = await live.events("text")
    message = check_events(events)
    assert message.stop_reason in ("stop", "length"), message.error_message
    assert message.api == (live.cell.protocol.id if live.cell.protocol else live.cell.api)
    assert sum(event.type == "text_delta" for event in events) > 1
    assert joined(message, "text").strip()
    if live.cell.server == "aimock":
        assert (joined(message, "text"), message.stop_reason) == (TEXT, "stop")


@pytest.mark.anyio
@parametrized("tool")
async def test_tool(live: Live) -> None:
    """A call comes with its name, and with arguments that fit the schema."""
    message = check_events(await live.events("tool", tools=[WEATHER]))
    assert message.stop_reason == "toolUse", message.error_message
    calls = [block for block in message.content if isinstance(block, ToolCall)]
    told = [(call.name, call.arguments, call.arguments_error) for call in calls]
    assert told == [(WEATHER.name, {"city": "Rome"}, None)]
    assert calls[0].id


@pytest.mark.anyio
@parametrized("thinking")
async def test_thinking(live: Live) -> None:
    """Thinking is told apart from the text that follows it."""
    message = check_events(await live.events("thinking"))
    assert [block.type for block in message.content][:1] == ["thinking"], message.error_message
    assert joined(message, "thinking").strip()
    if live.cell.server == "aimock":  # where the small model of llama.cpp stops is its own affair
        assert (joined(message, "thinking"), joined(message, "text")) == (THOUGHT, ANSWER)


@pytest.mark.anyio
@parametrized("error")
async def test_error(live: Live) -> None:
    """A refusal is one error event that says why."""
    message = check_events(await live.events("error"))
    assert message.stop_reason == "error"
    assert not message.content
    cause = message.error_cause
    if live.cell.server == "xllamacpp":
        assert (cause.status, cause.overflow) == (400, True)
    else:
        assert (cause.status, cause.kind, cause.retryable) == (429, "rate_limit", True)
    if live.cell.server == "aimock":
        assert "Slow down, please." in message.error_message


def open_sockets() -> int:
    """Sockets of this process; always 0 where there is no /proc."""
    try:
        links = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
    except OSError:
        return 0
    return sum(os.path.islink(link) and os.readlink(link).startswith("socket:") for link in links)


@pytest.mark.anyio
@parametrized("abort")
async def test_abort(live: Live) -> None:
    """Aborted in the middle, the stream ends at once with what was received, and its socket is closed."""
    if live.cell.server == "llmock":
        stall_next_stream(live.url)
    before = open_sockets()
    events: list[Event] = []
    with anyio.fail_after(40):
        async with live.client:
            async with live.stream("abort") as stream:
                async for event in stream:
                    events.append(event)
                    if event.type == "text_delta":
                        assert open_sockets() > before or not before
                        stream.abort("enough")
            while open_sockets() > before:
                await anyio.sleep(0.01)
    message = check_events(events)
    assert (message.stop_reason, message.error_message) == ("aborted", "enough")
    assert sum(event.type == "text_delta" for event in events) == 1
    assert 0 < len(joined(message, "text")) < len(LONG)


def stall_next_stream(url: str) -> None:
    """Let llmock begin a long text at the next request, and stop in it."""
    behaviors = [
        {"type": "reply", "text": LONG},
        {"type": "stream_fault", "kind": "stall", "after_chunks": 12, "stall_seconds": 30},
    ]
    body = json.dumps({"behaviors": behaviors}).encode()
    request = urllib.request.Request(f"{url}/_llmock/scenario", body, {"content-type": "application/json"})
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request) as response:
        assert response.status < 300


# --- the page ---------------------------------------------------------------------------------------------------------


def test_the_page_has_the_cells_of_the_table() -> None:
    """What docs/reference/live-servers.md says is covered is what runs here, no more and no less."""
    rows = re.findall(r"^\| `([a-z-]+)` \| (\w+) \| (.*) \|$", PAGE.read_text(), re.MULTILINE)
    told = {
        (api, server): tuple(
            case for case, mark in zip(CASES, marks.split(" | "), strict=True) if mark == "yes"
        )
        for api, server, marks in rows
    }
    assert len(rows) == len(told)
    assert told == {(cell.api, cell.server): cell.cases for cell in CELLS}


def test_the_page_names_every_api_without_a_server() -> None:
    """An api that no server speaks is listed as such."""
    alone = set(api_ids()) - {cell.api for cell in CELLS}
    listed = PAGE.read_text().partition("## Not covered")[2]
    assert alone == {api for api in api_ids() if re.search(rf"^- `{api}`:", listed, re.MULTILINE)}
