"""JSON to objects and back: names, strictness, what is kept, and the errors."""

from __future__ import annotations

import enum
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import attrs
import pytest
from attrs import define, field

from pi_stream import events, http, messages, models, options, usage
from pi_stream.events import (
    Done,
    Error,
    Event,
    Fallback,
    Metadata,
    Restart,
    Retry,
    Start,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from pi_stream.exceptions import ConfigError, SerializationError
from pi_stream.handover import HandoverPolicy
from pi_stream.http import HttpRequest, ResponseHead
from pi_stream.messages import (
    AssistantMessage,
    Content,
    Context,
    CustomMessage,
    DeferredHandle,
    Diagnostic,
    ErrorCause,
    ImageContent,
    Message,
    ProviderData,
    SystemMessage,
    TextContent,
    ThinkingContent,
    Tool,
    ToolCall,
    ToolResultMessage,
    UnknownContent,
    UserMessage,
    register_role,
)
from pi_stream.models import Model
from pi_stream.options import Limits, RetryPolicy, StreamOptions
from pi_stream.serialization import dumps, from_json, loads, to_json
from pi_stream.usage import Cost, CostTier, ModelCost, Usage

USAGE = Usage(input=1, output=2, total_tokens=3)
USAGE_JSON = {
    "input": 1,
    "output": 2,
    "cacheRead": 0,
    "cacheWrite": 0,
    "totalTokens": 3,
    "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0},
}
CALL = ToolCall("call_1", "add", {"first_number": 1})
CALL_JSON = {"type": "toolCall", "id": "call_1", "name": "add", "arguments": {"first_number": 1}}
ANSWER = AssistantMessage(api="a", provider="p", model="m", usage=USAGE, stop_reason="stop", timestamp=5)
ANSWER_JSON = {
    "role": "assistant",
    "content": [],
    "api": "a",
    "provider": "p",
    "model": "m",
    "usage": USAGE_JSON,
    "stopReason": "stop",
    "timestamp": 5,
}

# Every class with every attribute set, and the JSON it has to give. This is the table of names.
SAMPLES: list[tuple[Any, dict[str, Any]]] = [
    (
        TextContent("hi", text_signature="sig"),
        {"type": "text", "text": "hi", "textSignature": "sig"},
    ),
    (
        ThinkingContent("hm", thinking_signature="sig", redacted=True),
        {"type": "thinking", "thinking": "hm", "thinkingSignature": "sig", "redacted": True},
    ),
    (
        ImageContent("iVBORw0=", "image/png"),
        {"type": "image", "data": "iVBORw0=", "mimeType": "image/png"},
    ),
    (
        ToolCall("1", "add", {"a_b": 1}, thought_signature="sig", namespace="ns", arguments_error="bad"),
        {
            "type": "toolCall",
            "id": "1",
            "name": "add",
            "arguments": {"a_b": 1},
            "thoughtSignature": "sig",
            "namespace": "ns",
            "argumentsError": "bad",
        },
    ),
    (
        Tool("add", "Adds", {"type": "object", "snake_key": 1}, constrained_sampling={"some_key": 1}),
        {
            "name": "add",
            "description": "Adds",
            "parameters": {"type": "object", "snake_key": 1},
            "constrainedSampling": {"some_key": 1},
        },
    ),
    (
        Cost(input=1, output=2.5, cache_read=3, cache_write=4, total=10.5, total_from_provider=False),
        {
            "input": 1,
            "output": 2.5,
            "cacheRead": 3,
            "cacheWrite": 4,
            "total": 10.5,
            "totalFromProvider": False,
        },
    ),
    (
        Usage(
            input=1,
            output=2,
            cache_read=3,
            cache_write=4,
            cache_write_1h=5,
            reasoning=6,
            total_tokens=7,
            provider_total_tokens=8,
            quality="reported",
        ),
        {
            "input": 1,
            "output": 2,
            "cacheRead": 3,
            "cacheWrite": 4,
            "cacheWrite1h": 5,
            "reasoning": 6,
            "totalTokens": 7,
            "providerTotalTokens": 8,
            "quality": "reported",
            "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0},
        },
    ),
    (
        CostTier(input_tokens_above=1, input=2, output=3, cache_read=4, cache_write=5),
        {"inputTokensAbove": 1, "input": 2, "output": 3, "cacheRead": 4, "cacheWrite": 5},
    ),
    (
        ModelCost(input=1, output=2, cache_read=3, cache_write=4, tiers=(CostTier(input_tokens_above=1),)),
        {
            "input": 1,
            "output": 2,
            "cacheRead": 3,
            "cacheWrite": 4,
            "tiers": [{"inputTokensAbove": 1, "input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}],
        },
    ),
    (
        Diagnostic(type="t", timestamp=1, error={"some_key": 1}, details={"some_key": 2}),
        {"type": "t", "timestamp": 1, "error": {"some_key": 1}, "details": {"some_key": 2}},
    ),
    (
        ErrorCause(
            kind="rate_limit",
            phase="head",
            origin="provider",
            retryable=True,
            status=429,
            provider_code="slow_down",
            retry_after_ms=1000,
            request_id="r",
            overflow=False,
            bytes=1,
            chunks=2,
            last_byte_age_ms=3,
        ),
        {
            "kind": "rate_limit",
            "phase": "head",
            "origin": "provider",
            "retryable": True,
            "status": 429,
            "providerCode": "slow_down",
            "retryAfterMs": 1000,
            "requestId": "r",
            "overflow": False,
            "bytes": 1,
            "chunks": 2,
            "lastByteAgeMs": 3,
        },
    ),
    (
        ProviderData(after=1, api="a", provider="p", model="m", data={"some_key": 1}),
        {"after": 1, "api": "a", "provider": "p", "model": "m", "data": {"some_key": 1}},
    ),
    (
        DeferredHandle(
            provider="p", model_id="m", api="a", id="i", expires_at=1, poll_after_ms=2, data={"some_key": 1}
        ),
        {
            "provider": "p",
            "modelId": "m",
            "api": "a",
            "id": "i",
            "expiresAt": 1,
            "pollAfterMs": 2,
            "data": {"some_key": 1},
        },
    ),
    (
        SystemMessage(
            "Be brief.",
            sections={"house_rules": "none", "old_part": None},
            tools_added=[Tool("add")],
            tools_removed=[{"name": "sub"}],
            timestamp=1,
        ),
        {
            "role": "system",
            "content": "Be brief.",
            "sections": {"house_rules": "none", "old_part": None},
            "toolsAdded": [
                {"name": "add", "description": "", "parameters": {"type": "object", "properties": {}}}
            ],
            "toolsRemoved": [{"name": "sub"}],
            "timestamp": 1,
        },
    ),
    (
        UserMessage([TextContent("hi")], timestamp=1),
        {"role": "user", "content": [{"type": "text", "text": "hi"}], "timestamp": 1},
    ),
    (
        AssistantMessage(
            [TextContent("hi"), CALL],
            api="a",
            provider="p",
            model="m",
            response_model="m2",
            response_id="r",
            provider_thinking_level="big",
            thinking_level="high",
            diagnostics=[Diagnostic(type="d")],
            usage=USAGE,
            stop_reason="deferred",
            deferred=DeferredHandle(provider="p", model_id="m", api="a", id="i"),
            error_message="e",
            error_cause=ErrorCause(kind="truncated"),
            provider_data=[ProviderData(after=0, api="a", provider="p", model="m", data=None)],
            raw_stop_reason="raw",
            end_turn=True,
            timestamp=1,
            duration_ms=2,
        ),
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "hi"}, CALL_JSON],
            "api": "a",
            "provider": "p",
            "model": "m",
            "responseModel": "m2",
            "responseId": "r",
            "providerThinkingLevel": "big",
            "thinkingLevel": "high",
            "diagnostics": [{"type": "d", "timestamp": 0}],
            "usage": USAGE_JSON,
            "stopReason": "deferred",
            "deferred": {"provider": "p", "modelId": "m", "api": "a", "id": "i"},
            "errorMessage": "e",
            "errorCause": {
                "kind": "truncated",
                "phase": "body",
                "origin": "provider",
                "retryable": False,
                "bytes": 0,
                "chunks": 0,
            },
            "providerData": [{"after": 0, "api": "a", "provider": "p", "model": "m", "data": None}],
            "rawStopReason": "raw",
            "endTurn": True,
            "timestamp": 1,
            "durationMs": 2,
        },
    ),
    (
        ToolResultMessage(
            "call_1",
            "add",
            [TextContent("3")],
            is_error=True,
            details={"some_key": 1},
            usage=USAGE,
            nested_calls={"calls": [], "complete": True},
            timestamp=1,
            duration_ms=2,
        ),
        {
            "role": "toolResult",
            "toolCallId": "call_1",
            "toolName": "add",
            "content": [{"type": "text", "text": "3"}],
            "isError": True,
            "details": {"some_key": 1},
            "usage": USAGE_JSON,
            "nestedCalls": {"calls": [], "complete": True},
            "timestamp": 1,
            "durationMs": 2,
        },
    ),
    (
        Context([UserMessage("hi", timestamp=1)], system_prompt="Be brief.", tools=[Tool("add", "", {})]),
        {
            "messages": [{"role": "user", "content": "hi", "timestamp": 1}],
            "systemPrompt": "Be brief.",
            "tools": [{"name": "add", "description": "", "parameters": {}}],
        },
    ),
    (
        Model(
            id="i",
            name="n",
            api="a",
            provider="p",
            base_url="b",
            type="chat",
            reasoning=True,
            thinking_level_map={"off": None, "xhigh": "max"},
            input=("text", "image"),
            input_limits={"some_key": 1},
            cost=ModelCost(input=1),
            context_window=2,
            max_tokens=3,
            prompt_cache={"some_key": 2},
            headers={"x-a": "b"},
            compat={"supports_store": False, "reasoning_map": {"some_key": 3}},
            sampling_params={"top_k": 4},
            sampling_params_by_thinking_level={"high": {"top_k": 5}},
        ),
        {
            "id": "i",
            "name": "n",
            "api": "a",
            "provider": "p",
            "baseUrl": "b",
            "type": "chat",
            "reasoning": True,
            "thinkingLevelMap": {"off": None, "xhigh": "max"},
            "input": ["text", "image"],
            "inputLimits": {"some_key": 1},
            "cost": {"input": 1, "output": 0, "cacheRead": 0, "cacheWrite": 0},
            "contextWindow": 2,
            "maxTokens": 3,
            "promptCache": {"some_key": 2},
            "headers": {"x-a": "b"},
            "compat": {"supportsStore": False, "reasoningMap": {"some_key": 3}},
            "samplingParams": {"top_k": 4},
            "samplingParamsByThinkingLevel": {"high": {"top_k": 5}},
        },
    ),
    (
        HttpRequest(method="POST", url="https://a.test", headers={"accept": "*/*"}, body={"some_key": 1}),
        {"method": "POST", "url": "https://a.test", "headers": {"accept": "*/*"}, "body": {"some_key": 1}},
    ),
    (ResponseHead(status=200, headers={"a": "b"}), {"status": 200, "headers": {"a": "b"}}),
    (
        Limits(
            connect=1,
            head=2,
            first=3,
            idle=4,
            content=5,
            total=6,
            drain=7,
            event_bytes=8,
            argument_bytes=9,
            blocks=10,
            error_bytes=11,
        ),
        {
            "connect": 1,
            "head": 2,
            "first": 3,
            "idle": 4,
            "content": 5,
            "total": 6,
            "drain": 7,
            "eventBytes": 8,
            "argumentBytes": 9,
            "blocks": 10,
            "errorBytes": 11,
        },
    ),
    (
        RetryPolicy(max_retries=1, base_delay=2, max_delay=3),
        {"maxRetries": 1, "baseDelay": 2, "maxDelay": 3},
    ),
    (Start(ANSWER), {"type": "start", "message": ANSWER_JSON}),
    (TextStart(0), {"type": "text_start", "contentIndex": 0}),
    (TextDelta(0, "hi"), {"type": "text_delta", "contentIndex": 0, "delta": "hi"}),
    (
        TextEnd(0, "hi", text_signature="sig"),
        {"type": "text_end", "contentIndex": 0, "content": "hi", "textSignature": "sig"},
    ),
    (ThinkingStart(0), {"type": "thinking_start", "contentIndex": 0}),
    (ThinkingDelta(0, "hm"), {"type": "thinking_delta", "contentIndex": 0, "delta": "hm"}),
    (
        ThinkingEnd(0, "hm", thinking_signature="sig", redacted=True),
        {
            "type": "thinking_end",
            "contentIndex": 0,
            "content": "hm",
            "thinkingSignature": "sig",
            "redacted": True,
        },
    ),
    (
        ToolCallStart(0, "call_1", "add"),
        {"type": "toolcall_start", "contentIndex": 0, "id": "call_1", "name": "add"},
    ),
    (ToolCallDelta(0, "{}"), {"type": "toolcall_delta", "contentIndex": 0, "delta": "{}"}),
    (ToolCallEnd(0, CALL), {"type": "toolcall_end", "contentIndex": 0, "toolCall": CALL_JSON}),
    (
        Metadata(
            usage=USAGE,
            response_id="r",
            response_model="m2",
            raw_stop_reason="raw",
            diagnostic=Diagnostic(type="d"),
            provider_data=ProviderData(after=0, api="a", provider="p", model="m", data=1),
            content_index=0,
            signature="sig",
        ),
        {
            "type": "metadata",
            "usage": USAGE_JSON,
            "responseId": "r",
            "responseModel": "m2",
            "rawStopReason": "raw",
            "diagnostic": {"type": "d", "timestamp": 0},
            "providerData": {"after": 0, "api": "a", "provider": "p", "model": "m", "data": 1},
            "contentIndex": 0,
            "signature": "sig",
        },
    ),
    (Done("stop", ANSWER), {"type": "done", "reason": "stop", "message": ANSWER_JSON}),
    (Retry(1, 500, ANSWER), {"type": "retry", "attempt": 1, "delayMs": 500, "error": ANSWER_JSON}),
    (
        Fallback("p", "m", ANSWER),
        {"type": "fallback", "provider": "p", "model": "m", "error": ANSWER_JSON},
    ),
    (Restart(ANSWER, ANSWER), {"type": "restart", "message": ANSWER_JSON, "error": ANSWER_JSON}),
    (Error("error", ANSWER), {"type": "error", "reason": "error", "error": ANSWER_JSON}),
    (
        StreamOptions(
            temperature=0,
            top_p=0.5,
            max_tokens=1,
            stop="END",
            seed=2,
            tool_choice={"name": "add"},
            parallel_tool_calls=False,
            reasoning="xhigh",
            thinking_budgets={"high": 3},
            response_format={"some_key": 1},
            cache_retention="short",
            session_id="s",
            service_tier="flex",
            headers={"x-a": None},
            metadata={"some_key": 2},
            extra_body={"some_key": 3},
            handover=HandoverPolicy(thinking="tag"),
            check_context=False,
            retries=RetryPolicy(max_retries=0, base_delay=1, max_delay=2),
            unknown_stop="error",
            malformed="lenient",
            fallback=("a/b",),
            after_content="restart",
            notices=True,
        ),
        {
            "temperature": 0,
            "topP": 0.5,
            "maxTokens": 1,
            "stop": ["END"],
            "seed": 2,
            "toolChoice": {"name": "add"},
            "parallelToolCalls": False,
            "reasoning": "xhigh",
            "thinkingBudgets": {"high": 3},
            "responseFormat": {"some_key": 1},
            "cacheRetention": "short",
            "sessionId": "s",
            "serviceTier": "flex",
            "headers": {"x-a": None},
            "metadata": {"some_key": 2},
            "extraBody": {"some_key": 3},
            "handover": {
                "thinking": "tag",
                "brokenTurns": "keep",
                "malformedCalls": "answered",
                "missingResults": "add",
            },
            "checkContext": False,
            "limits": to_json(Limits()),
            "retries": {"maxRetries": 0, "baseDelay": 1, "maxDelay": 2},
            "unknownStop": "error",
            "malformed": "lenient",
            "fallback": ["a/b"],
            "afterContent": "restart",
            "notices": True,
        },
    ),
]
sample = pytest.mark.parametrize(
    ("obj", "data"), [pytest.param(*pair, id=type(pair[0]).__name__) for pair in SAMPLES]
)

