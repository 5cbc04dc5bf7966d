"""Events of a proxy to ours: the blocks it keeps open, empty ones, late ends, failures that keep what came."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pi_stream import AssistantMessage, decode
from pi_stream.events import Event
from pi_stream.messages import TextContent, ThinkingContent, ToolCall
from pi_stream.testing import check_events

CUTS = (1, 2, 3, 7, 64)
COST = {"input": 0.1, "output": 0.2, "cacheRead": 0.3, "cacheWrite": 0.4, "total": 1.0}
USAGE = {"input": 5, "output": 4, "cacheRead": 3, "cacheWrite": 2, "totalTokens": 14, "cost": COST}


def sse(*events: Any) -> bytes:
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)


def event(type: str, index: Any = None, **more: Any) -> dict[str, Any]:
    return {"type": type, **({} if index is None else {"contentIndex": index}), **more}


def say(index: int, words: str, kind: str = "text") -> list[dict[str, Any]]:
    """A block, complete."""
    return [
        event(f"{kind}_start", index),
        event(f"{kind}_delta", index, delta=words),
        event(f"{kind}_end", index, content=words),
    ]


def done(reason: str = "stop", **more: Any) -> dict[str, Any]:
    return event("done", reason=reason, usage=USAGE, **more)


def run(body: bytes, **arguments: Any) -> tuple[AssistantMessage, list[Event]]:
    """The answer, checked whole and cut."""
    given: dict[str, Any] = {"api": "pi-messages", "provider": "proxy", "model": "m", **arguments}
    events = decode(body, **given)
    message = check_events(events)
    for cut in CUTS:
        assert decode(body, cut=cut, **given) == events, f"differs when cut at {cut}"
    return message, events


def message_of(*events: Any, **arguments: Any) -> AssistantMessage:
    return run(sse(event("start"), *events), **arguments)[0]


def noted(message: AssistantMessage) -> list[str]:
    return [diagnostic.type for diagnostic in message.diagnostics or ()]


def test_an_answer_with_everything() -> None:
    message = message_of(
        event("thinking_start", 0),
        event("thinking_delta", 0, delta="hm"),
        event("thinking_end", 0, content="hm", contentSignature="SIG"),
        *say(1, "Hello"),
        event("toolcall_start", 2, id="c1", toolName="look"),
        event("toolcall_delta", 2, delta='{"q": 1}'),
        event("toolcall_end", 2, toolCall={"type": "toolCall", "id": "c1", "name": "look", "arguments": {"q": 1}}),
        done("toolUse", responseId="r1", responseModel="m-2"),
    )  # fmt: skip
    assert message.content == [
        ThinkingContent("hm", thinking_signature="SIG"),
        TextContent("Hello"),
        ToolCall("c1", "look", {"q": 1}),
    ]
    assert (message.stop_reason, message.response_id, message.response_model) == ("toolUse", "r1", "m-2")


def test_usage_is_taken_as_it_is_with_its_cost() -> None:
    usage = message_of(*say(0, "x"), done()).usage
    assert (usage.input, usage.output, usage.cache_read, usage.cache_write) == (5, 4, 3, 2)
    assert (usage.total_tokens, usage.provider_total_tokens, usage.cost.total) == (14, 14, 1.0)


def test_blocks_may_end_all_together_at_the_end() -> None:
    """A proxy of Chat Completions ends nothing before the answer is over."""
    message = message_of(
        event("thinking_start", 0),
        event("thinking_delta", 0, delta="hm"),
        event("text_start", 1),
        event("text_delta", 1, delta="a"),
        event("toolcall_start", 2, id="c", toolName="look"),
        event("toolcall_delta", 2, delta="{}"),
        event("text_delta", 1, delta="b"),
        event("thinking_end", 0, content="hm", contentSignature="reasoning_content"),
        event("text_end", 1, content="ab"),
        event("toolcall_end", 2, toolCall={"id": "c", "name": "look", "arguments": {}}),
        done("toolUse"),
    )
    assert message.content == [
        ThinkingContent("hm", thinking_signature="reasoning_content"),
        TextContent("a"),
        ToolCall("c", "look", {}),
        TextContent("b"),
    ]
    assert noted(message) == ["block_reopened"]


def test_empty_blocks_are_left_out() -> None:
    message = message_of(
        event("text_start", 0), event("text_end", 0, content=""), *say(1, "x"), event("text_start", 2), done()
    )
    assert message.content == [TextContent("x")]


def test_a_final_text_brings_what_the_pieces_did_not() -> None:
    message = message_of(
        event("text_start", 0),
        event("text_delta", 0, delta="Hel"),
        event("text_end", 0, content="Hello"),
        event("text_start", 1),
        event("text_end", 1, content="there"),
        event("text_start", 2),
        event("text_delta", 2, delta="a"),
        *say(3, "b"),
        event("text_end", 2, content="a and c"),
        done(),
    )
    assert [block.text for block in message.content if isinstance(block, TextContent)] == [
        "Hello",
        "there",
        "a",
        "b",
        " and c",
    ]


def test_redacted_thinking_comes_whole() -> None:
    message = message_of(
        event("thinking_start", 0),
        event("thinking_end", 0, content="[gone]", contentSignature="OPAQUE", redacted=True),
        *say(1, "x"),
        done(),
    )
    assert message.content[0] == ThinkingContent("[gone]", thinking_signature="OPAQUE", redacted=True)


def test_a_call_that_could_not_be_read_stays_unreadable() -> None:
    broken = {"id": "c", "name": "look", "arguments": {}, "argumentsError": "bad"}
    message = message_of(
        event("toolcall_start", 0, id="c", toolName="look"),
        event("toolcall_delta", 0, delta='{"q"'),
        event("toolcall_end", 0, toolCall=broken),
        done("length"),
    )
    assert message.stop_reason == "length"
    assert message.tool_calls[0].arguments_error is not None


def test_signature_and_namespace_of_a_call_are_kept_and_its_arguments_may_come_last() -> None:
    whole = {"id": "c", "name": "look", "arguments": {"q": 1}, "thoughtSignature": "S", "namespace": "n"}
    message = message_of(
        event("toolcall_start", 0, id="c", toolName="look"),
        event("toolcall_end", 0, toolCall=whole),
        done("stop"),
    )
    assert message.tool_calls == [
        ToolCall("c", "look", {"q": 1}, thought_signature="S", namespace="n"),
    ]
    assert message.stop_reason == "toolUse"


def test_rewrites_are_a_diagnostic_and_the_level_is_kept() -> None:
    rewrite = {"policyId": "p", "changed": True}
    message = message_of(*say(0, "x"), done(rewrite=rewrite, providerThinkingLevel="deep"))
    (diagnostic,) = message.diagnostics or ()
    assert (diagnostic.type, diagnostic.details) == ("pi_messages_rewrite", rewrite)
    (entry,) = message.provider_data or ()
    assert entry.data == {"providerThinkingLevel": "deep"}


# --- failures: what came is kept --------------------------------------------------------------------------------------


def test_an_error_keeps_content_and_usage() -> None:
    message = message_of(
        event("text_start", 0),
        event("text_delta", 0, delta="half"),
        event("error", reason="error", usage=USAGE, errorMessage="prompt is too long"),
    )
    assert (message.stop_reason, message.text, message.usage.total_tokens) == ("error", "half", 14)
    assert message.error_message == "prompt is too long"
    assert message.error_cause is not None
    assert message.error_cause.kind == "overflow"


def test_an_abort_at_the_proxy_is_an_abort() -> None:
    message = message_of(*say(0, "x"), event("error", reason="aborted", errorMessage="stopped"))
    assert (message.stop_reason, message.text) == ("aborted", "x")


@pytest.mark.parametrize(
    "wrong",
    [
        event("text_delta", 5, delta="x"),
        event("text_delta", -1, delta="x"),
        event("text_delta", "0", delta="x"),
        event("text_delta", delta="x"),
        event("thinking_delta", 0, delta="x"),
        event("text_start", 3),
        event("text_start", True),
        event("toolcall_end", 0, toolCall={}),
    ],
)
def test_a_wrong_block_is_an_error_that_keeps_what_came(wrong: dict[str, Any]) -> None:
    message = message_of(event("text_start", 0), event("text_delta", 0, delta="half"), wrong, done())
    assert (message.stop_reason, message.text) == ("error", "half")
    assert message.error_cause is not None
    assert message.error_cause.kind == "malformed"


@pytest.mark.parametrize("tail", [b"", b"data: [DONE]\n\n", b'data: {"type": "text_d'])
def test_an_end_without_a_terminal_event_is_truncation(tail: bytes) -> None:
    message, _ = run(sse(event("text_start", 0), event("text_delta", 0, delta="half")) + tail)
    assert (message.stop_reason, message.text) == ("error", "half")
    assert message.error_cause is not None
    assert (message.error_cause.kind, message.error_cause.retryable) == ("truncated", True)


def test_a_half_call_is_no_call() -> None:
    message, _ = run(sse(event("toolcall_start", 0, id="c", toolName="look")))
    assert message.tool_calls[0].arguments_error is not None


def test_an_error_status_is_a_lone_error_with_the_code() -> None:
    body = b'{"error": {"message": "no such model", "code": "model_not_found"}}'
    message, events = run(body, status=404, content_type="application/json")
    assert [found.type for found in events] == ["error"]
    assert message.error_message == "404 no such model"
    assert message.error_cause is not None
    assert message.error_cause.provider_code == "model_not_found"


def test_an_error_in_another_dress_is_an_error() -> None:
    message = message_of(*say(0, "x"), {"error": {"message": "upstream gone"}})
    assert (message.stop_reason, message.error_message, message.text) == ("error", "upstream gone", "x")


def test_unknown_events_are_noted_and_nothing_is_read_behind_the_end() -> None:
    message = message_of(event("sparkle"), *say(0, "x"), done(), *say(1, "never"))
    assert (message.text, noted(message)) == ("x", ["unexpected_chunk"])


def test_an_unknown_reason_is_a_stop_with_a_note() -> None:
    message = message_of(*say(0, "x"), done("bored"))
    assert (message.stop_reason, message.raw_stop_reason) == ("stop", "bored")
    assert noted(message) == ["unknown_stop_reason"]


def test_a_whole_json_answer_is_a_list_of_events() -> None:
    events = [event("start"), *say(0, "x"), done()]
    message, _ = run(json.dumps(events).encode(), content_type="application/json")
    assert (message.text, message.stop_reason) == ("x", "stop")
