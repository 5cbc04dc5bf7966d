"""The Converse stream to events: blocks without start or stop, thinking, tools, exceptions, usage, ends, by hand."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest
from bedrock_bodies import (
    START,
    answer,
    arguments,
    call,
    delta,
    end,
    exception,
    frame,
    metadata,
    start,
    stop,
    text,
    thinking,
)

from pi_stream import AssistantMessage, decode
from pi_stream.apis.base import TranslatorSetup
from pi_stream.apis.bedrock import api
from pi_stream.events import Event
from pi_stream.messages import TextContent, ThinkingContent, ToolCall
from pi_stream.models import Model
from pi_stream.options import StreamOptions
from pi_stream.testing import check_events
from pi_stream.wire.eventstream import encode_frame

CUTS = (1, 2, 3, 7, 64)


def run(body: bytes, **arguments: Any) -> tuple[AssistantMessage, list[Event]]:
    """The answer, checked whole and cut."""
    given: dict[str, Any] = {"api": api.id, "provider": "amazon-bedrock", "model": "m", **arguments}
    events = decode(body, **given)
    message = check_events(events)
    for cut in CUTS:
        assert decode(body, cut=cut, **given) == events, f"differs when cut at {cut}"
    return message, events


def message_of(body: bytes, **arguments: Any) -> AssistantMessage:
    return run(body, **arguments)[0]


def cause(message: AssistantMessage) -> tuple[str, bool]:
    assert message.error_cause is not None
    return message.error_cause.kind, message.error_cause.retryable


def noted(message: AssistantMessage) -> list[str]:
    return [diagnostic.type for diagnostic in message.diagnostics or ()]


def kept(message: AssistantMessage) -> list[tuple[int, Any]]:
    return [(entry.after, entry.data) for entry in message.provider_data or ()]


# --- blocks -----------------------------------------------------------------------------------------------------------


def test_text_opens_with_its_first_piece() -> None:
    """Bedrock announces no text block."""
    message, events = run(answer(text(0, "Hel"), text(0, "lo"), stop(0)))
    assert [event.type for event in events] == [
        "start",
        "text_start",
        "text_delta",
        "text_delta",
        "text_end",
        "metadata",
        "metadata",
        "done",
    ]
    assert (message.text, message.stop_reason, message.raw_stop_reason) == ("Hello", "stop", "end_turn")
    assert not message.diagnostics


def test_a_start_that_says_nothing_is_allowed() -> None:
    """Some servers announce text with an empty start."""
    assert message_of(answer(start(0, {}), text(0, "hi"), stop(0))).content == [TextContent("hi")]


def test_text_in_the_start_is_its_first_piece() -> None:
    assert message_of(answer(start(0, {"text": "a"}), text(0, "b"), stop(0))).text == "ab"


def test_empty_text_opens_nothing() -> None:
    message = message_of(answer(text(0, ""), stop(0), text(1, "x"), stop(1)))
    assert message.content == [TextContent("x")]


def test_a_missing_block_stop_ends_text_and_call_all_the_same() -> None:
    message = message_of(answer(text(0, "see"), call(1), arguments(1, '{"a": 1}'), reason="tool_use"))
    assert message.content == [TextContent("see"), ToolCall("tooluse_1", "look", {"a": 1})]
    assert message.stop_reason == "toolUse"


def test_two_blocks_of_text_stay_two() -> None:
    message = message_of(answer(text(0, "a"), stop(0), text(1, "b"), stop(1)))
    assert message.content == [TextContent("a"), TextContent("b")]


def test_text_that_comes_back_after_another_block_opens_a_new_one() -> None:
    message = message_of(answer(text(0, "a"), text(1, "b"), text(0, "c")))
    assert [block.text for block in message.content if isinstance(block, TextContent)] == ["a", "b", "c"]
    assert noted(message) == ["block_reopened"]


def test_a_delta_without_a_number_belongs_to_the_last_block() -> None:
    message = message_of(answer(text(0, "a"), frame("contentBlockDelta", {"delta": {"text": "b"}})))
    assert message.content == [TextContent("ab")]


def test_content_before_the_message_starts_is_taken_with_a_note() -> None:
    message = message_of(text(0, "hi") + end() + metadata())
    assert (message.text, message.stop_reason) == ("hi", "stop")
    assert noted(message) == ["message_not_started"]


def test_a_second_start_of_the_message_changes_nothing() -> None:
    assert message_of(answer(text(0, "a"), frame("messageStart", START), text(0, "b"))).text == "ab"


# --- thinking ---------------------------------------------------------------------------------------------------------


def test_thinking_carries_its_signature() -> None:
    body = answer(
        thinking(0, text="think"),
        thinking(0, signature="SI"),
        thinking(0, signature="G"),
        stop(0),
        text(1, "answer"),
    )
    message = message_of(body)
    assert message.content == [
        ThinkingContent("think", thinking_signature="SIG"),
        TextContent("answer"),
    ]


def test_a_signature_alone_makes_a_block() -> None:
    """Thinking that is not shown must go back all the same."""
    message = message_of(answer(thinking(0, signature="SIG"), stop(0), text(1, "x")))
    assert message.content[0] == ThinkingContent("", thinking_signature="SIG")


def test_a_late_signature_finds_its_block() -> None:
    message = message_of(answer(thinking(0, text="t"), text(1, "x"), thinking(0, signature="SIG"), stop(0)))
    assert message.content == [ThinkingContent("t", thinking_signature="SIG"), TextContent("x")]


def test_redacted_thinking_is_the_base64_of_all_its_bytes() -> None:
    pieces = [b64encode(part).decode() for part in (b"opaq", b"ue!")]
    body = answer(*(thinking(0, redactedContent=piece) for piece in pieces), stop(0), text(1, "x"))
    message, events = run(body)
    block = message.content[0]
    assert isinstance(block, ThinkingContent)
    assert (block.redacted, block.thinking) == (True, "[Reasoning redacted]")
    assert block.thinking_signature == b64encode(b"opaque!").decode()
    assert [event.type for event in events[1:4]] == ["thinking_start", "thinking_delta", "thinking_end"]


def test_readable_and_redacted_thinking_of_one_number_are_two_blocks() -> None:
    body = answer(
        thinking(0, text="t"), thinking(0, signature="S"), thinking(0, redactedContent="AAAA"), stop(0)
    )
    first, second = message_of(body).content
    assert first == ThinkingContent("t", thinking_signature="S")
    assert isinstance(second, ThinkingContent)
    assert second.thinking_signature == "AAAA"


# --- tools ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pieces", [[], [""], ["  "]])
def test_a_call_without_arguments_has_none(pieces: list[str]) -> None:
    message = message_of(answer(call(0), *(arguments(0, p) for p in pieces), stop(0), reason="tool_use"))
    assert message.content == [ToolCall("tooluse_1", "look", {})]


def test_calls_may_stay_open_beside_each_other() -> None:
    body = answer(
        call(0, id="a"),
        call(1, "see", "b"),
        arguments(0, '{"n": '),
        arguments(1, '{"n": 2}'),
        arguments(0, "1}"),
        stop(0),
        stop(1),
        reason="tool_use",
    )
    assert message_of(body).tool_calls == [ToolCall("a", "look", {"n": 1}), ToolCall("b", "see", {"n": 2})]


def test_input_in_the_start_is_kept_and_an_object_is_taken_for_text() -> None:
    whole = start(0, {"toolUse": {"toolUseId": "a", "name": "look", "input": {"n": 1}}})
    piece = delta(1, {"toolUse": {"input": {"n": 2}}})
    message = message_of(answer(whole, stop(0), call(1, id="b"), piece, stop(1), reason="tool_use"))
    assert [call.arguments for call in message.tool_calls] == [{"n": 1}, {"n": 2}]


def test_a_call_that_was_never_announced_cannot_be_used() -> None:
    message = message_of(answer(arguments(0, '{"a": 1}'), stop(0), reason="tool_use"))
    (made,) = message.tool_calls
    assert made.id == "tooluse_0"
    assert made.arguments_error is not None
    assert "without a name" in made.arguments_error
    assert noted(message) == ["block_not_started"]


def test_a_start_that_comes_twice_is_one_call() -> None:
    message = message_of(
        answer(call(0), arguments(0, '{"a"'), call(0), arguments(0, ": 1}"), reason="tool_use")
    )
    assert message.tool_calls == [ToolCall("tooluse_1", "look", {"a": 1})]


def test_end_turn_after_complete_calls_is_tool_use() -> None:
    message = message_of(answer(call(0), arguments(0, "{}"), stop(0), reason="end_turn"))
    assert (message.stop_reason, message.raw_stop_reason) == ("toolUse", "end_turn")


def test_a_call_cut_by_the_limit_is_no_valid_call() -> None:
    message = message_of(answer(call(0), arguments(0, '{"a": "b'), stop(0), reason="max_tokens"))
    assert message.stop_reason == "length"
    assert message.tool_calls[0].arguments_error is not None


def test_tool_use_without_a_call_is_a_stop_or_an_error() -> None:
    message = message_of(answer(text(0, "hm"), reason="tool_use"))
    assert message.stop_reason == "stop"
    assert noted(message) == ["tool_use_without_call"]
    assert message_of(answer(reason="tool_use")).stop_reason == "error"


# --- content without a block of ours ----------------------------------------------------------------------------------


def test_tools_of_the_provider_are_kept_in_their_place() -> None:
    use = {"toolUseId": "s", "name": "search", "type": "server_tool_use"}
    result = {"toolUseId": "s", "type": "search_result", "status": "success"}
    body = answer(
        text(0, "a"),
        stop(0),
        start(1, {"toolUse": use}),
        arguments(1, '{"q": '),
        arguments(1, '"x"}'),
        stop(1),
        start(2, {"toolResult": result}),
        delta(2, {"toolResult": [{"text": "found"}]}),
        stop(2),
        text(3, "b"),
    )
    message = message_of(body)
    assert message.content == [TextContent("a"), TextContent("b")]
    assert kept(message) == [
        (1, {"toolUse": {**use, "input": {"q": "x"}}}),
        (1, {"toolResult": {**result, "content": [{"text": "found"}]}}),
    ]


def test_citations_belong_to_the_text_of_their_block() -> None:
    first, second = {"title": "one"}, {"title": "two"}
    body = answer(
        text(0, "a"),
        stop(0),
        delta(1, {"citation": first}),
        text(1, "b"),
        delta(1, {"citation": second}),
        stop(1),
        text(2, "c"),
    )
    assert kept(message_of(body)) == [(2, {"citationsContent": {"citations": [first, second]}})]


def test_images_and_unknown_blocks_are_kept() -> None:
    body = answer(
        start(0, {"image": {"format": "png"}}),
        delta(0, {"image": {"source": {"bytes": "AAAA"}}}),
        delta(0, {"image": {"source": {"bytes": "BBBB"}}}),
        stop(0),
        start(1, {"hologram": {"size": 3}}),
        delta(1, {"hologram": {"beam": 1}}),
        stop(1),
        text(2, "x"),
    )
    message = message_of(body)
    assert kept(message) == [
        (0, {"image": {"format": "png", "source": {"bytes": "AAAABBBB"}}}),
        (0, {"hologram": {"size": 3, "deltas": [{"beam": 1}]}}),
    ]
    assert message.stop_reason == "stop"


def test_trace_and_response_fields_are_kept_and_the_router_names_the_model() -> None:
    trace = {"promptRouter": {"invokedModelId": "arn:aws:bedrock:us-east-1::foundation-model/x.y"}}
    body = b"".join(
        [
            frame("messageStart", START),
            text(0, "x"),
            end(additionalModelResponseFields={"a": 1}),
            metadata(trace=trace),
        ]
    )
    message = message_of(body)
    assert message.response_model == "arn:aws:bedrock:us-east-1::foundation-model/x.y"
    assert kept(message) == [(1, {"additionalModelResponseFields": {"a": 1}}), (1, {"trace": trace})]


# --- the end ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
    ],
)
def test_good_stop_reasons(reason: str, expected: str) -> None:
    message = message_of(answer(text(0, "x"), reason=reason))
    assert (message.stop_reason, message.raw_stop_reason) == (expected, reason)


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("guardrail_intervened", ("filtered", False)),
        ("content_filtered", ("filtered", False)),
        ("malformed_model_output", ("provider_error", True)),
        ("malformed_tool_use", ("provider_error", True)),
    ],
)
def test_bad_stop_reasons_are_errors_that_keep_the_content(reason: str, expected: tuple[str, bool]) -> None:
    message = message_of(answer(text(0, "x"), reason=reason))
    assert (message.stop_reason, cause(message), message.text) == ("error", expected, "x")
    assert message.raw_stop_reason == reason
    assert message.usage.total_tokens == 13


def test_an_unknown_stop_reason_is_a_stop_or_an_error_by_choice() -> None:
    message = message_of(answer(text(0, "x"), reason="bored"))
    assert (message.stop_reason, noted(message)) == ("stop", ["unknown_stop_reason"])
    setup = TranslatorSetup(model=Model(id="m"), options=StreamOptions(unknown_stop="error"))
    translator = api.translator(setup)
    out: list[Any] = []
    translator.translate([{"messageStop": {"stopReason": "bored"}}, {"metadata": {}}], out)
    translator.finish(out)
    assert out[-1].reason == "error"


def test_truncation_is_an_error_that_keeps_the_content() -> None:
    message = message_of(frame("messageStart", START) + text(0, "half") + call(1))
    assert (message.stop_reason, cause(message), message.text) == ("error", ("truncated", True), "half")
    assert message.tool_calls[0].arguments_error is not None


def test_a_body_that_ends_after_the_stop_reason_is_complete() -> None:
    message = message_of(frame("messageStart", START) + text(0, "x") + end())
    assert (message.stop_reason, noted(message)) == ("stop", ["metadata_missing"])


def test_nothing_is_read_behind_the_end() -> None:
    message = message_of(answer(text(0, "x")) + text(0, "y") + b"garbage")
    assert (message.text, message.stop_reason) == ("x", "stop")


# --- failures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "words", "expected"),
    [
        ("throttlingException", "Too many tokens, please wait.", ("rate_limit", True)),
        ("serviceUnavailableException", "busy", ("overloaded", True)),
        ("internalServerException", "oops", ("provider_error", True)),
        ("modelStreamErrorException", "broke", ("provider_error", True)),
        ("validationException", "bad", ("provider_error", False)),
        ("validationException", "Input is too long for requested model.", ("overflow", False)),
    ],
)
def test_exceptions_end_the_stream_and_keep_the_content(
    kind: str, words: str, expected: tuple[str, bool]
) -> None:
    body = frame("messageStart", START) + text(0, "half") + exception(kind, {"message": words})
    message, events = run(body + text(0, "never"))
    assert (message.stop_reason, cause(message), message.text) == ("error", expected, "half")
    assert message.error_message == words
    assert message.error_cause is not None
    assert message.error_cause.provider_code == kind
    assert [event.type for event in events[-2:]] == ["text_end", "error"]


def test_an_exception_before_any_content_is_a_lone_error() -> None:
    _, events = run(frame("messageStart", START) + exception("throttlingException", {"message": "slow"}))
    assert [event.type for event in events] == ["error"]


def test_the_status_of_the_model_itself_says_what_happened() -> None:
    broken = {"message": "broke", "originalStatusCode": 429, "originalMessage": "slow"}
    message = message_of(exception("modelStreamErrorException", broken))
    assert cause(message) == ("rate_limit", True)


def test_an_error_of_the_connection_is_an_error() -> None:
    headers = {":message-type": "error", ":error-code": "InternalFailure", ":error-message": "gone"}
    message = message_of(frame("messageStart", START) + text(0, "x") + encode_frame(headers))
    assert (message.stop_reason, message.error_message, message.text) == ("error", "gone", "x")


def test_a_frame_with_a_wrong_checksum_is_malformed_and_keeps_the_content() -> None:
    broken = bytearray(text(0, "y"))
    broken[-1] ^= 1
    message = message_of(frame("messageStart", START) + text(0, "x") + bytes(broken))
    assert (cause(message)[0], message.text) == ("malformed", "x")


def test_an_error_status_keeps_body_and_exception() -> None:
    body = b'{"message":"The security token included in the request is expired"}'
    message = message_of(body, status=403, content_type="application/json")
    assert cause(message) == ("auth", False)
    assert message.error_message == "403 The security token included in the request is expired"


def test_a_gateway_that_answers_text_is_quoted() -> None:
    message = message_of(b"upstream connect error", status=503, content_type="text/plain")
    assert cause(message) == ("overloaded", True)
    assert message.error_message == "503 upstream connect error"


# --- usage ------------------------------------------------------------------------------------------------------------


def usage_of(usage: Any) -> AssistantMessage:
    return message_of(frame("messageStart", START) + text(0, "x") + end() + metadata(usage))


def test_cache_tokens_stand_beside_the_input() -> None:
    usage = usage_of(
        {
            "inputTokens": 11,
            "outputTokens": 5,
            "totalTokens": 16,
            "cacheReadInputTokens": 100,
            "cacheWriteInputTokens": 50,
            "cacheDetails": [
                {"ttl": "1h", "inputTokens": 20},
                {"ttl": "5m", "inputTokens": 20},
                {"ttl": "1h", "inputTokens": 10},
            ],
        }
    ).usage
    assert (usage.input, usage.output, usage.cache_read, usage.cache_write) == (11, 5, 100, 50)
    assert (usage.cache_write_1h, usage.total_tokens, usage.provider_total_tokens) == (30, 166, 16)


def test_without_details_the_hour_is_unknown() -> None:
    usage = usage_of({"inputTokens": 1, "outputTokens": 2, "totalTokens": 3}).usage
    assert (usage.cache_write_1h, usage.reasoning, usage.total_tokens) == (None, None, 3)


def test_usage_of_odd_shapes_reads_as_nothing() -> None:
    usage = usage_of({"inputTokens": "9", "outputTokens": None, "cacheDetails": [3, {"ttl": 1}]}).usage
    assert (usage.input, usage.output, usage.cache_write) == (0, 0, 0)


# --- whole answers ----------------------------------------------------------------------------------------------------


def test_a_whole_json_answer_gives_the_events_of_its_stream() -> None:
    content = [
        {"reasoningContent": {"reasoningText": {"text": "think", "signature": "SIG"}}},
        {"citationsContent": {"content": [{"text": "cited"}], "citations": [{"title": "t"}]}},
        {"toolUse": {"toolUseId": "a", "name": "look", "input": {"n": 1}}},
    ]
    whole = {
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": "tool_use",
        "usage": {"inputTokens": 9, "outputTokens": 4, "totalTokens": 13},
    }
    message = message_of(json.dumps(whole).encode(), content_type="application/json")
    assert message.content == [
        ThinkingContent("think", thinking_signature="SIG"),
        TextContent("cited"),
        ToolCall("a", "look", {"n": 1}),
    ]
    assert (message.stop_reason, message.usage.total_tokens) == ("toolUse", 13)
    assert kept(message) == [(2, {"citationsContent": {"citations": [{"title": "t"}]}})]


def test_a_json_error_with_status_200_is_an_error() -> None:
    message = message_of(b'{"message": "Missing Authentication Token"}')
    assert (message.stop_reason, message.error_message) == ("error", "Missing Authentication Token")


# --- the invoke stream ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoded", [True, False])
def test_frames_of_the_invoke_stream_hold_events_of_messages(encoded: bool) -> None:
    """Base64 as AWS has it, or the event itself, as a mock server sends it."""
    events: list[Any] = [
        {"type": "message_start", "message": {"id": "msg_1", "usage": {"input_tokens": 3}}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hi"}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
        {"type": "message_stop"},
    ]
    payloads = [{"bytes": b64encode(json.dumps(e).encode()).decode()} for e in events] if encoded else events
    body = b"".join(frame("chunk", payload) for payload in payloads)
    message = message_of(body, api="bedrock-invoke")
    assert (message.text, message.stop_reason, message.usage.total_tokens) == ("hi", "stop", 5)