NEVER_IN_JSON = {"extra", "_absent", "api_key", "on_request", "on_response", "on_chunk"}
KEPT_WHOLE = {UnknownContent, CustomMessage}
SAID_BY_TRANSLATORS_ONLY = {events.BlockEnd, events.Finish}


def canonical(data: Any) -> str:
    """JSON values as text, so that 1, 1.0 and true differ and the order of keys does not."""
    return json.dumps(data, sort_keys=True)


# --- names ------------------------------------------------------------------------------------------------------------


@sample
def test_every_attribute_has_its_json_name(obj: Any, data: dict[str, Any]) -> None:
    """An object is written under the names of the message model, each value as it is."""
    assert canonical(to_json(obj)) == canonical(data)


@sample
def test_every_json_name_has_its_attribute(obj: Any, data: dict[str, Any]) -> None:
    """The same JSON gives the same object."""
    assert from_json(data, type(obj)) == obj


@sample
def test_the_table_leaves_no_attribute_out(obj: Any, data: dict[str, Any]) -> None:
    """A new attribute of a class needs its line in the table."""
    shown = {attribute.name for attribute in attrs.fields(type(obj))} - NEVER_IN_JSON
    assert len(data) == len(shown | ({"type"} if isinstance(obj, Event) else set()))


def test_the_table_leaves_no_class_out() -> None:
    """A new value class needs its line in the table."""
    names = [(module, name) for module in (messages, usage, models, events) for name in module.__all__]
    classes = {getattr(module, name) for module, name in names} | {HttpRequest, ResponseHead}
    classes |= {options.StreamOptions, options.Limits, options.RetryPolicy, http.HttpRequest}
    values = {cls for cls in classes if isinstance(cls, type) and attrs.has(cls)}
    assert values - KEPT_WHOLE - SAID_BY_TRANSLATORS_ONLY == {type(obj) for obj, _ in SAMPLES}


