"""The client hands every history over before it asks, and refuses what cannot fit."""

from __future__ import annotations

from typing import Any

import pytest
from chat_bodies import chat_pieces

from pi_stream import (
    AssistantMessage,
    AssistantStream,
    Client,
    Context,
    HandoverPolicy,
    HttpRequest,
    Model,
    Provider,
    StreamOptions,
    SystemMessage,
    TextContent,
    ThinkingContent,
    ToolCall,
    UserMessage,
    build_request,
    to_json,
)
from pi_stream.providers import GeneratorRequest, finish, text
from pi_stream.transport.memory import MemoryTransport

MODEL = Model(id="m", provider="mine", context_window=1000)
MINE = Provider("mine", base_url="http://mine.test/v1", models=[MODEL])
HISTORY = [
    UserMessage("add"),
    AssistantMessage(
        [ThinkingContent("hm"), ToolCall("c|1", "add", {"a": 1})],
        provider="another",
        stop_reason="aborted",
    ),
    UserMessage("again"),
]


def summary(body: Any) -> list[Any]:
    return [
        (message["role"], message.get("tool_call_id") or message["content"]) for message in body["messages"]
    ]


def test_requests_are_written_from_what_was_handed_over() -> None:
    """For a context too; the policy is an option."""
    request = build_request(MODEL, HISTORY, providers=[MINE])
    assert summary(request.body) == [
        ("user", "add"),
        ("assistant", None),
        ("tool", "c_1"),
        ("user", "again"),
    ]
    options = StreamOptions(handover=HandoverPolicy(thinking="text", missing_results="drop"))
    request = build_request(MODEL, Context(HISTORY, system_prompt="s"), options, providers=[MINE])
    assert summary(request.body) == [
        ("system", "s"),
        ("user", "add"),
        ("user", "again"),
    ]  # an aborted answer of thinking alone led to nothing


class Asked:
    """A client over memory, and the requests it sent."""

    def __init__(self, **options: Any) -> None:
        self.requests: list[HttpRequest] = []
        self.client = Client(providers=[MINE], transport=MemoryTransport(self.answer), **options)

    def answer(self, request: HttpRequest) -> bytes:
        self.requests.append(request)
        return b"".join(chat_pieces("ok"))

    def stream(self, *arguments: Any, **options: Any) -> AssistantStream:
        return self.client.stream("mine/m", *arguments, **options)


@pytest.mark.anyio
@pytest.mark.trio
async def test_streams_send_what_was_handed_over() -> None:
    """With the policy of the client, and the messages of the caller as they were."""
    before = repr(HISTORY)
    asked = Asked(options=StreamOptions(handover=HandoverPolicy(broken_turns="drop")))
    message = await asked.stream(HISTORY).result()
    assert message.stop_reason == "stop"
    assert summary(asked.requests[0].body) == [("user", "add"), ("user", "again")]
    assert repr(HISTORY) == before


@pytest.mark.anyio
@pytest.mark.trio
async def test_a_full_context_is_refused_before_it_is_sent() -> None:
    """One error event with the cause, and how to send it all the same."""
    asked = Asked()
    message = await asked.stream([SystemMessage("x" * 8000), UserMessage("hi")]).result()
    cause = message.error_cause
    assert cause is not None
    assert (message.stop_reason, cause.kind, cause.overflow, cause.retryable) == (
        "error",
        "overflow",
        True,
        False,
    )
    assert (cause.phase, cause.origin) == ("connect", "caller")
    assert "about 2,287 tokens" in (message.error_message or "")
    assert "1,000" in (message.error_message or "")
    assert asked.requests == []
    message = await asked.stream("x" * 8000, check_context=False).result()
    assert (message.stop_reason, len(asked.requests)) == ("stop", 1)


def test_a_proxy_gets_the_history_as_it_is() -> None:
    """It knows the model behind it and hands over itself; unless the caller says how."""
    proxy = Provider("proxy", api="pi-messages", base_url="http://proxy.test")
    body: Any = build_request("proxy/m", HISTORY, providers=[proxy]).body
    assert body["context"]["messages"] == to_json(HISTORY)
    options = StreamOptions(handover=HandoverPolicy(broken_turns="drop"))
    body = build_request("proxy/m", HISTORY, options, providers=[proxy]).body
    assert body["context"]["messages"] == to_json([HISTORY[0], HISTORY[2]])


@pytest.mark.anyio
async def test_generators_get_the_history_as_it_is() -> None:
    """They may take what no protocol takes, and can hand over by themselves."""
    given: list[Any] = []

    async def generate(request: GeneratorRequest) -> Any:
        given.extend(request.messages)
        yield text("ok")
        yield finish("stop")

    async with Client(providers=[Provider("mine", generate=generate)]) as client:
        await client.complete("mine/m", HISTORY)
    assert given == HISTORY


def test_the_text_of_an_aborted_answer_is_part_of_the_next_request() -> None:
    """The user saw it, and may speak of it."""
    partial = AssistantMessage([TextContent("The first is")], provider="mine", stop_reason="aborted")
    request = build_request(MODEL, [UserMessage("count"), partial, UserMessage("go on")], providers=[MINE])
    assert summary(request.body)[1] == ("assistant", "The first is")