@sample
def test_the_tag_comes_first(obj: Any, data: dict[str, Any]) -> None:
    """``type`` or ``role`` is the first key, as the forerunner writes it and as people read it."""
    first = next(iter(to_json(obj)))
    assert first == next(iter(data)) or first not in ("type", "role")
    if isinstance(obj, (Event, Message)):
        assert first in ("type", "role")


# --- what is left out, and what is kept -------------------------------------------------------------------------------


def test_attributes_that_are_none_are_left_out() -> None:
    """An optional attribute without a value is an absent key, never null."""
    assert to_json(TextContent("hi")) == {"type": "text", "text": "hi"}
    assert to_json(Metadata(response_id="r")) == {"type": "metadata", "responseId": "r"}


def test_new_objects_write_all_required_fields() -> None:
    """What is made in Python is complete, so that every reader of the format accepts it."""
    assert to_json(AssistantMessage(timestamp=5)) == {
        **ANSWER_JSON,
        "api": "",
        "provider": "",
        "model": "",
        "stopReason": "pending",
        "usage": {**USAGE_JSON, "input": 0, "output": 0, "totalTokens": 0},
    }


def test_absent_keys_stay_absent() -> None:
    """What an old session left out is not invented by loading and saving it."""
    data = {"role": "assistant", "content": [], "usage": {"input": 5}}
    message = from_json(data, AssistantMessage)
    assert message.usage.output == 0
    assert message.usage.cost.total == 0
    assert to_json(message) == data


def test_an_absent_time_reads_as_zero() -> None:
    """When a message was loaded says nothing about when it was made."""
    message = from_json({"role": "user", "content": "hi"}, UserMessage)
    assert message.timestamp == 0
    assert to_json(message) == {"role": "user", "content": "hi"}


def test_an_absent_key_is_written_once_its_attribute_differs() -> None:
    """A change to a loaded message is saved."""
    message = from_json({"role": "user"}, UserMessage)
    message.content = "hi"
    assert to_json(message) == {"role": "user", "content": "hi"}


def test_an_absent_usage_part_is_written_once_it_was_set() -> None:
    """Usage knows a count of zero from no count: what was set is written even where it is 0."""
    loaded = from_json({"input": 5, "cost": {"total": 1}}, Usage)
    loaded.output = 0
    loaded.cost.input = 0
    assert to_json(loaded) == {"input": 5, "output": 0, "cost": {"total": 1, "input": 0}}


def test_unknown_keys_come_back_after_the_known_ones() -> None:
    """A session of a newer version loses nothing here."""
    data = {"type": "text", "future": {"a_b": [1]}, "text": "hi"}
    block = from_json(data, TextContent)
    assert block.extra == {"future": {"a_b": [1]}}
    assert list(to_json(block)) == ["type", "text", "future"]
    assert to_json(block) == data


def test_explicit_nulls_come_back() -> None:
    """A null for an optional key reads as None and is written as null again, until the attribute is set."""
    data = {"type": "text", "text": "hi", "textSignature": None}
    block = from_json(data, TextContent)
    assert block.text_signature is None
    assert to_json(block) == data
    block.text_signature = "sig"
    assert to_json(block)["textSignature"] == "sig"


def test_null_content_of_an_old_answer_is_no_content() -> None:
    """Old sessions have null for an answer without content."""
    data = {**ANSWER_JSON, "content": None}
    message = from_json(data, AssistantMessage)
    assert message.content == []
    assert to_json(message) == data
    message.content.append(TextContent("hi"))
    assert to_json(message)["content"] == [{"type": "text", "text": "hi"}]


def test_unknown_blocks_come_back() -> None:
    """A block of a type of a newer version is kept whole."""
    block = {"type": "video", "some_key": {"text": None}}
    message = from_json({**ANSWER_JSON, "content": [block]}, AssistantMessage)
    assert message.content == [UnknownContent("video", block)]
    assert to_json(message)["content"] == [block]
    assert to_json(UnknownContent("video", {"url": "u"})) == {"type": "video", "url": "u"}


def test_a_block_out_of_place_is_kept_whole() -> None:
    """A tool call in a user message is nothing we know there, and no reason to lose it."""
    message = from_json({"role": "user", "content": [CALL_JSON]}, Message)
    assert message.content == [UnknownContent("toolCall", CALL_JSON)]
    assert to_json(message)["content"] == [CALL_JSON]


def test_messages_of_unknown_roles_come_back() -> None:
    """A session of an application keeps messages that nobody registered a class for."""
    data = {"role": "bashExecution", "command": "ls", "exit_code": 0, "timestamp": None}
    context = from_json({"messages": [data]}, Context)
    assert context.messages == [CustomMessage("bashExecution", data)]
    assert to_json(context) == {"messages": [data]}
    assert from_json(data, CustomMessage) == CustomMessage("bashExecution", data)


def test_events_leave_unknown_keys_out() -> None:
    """A log of events of a newer version still reads."""
    data = {"type": "text_delta", "contentIndex": 0, "delta": "hi", "partial": {}}
    assert from_json(data, Event) == TextDelta(0, "hi")


def test_options_refuse_unknown_keys() -> None:
    """A misspelt option in a configuration file is noticed."""
    with pytest.raises(SerializationError, match="temprature"):
        from_json({"temprature": 0.5}, StreamOptions)


def test_secrets_and_callables_are_never_written() -> None:
    """Options can be logged: the key is not in their JSON."""
    data = to_json(StreamOptions(api_key="secret", on_chunk=print))
    assert "secret" not in json.dumps(data)
    assert not {"apiKey", "onChunk", "onRequest", "onResponse"} & data.keys()


def test_a_limit_switched_off_is_null() -> None:
    """None is a value where the default is another one."""
    data = to_json(Limits(connect=None))
    assert data["connect"] is None
    assert "total" not in data  # off by default
    assert from_json(data, Limits) == Limits(connect=None)


def test_user_data_is_passed_on() -> None:
    """Arguments, details and schemas are neither renamed nor copied."""
    arguments = {"some_key": {"otherKey": [1, {"third_key": None}]}}
    call = from_json({"type": "toolCall", "id": "1", "name": "f", "arguments": arguments}, ToolCall)
    assert call.arguments is arguments
    assert to_json(call)["arguments"] is arguments


def test_numbers_stay_what_they_were() -> None:
    """0 is not saved as 0.0, nor the other way round."""
    cost = from_json({"input": 0, "output": 0.0, "total": 2}, Cost)
    assert canonical(to_json(cost)) == canonical({"input": 0, "output": 0.0, "total": 2})


# --- what may be asked for --------------------------------------------------------------------------------------------


def test_lists_of_objects() -> None:
    """Lists, tuples and dicts of objects are written as such; plain JSON passes."""
    assert to_json([TextStart(0), (TextDelta(0, "hi"),)]) == [
        {"type": "text_start", "contentIndex": 0},
        [{"type": "text_delta", "contentIndex": 0, "delta": "hi"}],
    ]
    assert to_json({"a": CALL, "b": [1, 0.5, True, None, "x"]}) == {
        "a": CALL_JSON,
        "b": [1, 0.5, True, None, "x"],
    }
    assert from_json([{"type": "text_start", "contentIndex": 0}], list[Event]) == [TextStart(0)]


def test_unions_are_told_apart_by_their_tag() -> None:
    """``Message``, ``Event``, ``Content`` and unions of an application's own choice."""
    assert from_json(CALL_JSON, Content) == CALL
    assert from_json(ANSWER_JSON, Message) == ANSWER
    assert from_json(ANSWER_JSON, UserMessage | AssistantMessage) == ANSWER
    assert from_json({"role": "x"}, UserMessage | CustomMessage) == CustomMessage("x", {"role": "x"})
    with pytest.raises(SerializationError, match='expected one of "user", "toolResult", not "assistant"'):
        from_json(ANSWER_JSON, UserMessage | ToolResultMessage)


@pytest.mark.parametrize("obj", [object(), b"bytes", {1, 2}, print, [TextDelta(0, "x"), object()]])
def test_what_has_no_json_form_is_refused(obj: Any) -> None:
    """Nothing unreadable gets into a saved session by ``to_json``."""
    with pytest.raises(SerializationError, match="no JSON form"):
        to_json(obj)


@pytest.mark.parametrize("cls", [object, Usage | Cost, int | float, list[object]])
def test_what_cannot_be_read_is_misuse(cls: Any) -> None:
    """A class that JSON cannot give is an error of the program, not of the data."""
    with pytest.raises(ConfigError):
        from_json([{}], list[cls])


# --- roles of applications --------------------------------------------------------------------------------------------


class Mood(enum.StrEnum):
    """How the author of a note feels."""

    GOOD = "good"
    BAD = "bad"


@register_role
@define
class Note:
    """A message of an application, with a bit of everything an application may have."""

    role: Literal["note"] = field(default="note", init=False)
    note_text: str
    mood: Mood | None = None
    parts: list[Content] = field(factory=list)
    named_tools: dict[str, Tool] = field(factory=dict)
    anything: Any | None = None
    timestamp: int = field(factory=messages.now_ms)
    extra: dict[str, Any] = field(factory=dict)


def test_registered_roles_are_read_and_written() -> None:
    """A message class of an application stands in a transcript beside the others."""
    note = Note(
        "hi", Mood.GOOD, [TextContent("part")], {"any_name": Tool("add", "", {})}, {"a_b": 1}, timestamp=1
    )
    data = {
        "role": "note",
        "noteText": "hi",
        "mood": "good",
        "parts": [{"type": "text", "text": "part"}],
        "namedTools": {"any_name": {"name": "add", "description": "", "parameters": {}}},
        "anything": {"a_b": 1},
        "timestamp": 1,
    }
    context = Context([note, UserMessage("hi", timestamp=1)])
    assert to_json(context)["messages"][0] == data
    assert from_json(to_json(context), Context) == context
    assert from_json(data, Message) == note
    assert type(from_json(data, Note).mood) is Mood


def test_registered_roles_keep_unknown_keys_where_they_have_a_place() -> None:
    """An ``extra`` attribute of an application's class works as ours do."""
    data = {"role": "note", "noteText": "hi", "future": 1}
    assert from_json(data, Message).extra == {"future": 1}
    assert from_json(data, Message).timestamp == 0


def test_errors_in_registered_roles_have_paths_too() -> None:
    """The JSON path leads into messages of an application as well."""
    with pytest.raises(SerializationError) as caught:
        from_json([{"role": "note", "noteText": "hi", "mood": "odd"}], list[Message])
    assert caught.value.path == "$[0].mood"


def test_types_that_are_not_there_at_run_time_are_misuse() -> None:
    """A class whose attribute types cannot be looked up is an error of the program that says so."""

    @define
    class Lost:
        role: Literal["lost"] = field(default="lost", init=False)
        value: NotImported | None = None  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(ConfigError, match="NotImported"):
        to_json(Lost())


# --- strictness -------------------------------------------------------------------------------------------------------

WRONG: list[tuple[Any, Any, str, str]] = [
    (Message, None, "$", "expected an object, not null"),
    (UnknownContent, 5, "$", "expected an object, not an integer"),
    (Message, {}, "$", 'missing key "role"'),
    (Message, {"role": 5}, "$.role", "expected a string, not an integer"),
    (UserMessage, {"content": "hi"}, "$", 'missing key "role"'),
    (UserMessage, {"role": "system"}, "$.role", 'expected one of "user", not "system"'),
    (UserMessage, {"role": "user", "content": None}, "$.content", "expected a string or a list, not null"),
    (UserMessage, {"role": "user", "content": 5}, "$.content", "expected a string or a list, not an integer"),
    (UserMessage, {"role": "user", "content": ["hi"]}, "$.content[0]", "expected an object, not a string"),
    (UserMessage, {"role": "user", "content": [{}]}, "$.content[0]", 'missing key "type"'),
    (UserMessage, {"role": "user", "timestamp": 5.0}, "$.timestamp", "expected an integer, not 5.0"),
    (UserMessage, {"role": "user", "timestamp": None}, "$.timestamp", "expected an integer, not null"),
    (UserMessage, {"role": "user", "timestamp": "5"}, "$.timestamp", "expected an integer, not a string"),
    (AssistantMessage, {"role": "assistant", "content": "hi"}, "$.content", "expected a list, not a string"),
    (AssistantMessage, {"role": "assistant", "content": {}}, "$.content", "expected a list, not an object"),
    (
        AssistantMessage,
        {"role": "assistant", "stopReason": "max_tokens"},
        "$.stopReason",
        'expected one of "pending", "stop", "length", "toolUse", "error", "aborted", "deferred", not "max_tokens"',
    ),
    (AssistantMessage, {"role": "assistant", "stopReason": 1}, "$.stopReason", "expected a string"),
    (AssistantMessage, {"role": "assistant", "usage": []}, "$.usage", "expected an object, not a list"),
    (TextContent, {"type": "text", "text": None}, "$.text", "expected a string, not null"),
    (ToolCall, {"type": "toolCall", "id": "1"}, "$", 'missing key "name"'),
    (
        ToolCall,
        {"type": "toolCall", "id": "1", "name": "f", "arguments": "{}"},
        "$.arguments",
        "an object, not a string",
    ),
    (ToolResultMessage, {"role": "toolResult", "toolName": "f"}, "$", 'missing key "toolCallId"'),
    (
        ToolResultMessage,
        {"role": "toolResult", "toolCallId": "1", "toolName": "f", "isError": "false"},
        "$.isError",
        "expected true or false, not a string",
    ),
    (Usage, {"input": True}, "$.input", "expected an integer, not true"),
    (Usage, {"cost": {"total": "0.5"}}, "$.cost.total", "expected a number, not a string"),
    (Usage, {"cost": {"total": False}}, "$.cost.total", "expected a number, not false"),
    (Usage, {"quality": "guessed"}, "$.quality", 'expected one of "reported", "partial", "estimated"'),
    (Tool, {"name": "f", "constrainedSampling": True}, "$.constrainedSampling", "one of false, not true"),
    (Tool, {"name": "f", "constrainedSampling": 0}, "$.constrainedSampling", "not an integer"),
    (ErrorCause, {"kind": "bad luck"}, "$.kind", '"connect", "tls", "timeout_connect"'),
    (
        SystemMessage,
        {"role": "system", "sections": {"a b": 5}},
        '$.sections["a b"]',
        "expected null or a string",
    ),
    (SystemMessage, {"role": "system", "sections": {"rules": 5}}, "$.sections.rules", "null or a string"),
    (ModelCost, {"tiers": [{}]}, "$.tiers[0]", 'missing key "inputTokensAbove"'),
    (Model, {"id": "m", "input": "text"}, "$.input", "expected a list, not a string"),
    (Model, {"id": "m", "compat": []}, "$.compat", "expected an object, not a list"),
    (Event, {"type": "text_part"}, "$.type", 'expected one of "start", "text_start"'),
    (Event, {"type": "text_delta", "contentIndex": 0}, "$", 'missing key "delta"'),
    (Limits, {"connect": -1}, "$", "Limits.connect must be"),
    (StreamOptions, {"limits": {"conect": 1}}, "$.limits", 'unknown keys ["conect"]'),
    (list[Message], {}, "$", "expected a list, not an object"),
    (list, "abc", "$", "expected a list, not a string"),
    (dict, [], "$", "expected an object, not a list"),
    (
        Context,
        {
            "messages": [
                {"role": "user"},
                {"role": "user", "content": [{"type": "text"}, {"type": "text", "text": 5}]},
            ]
        },
        "$.messages[1].content[1].text",
        "expected a string, not an integer",
    ),
]


@pytest.mark.parametrize(("cls", "data", "path", "reason"), WRONG)
def test_nothing_is_coerced(cls: Any, data: Any, path: str, reason: str) -> None:
    """A value of another kind is an error that names the JSON path and what was expected."""
    with pytest.raises(SerializationError) as caught:
        from_json(data, cls)
    assert caught.value.path == path
    assert reason in caught.value.reason


def test_several_problems_are_named_together() -> None:
    """Who repairs a file by hand sees more than the first thing to repair."""
    texts = [{"type": "text", "text": number} for number in range(9)]
    with pytest.raises(SerializationError) as caught:
        from_json({"role": "user", "content": texts}, Message)
    assert caught.value.path == "$.content[0].text"
    assert "$.content[4].text: expected a string, not an integer; and 4 more" in str(caught.value)


# --- text -------------------------------------------------------------------------------------------------------------


def test_text_is_compact_and_readable() -> None:
    """One line without spaces, characters of all scripts as they are; or indented for people."""
    message = UserMessage("Grüße 👋", timestamp=0)
    assert dumps(message) == '{"role":"user","content":"Grüße 👋","timestamp":0}'
    assert dumps(TextStart(0), indent=2) == '{\n  "type": "text_start",\n  "contentIndex": 0\n}'
    assert loads(dumps(message), Message) == message
    assert loads(dumps(message).encode(), Message) == message


def test_half_a_surrogate_pair_never_makes_saving_fail() -> None:
    """A JavaScript program may cut a string in the middle of an emoji; its session still loads and saves."""
    text = r'{"type":"text","text":"cut \ud83d","textSignature":"\udc4b👋"}'
    block = loads(text, TextContent)
    assert block.text == "cut \ud83d"
    assert dumps(block) == text
    dumps(block).encode()


@pytest.mark.parametrize(
    "text", ["", "{", "nul", '{"role": NaN}', "[1] 2", b"\xff", "[" * 100_000, "9" * 5000]
)
def test_text_that_is_not_json_is_our_error(text: str | bytes) -> None:
    """A broken file is a ``SerializationError`` like broken JSON values."""
    with pytest.raises(SerializationError, match="not JSON"):
        loads(text, Message)


@pytest.mark.parametrize("details", [float("nan"), {1, 2}, object()])
def test_values_json_does_not_have_are_our_error(details: Any) -> None:
    """A session file holds nothing that only Python could read."""
    with pytest.raises(SerializationError, match="no JSON form"):
        dumps(ToolResultMessage("1", "f", details={"value": details}))


# --- sessions of the forerunner ---------------------------------------------------------------------------------------


def material(folder: Path, pattern: str, key: str) -> Iterator[Any]:
    files = sorted(folder.glob(pattern))
    if not files:
        pytest.skip(f"no {pattern} in {folder}")
    for file in files:
        value = json.loads(file.read_text(encoding="utf-8"))[key]
        if value is not None:
            yield value


def test_the_example_conversation(shared: Path) -> None:
    """The conversation of the message model's description comes back as it was."""
    file = shared / "reference" / "conversation.json"
    if not file.exists():
        pytest.skip(f"{file} is not there")
    data = json.loads(file.read_text(encoding="utf-8"))
    conversation = from_json(data, list[Message])
    assert [message.role for message in conversation] == ["user", "assistant", "toolResult", "assistant"]
    assert canonical(to_json(conversation)) == canonical(data)


def test_final_messages_of_the_forerunner(shared: Path) -> None:
    """Every answer that the forerunner made of a recording comes back as it was."""
    for data in material(shared / "recordings", "*/*/pi-ai.json", "message"):
        assert canonical(to_json(from_json(data, Message))) == canonical(data)


def test_contexts_of_the_forerunner(shared: Path) -> None:
    """Every context that requests were made of comes back as it was."""
    for data in material(shared / "payloads" / "contexts", "*.json", "context"):
        assert canonical(to_json(from_json(data, Context))) == canonical(data)
