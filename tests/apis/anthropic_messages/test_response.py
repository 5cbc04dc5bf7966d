"""Answers of the Messages api: what the reference page describes, and what goes wrong in the field."""

from __future__ import annotations

import json
from typing import Any

import pytest
from anthropic_bodies import STOP, answer, begin, call, end, over, piece, run, sse, start, text

from pi_stream.apis.anthropic_messages import api
from pi_stream.apis.base import TranslatorSetup
from pi_stream.events import Draft, Finish, Metadata, TextDelta
from pi_stream.messages import TextContent, ThinkingContent, ToolCall
from pi_stream.models import Model
from pi_stream.options import StreamOptions
from pi_stream.usage import ModelCost


def kinds(events: list[Any]) -> list[str]:
    return [event.type for event in events]


def diagnostics(message: Any) -> list[str]:
    return [diagnostic.type for diagnostic in message.diagnostics or ()]


def kept(message: Any) -> list[tuple[int, Any]]:
    return [(entry.after, entry.data) for entry in message.provider_data or ()]


# --- text, thinking, calls --------------------------------------------------------------------------------------------


def test_text() -> None:
    events, message = run(answer(*text(0, "Hel", "lo")))
    assert kinds(events) == [
        "start",
        *["metadata"] * 2,
        *["text_start", "text_delta", "text_delta", "text_end"],
        *["metadata"] * 2,
        "done",
    ]
    assert (message.text, message.stop_reason, message.raw_stop_reason) == ("Hello", "stop", "end_turn")
    assert (message.response_id, message.response_model) == ("msg_1", None)
    assert (message.usage.input, message.usage.output, message.usage.total_tokens) == (9, 7, 16)


def test_lines_with_the_event_s_name_say_nothing_new() -> None:
    events = [start(), *text(0, "hi"), {"type": "ping"}, end(), STOP]
    assert run(sse(*events))[0] == run(sse(*events, names=True))[0]


def test_another_model_answers() -> None:
    assert run(sse(start(model="claude-x-20300101"), *text(0, "hi"), end(), STOP))[1].response_model == (
        "claude-x-20300101"
    )


def test_thinking_with_its_signature() -> None:
    events, message = run(
        answer(
            begin(0, "thinking", thinking="", signature=""),
            piece(0, thinking="let me"),
            piece(0, thinking=" see"),
            piece(0, signature="SI"),
            piece(0, signature="G"),
            over(0),
            *text(1, "so"),
        )
    )
    assert message.content == [ThinkingContent("let me see", thinking_signature="SIG"), TextContent("so")]
    assert kinds(events).count("thinking_delta") == 2


def test_thinking_that_is_not_shown_is_kept_for_its_signature() -> None:
    _, message = run(
        answer(begin(0, "thinking", thinking="", signature=""), piece(0, signature="SIG"), over(0))
    )
    assert message.content == [ThinkingContent("", thinking_signature="SIG")]


def test_thinking_without_anything_opens_nothing() -> None:
    _, message = run(
        answer(begin(0, "thinking", thinking=""), piece(0, signature=""), over(0), *text(1, "a"))
    )
    assert message.content == [TextContent("a")]


def test_redacted_thinking_shows_a_placeholder_in_one_delta() -> None:
    events, message = run(answer(begin(0, "redacted_thinking", data="OPAQUE"), over(0), *text(1, "a")))
    assert message.content[0] == ThinkingContent(
        "[Reasoning redacted]", thinking_signature="OPAQUE", redacted=True
    )
    assert kinds(events).count("thinking_delta") == 1


def test_tool_call() -> None:
    events, message = run(answer(*text(0, "I look"), *call(1, "", '{"a"', ":1}"), reason="tool_use"))
    assert message.tool_calls == [ToolCall("toolu_1", "look", {"a": 1})]
    assert message.stop_reason == "toolUse"
    assert kinds(events).count("toolcall_delta") == 2, "an empty piece says nothing"


@pytest.mark.parametrize("pieces", [(), ("",), ("{}",)])
def test_tool_call_without_arguments(pieces: tuple[str, ...]) -> None:
    assert run(answer(*call(0, *pieces), reason="tool_use"))[1].tool_calls == [
        ToolCall("toolu_1", "look", {})
    ]


@pytest.mark.parametrize("whole", [{"a": 1}, '{"a": 1}'])
@pytest.mark.parametrize("pieces", [(), ('{"a":', "1}")])
def test_input_given_with_the_start_of_the_block(whole: Any, pieces: tuple[str, ...]) -> None:
    """Some gateways send it whole; a stream that repeats it changes nothing."""
    block = begin(0, "tool_use", id="t", name="look", input=whole)
    parts = [piece(0, partial_json=part) for part in pieces]
    _, message = run(answer(block, *parts, over(0), reason="tool_use"))
    assert message.tool_calls == [ToolCall("t", "look", {"a": 1})]
    assert message.diagnostics is None


def test_text_given_with_the_start_of_the_block() -> None:
    _, message = run(
        answer(
            begin(0, "thinking", thinking="hm", signature="SIG"),
            over(0),
            begin(1, "text", text="Hel"),
            piece(1, text="lo"),
            over(1),
        )
    )
    assert message.content == [ThinkingContent("hm", thinking_signature="SIG"), TextContent("Hello")]


def test_neighbouring_text_blocks_stay_apart() -> None:
    assert run(answer(*text(0, "a"), *text(1, "b")))[1].content == [TextContent("a"), TextContent("b")]


def test_arguments_cut_by_the_token_limit_are_no_arguments() -> None:
    _, message = run(answer(*call(0, '{"path": "/a'), reason="max_tokens"))
    assert message.stop_reason == "length"
    assert message.tool_calls[0].arguments == {} and message.tool_calls[0].arguments_error


def test_call_without_an_id_gets_one_that_is_the_same_each_time() -> None:
    block = begin(0, "tool_use", name="look", input={"a": 1})
    assert run(answer(block, over(0), reason="tool_use"))[1].tool_calls[0].id == "toolu_msg1_0"


def test_call_without_a_name_cannot_be_used() -> None:
    _, message = run(answer(begin(0, "tool_use", id="t"), piece(0, partial_json='{"a":1}'), over(0)))
    assert message.tool_calls[0].arguments_error == 'the provider sent a tool call without a name\n\n{"a":1}'


# --- several blocks open at once --------------------------------------------------------------------------------------


def test_calls_side_by_side_that_all_end_at_the_end() -> None:
    """llama.cpp stops its blocks after the last one."""
    events, message = run(
        answer(
            begin(0, "tool_use", id="a", name="look"),
            piece(0, partial_json='{"n":'),
            begin(1, "tool_use", id="b", name="look"),
            piece(1, partial_json='{"n":2}'),
            piece(0, partial_json="1}"),
            *(over(0), over(1)),
            reason="tool_use",
        )
    )
    assert message.tool_calls == [ToolCall("a", "look", {"n": 1}), ToolCall("b", "look", {"n": 2})]
    assert [kind for kind in kinds(events) if kind.startswith("toolcall_")] == [
        *["toolcall_start", "toolcall_delta"] * 2,
        "toolcall_delta",
        *["toolcall_end"] * 2,
    ]


def test_text_ends_when_a_call_opens_and_its_late_stop_says_nothing() -> None:
    events, message = run(
        answer(
            begin(0, "text", text=""),
            piece(0, text="I look"),
            begin(1, "tool_use", id="a", name="look"),
            piece(1, partial_json="{}"),
            *(over(0), over(1)),
            reason="tool_use",
        )
    )
    assert kinds(events).index("text_end") < kinds(events).index("toolcall_start")
    assert message.content == [TextContent("I look"), ToolCall("a", "look", {})]
    assert message.diagnostics is None


def test_text_that_comes_late_for_a_block_that_has_ended_opens_a_new_one() -> None:
    """Nothing is lost and nothing waits; the oddity is noted once."""
    _, message = run(
        answer(
            begin(0, "text", text=""),
            piece(0, text="one"),
            begin(1, "tool_use", id="a", name="look"),
            piece(1, partial_json='{"n":'),
            piece(0, text=" two"),
            piece(1, partial_json="1}"),
            *(over(0), over(1)),
            piece(0, text=" three"),
        )
    )
    assert message.content == [
        TextContent("one"),
        ToolCall("a", "look", {"n": 1}),
        TextContent(" two"),
        TextContent(" three"),
    ]
    assert diagnostics(message) == ["block_reopened"]


def test_signature_that_comes_after_its_thinking_has_ended() -> None:
    events, message = run(
        answer(
            begin(0, "thinking", thinking=""),
            piece(0, thinking="hm"),
            begin(1, "text", text=""),
            piece(1, text="so"),
            piece(0, signature="SIG"),
            *(over(0), over(1)),
        )
    )
    assert message.content == [ThinkingContent("hm", thinking_signature="SIG"), TextContent("so")]
    assert [event.content_index for event in events if isinstance(event, Metadata) and event.signature] == [0]


def test_input_after_the_end_of_its_call_is_noted_and_dropped() -> None:
    _, message = run(answer(*call(0, "{}"), piece(0, partial_json="x"), reason="tool_use"))
    assert message.tool_calls == [ToolCall("toolu_1", "look", {})]
    assert diagnostics(message) == ["input_after_block_stop"]


def test_every_block_has_index_zero() -> None:
    """An index that starts again ends the older block."""
    _, message = run(answer(*text(0, "a")[:-1], *call(0, '{"n":1}')[:-1], *text(0, "b")))
    assert message.content == [TextContent("a"), ToolCall("toolu_1", "look", {"n": 1}), TextContent("b")]


def test_events_without_an_index_belong_to_the_last_block() -> None:
    def bare(*events: dict[str, Any]) -> list[dict[str, Any]]:
        return [{key: value for key, value in event.items() if key != "index"} for event in events]

    _, message = run(answer(*bare(*text(0, "a"), *call(1, '{"n":1}')), reason="tool_use"))
    assert message.content == [TextContent("a"), ToolCall("toolu_1", "look", {"n": 1})]


# --- odd orders -------------------------------------------------------------------------------------------------------


def test_message_start_several_times_resets_nothing() -> None:
    again = start(id="msg_2", model="other", usage={"input_tokens": 11, "output_tokens": None})
    _, message = run(sse(start(), *text(0, "a", "b")[:-2], again, piece(0, text="b"), over(0), end(), STOP))
    assert message.text == "ab"
    assert (message.response_id, message.response_model) == ("msg_1", None)
    assert (message.usage.input, message.usage.output) == (11, 7)


def test_content_before_message_start() -> None:
    _, message = run(sse(*text(0, "a"), start(), end(), STOP))
    assert (message.text, message.response_id) == ("a", "msg_1")
    assert diagnostics(message) == ["message_not_started"]


@pytest.mark.parametrize(
    ("delta", "content"),
    [
        ({"text": "a"}, TextContent("a")),
        ({"thinking": "a"}, ThinkingContent("a")),
    ],
)
def test_delta_without_a_start_opens_a_block_of_its_own_kind(delta: dict[str, str], content: Any) -> None:
    _, message = run(answer(piece(0, **delta)))
    assert message.content == [content]
    assert diagnostics(message) == ["block_not_started"]


def test_input_without_a_start_is_a_call_that_says_what_is_wrong() -> None:
    _, message = run(answer(piece(0, partial_json='{"a":1}'), reason="tool_use"))
    assert message.tool_calls[0].arguments_error


def test_delta_of_another_kind_than_its_block() -> None:
    """The piece decides, and the block that was announced goes on."""
    _, message = run(
        answer(
            begin(0, "tool_use", id="a", name="look"),
            piece(0, partial_json='{"n":'),
            piece(0, text="oops"),
            piece(0, partial_json="1}"),
            over(0),
            reason="tool_use",
        )
    )
    assert message.content == [ToolCall("a", "look", {"n": 1}), TextContent("oops")]
    assert diagnostics(message) == ["block_not_started"]


def test_delta_whose_type_is_missing_is_told_by_what_it_holds() -> None:
    delta = {"type": "content_block_delta", "index": 0, "delta": {"text": "a"}}
    assert run(answer(begin(0, "text", text=""), delta, over(0)))[1].text == "a"


def test_unknown_events_and_deltas_are_noted_once() -> None:
    odd = {"type": "hologram", "x": 1}
    unknown = {"type": "content_block_delta", "index": 0, "delta": {"type": "smell_delta", "smell": "rose"}}
    _, message = run(answer(odd, odd, begin(0, "text", text=""), unknown, piece(0, text="a"), over(0)))
    assert message.text == "a"
    assert diagnostics(message) == ["unexpected_chunk"]


# --- how it ends ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("pause_turn", "stop"),
        ("compaction", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
    ],
)
def test_stop_reasons(raw: str, reason: str) -> None:
    _, message = run(answer(*text(0, "a"), reason=raw))
    assert (message.stop_reason, message.raw_stop_reason, message.diagnostics) == (reason, raw, None)


def test_complete_calls_are_called_whatever_the_word() -> None:
    assert run(answer(*call(0, "{}"), reason="end_turn"))[1].stop_reason == "toolUse"


def test_tool_use_without_a_call() -> None:
    _, message = run(answer(*text(0, "a"), reason="tool_use"))
    assert (message.stop_reason, diagnostics(message)) == ("stop", ["tool_use_without_call"])
    _, message = run(answer(reason="tool_use"))
    assert message.stop_reason == "error" and message.error_cause.retryable


def test_answer_without_content_is_an_answer() -> None:
    assert run(answer(reason="stop_sequence", stop_sequence="END"))[1].stop_reason == "stop"


def test_refusal_is_an_error_in_the_provider_s_words() -> None:
    details = {"type": "refusal", "category": "cyber", "explanation": "Not this."}
    _, message = run(answer(*text(0, "a"), reason="refusal", stop_details=details))
    assert (message.stop_reason, message.error_message, message.text) == ("error", "Not this.", "a")
    assert (message.error_cause.kind, message.error_cause.provider_code) == ("refusal", "cyber")
    assert not message.error_cause.retryable
    assert run(answer(reason="refusal"))[1].error_message


@pytest.mark.parametrize(
    ("raw", "kind"),
    [("sensitive", "filtered"), ("malformed_tool_use", "provider_error"), ("error", "provider_error")],
)
def test_bad_stop_reasons(raw: str, kind: str) -> None:
    _, message = run(answer(*text(0, "a"), reason=raw))
    assert (message.stop_reason, message.error_cause.kind, message.raw_stop_reason) == ("error", kind, raw)


def test_unknown_stop_reason() -> None:
    _, message = run(answer(*text(0, "a"), reason="bored"))
    assert (message.stop_reason, message.raw_stop_reason) == ("stop", "bored")
    assert diagnostics(message) == ["unknown_stop_reason"]


def test_unknown_stop_reason_as_error() -> None:
    out = translated(
        [start(), *text(0, "a"), end("bored"), STOP], options=StreamOptions(unknown_stop="error")
    )
    assert isinstance(out[-1], Finish) and out[-1].reason == "error"


def test_the_last_stop_reason_wins() -> None:
    body = sse(start(), *text(0, "a"), end("end_turn"), end("max_tokens"), end(None), STOP)
    assert run(body)[1].stop_reason == "length"


def test_end_without_message_stop_is_a_success_with_a_note() -> None:
    _, message = run(sse(start(), *text(0, "a"), end()))
    assert (message.stop_reason, diagnostics(message)) == ("stop", ["message_stop_missing"])


@pytest.mark.parametrize("last", [STOP, {"type": "ping"}])
def test_end_without_stop_reason_is_truncation(last: dict[str, Any]) -> None:
    _, message = run(sse(start(), *text(0, "a")[:-1], last))
    assert (message.stop_reason, message.error_cause.kind, message.text) == ("error", "truncated", "a")
    assert message.usage.input == 9, "counts of the start are kept"


def test_nothing_is_read_after_message_stop() -> None:
    body = answer(*text(0, "a"))
    assert run(body + sse(start(), *text(1, "b"), end(), STOP) + b"data: {broken\n\n")[0] == run(body)[0]


def test_a_sentinel_of_a_gateway() -> None:
    done = b"data: [DONE]\n\n"
    assert run(answer(*text(0, "a")) + done)[0] == run(answer(*text(0, "a")))[0]
    assert run(sse(start(), *text(0, "a"), end()) + done)[1].stop_reason == "stop"
    assert run(sse(start(), *text(0, "a")) + done)[1].error_cause.kind == "truncated"


# --- errors in the stream ---------------------------------------------------------------------------------------------

OVERLOADED = {
    "type": "error",
    "error": {"type": "overloaded_error", "message": "busy"},
    "request_id": "req_1",
}


def test_overloaded_as_first_event_is_a_lone_error_that_may_be_retried() -> None:
    events, message = run(sse(OVERLOADED))
    assert kinds(events) == ["error"]
    assert (message.error_message, message.error_cause.kind) == ("busy", "overloaded")
    assert message.error_cause.retryable and message.error_cause.request_id == "req_1"


def test_error_after_content_keeps_it() -> None:
    thinking = [begin(0, "thinking", thinking="hm"), piece(0, signature="SIG")]
    _, message = run(sse(start(), *thinking, OVERLOADED, *text(1, "never"), end(), STOP))
    assert message.content == [ThinkingContent("hm", thinking_signature="SIG")]
    assert (message.stop_reason, message.error_cause.retryable) == ("error", True)


@pytest.mark.parametrize(
    "error",
    [
        {"error": {"code": 503, "message": "loading", "type": "unavailable_error"}},
        {"type": "error", "message": "loading", "code": "unavailable_error"},
    ],
)
def test_error_in_the_dress_of_another_protocol(error: dict[str, Any]) -> None:
    _, message = run(sse(start(), error))
    assert (message.error_message, message.error_cause.kind) == ("loading", "overloaded")


# --- counts -----------------------------------------------------------------------------------------------------------


def test_counts_are_cumulative_for_each_field() -> None:
    first = {
        "input_tokens": 14,
        "cache_read_input_tokens": 100,
        "cache_creation_input_tokens": 8,
        "output_tokens": 1,
    }
    later = {
        "input_tokens": 14,
        "cache_read_input_tokens": 100,
        "cache_creation_input_tokens": None,
        "output_tokens": 7,
    }
    usage = run(sse(start(usage=first), *text(0, "a"), end(usage=later), STOP))[1].usage
    assert (usage.input, usage.cache_read, usage.cache_write, usage.output) == (14, 100, 8, 7)
    assert usage.total_tokens == 129


def test_zero_is_a_count() -> None:
    usage = run(sse(start(), *text(0, "a"), end(usage={"output_tokens": 0}), STOP))[1].usage
    assert (usage.input, usage.output) == (9, 0)


def test_hour_long_cache_writes_and_thinking_tokens() -> None:
    first = {
        "input_tokens": 5,
        "cache_creation_input_tokens": 30,
        "cache_creation": {"ephemeral_5m_input_tokens": 10, "ephemeral_1h_input_tokens": 20},
    }
    last = {"output_tokens": 9, "output_tokens_details": {"thinking_tokens": 4}}
    usage = run(sse(start(usage=first), *text(0, "a"), end(usage=last), STOP))[1].usage
    assert (usage.cache_write, usage.cache_write_1h, usage.reasoning) == (30, 20, 4)


def test_cache_writes_told_by_lifetime_only() -> None:
    first = {
        "input_tokens": 5,
        "cache_creation": {"ephemeral_5m_input_tokens": 1, "ephemeral_1h_input_tokens": 2},
    }
    usage = run(sse(start(usage=first), *text(0, "a"), end(), STOP))[1].usage
    assert (usage.cache_write, usage.cache_write_1h) == (3, 2)


def test_hour_long_cache_writes_cost_twice_the_input() -> None:
    model = Model(id="m", cost=ModelCost(input=3, output=15, cache_write=3.75))
    counts = {
        "input_tokens": 0,
        "cache_creation_input_tokens": 3_000_000,
        "cache_creation": {"ephemeral_1h_input_tokens": 1_000_000},
    }
    out = translated([start(usage=counts), *text(0, "a"), end(usage={"output_tokens": 0}), STOP], model=model)
    cost = [draft.usage.cost for draft in out if isinstance(draft, Metadata) and draft.usage][-1]
    assert cost.cache_write == pytest.approx(2 * 3.75 + 2 * 3)


def test_openrouter_says_what_it_bills() -> None:
    counts = {"input_tokens": 1, "cost": 0.25, "is_byok": False}
    out = translated([start(usage=counts)], model=Model(id="m", provider="openrouter"))
    cost = next(draft.usage.cost for draft in out if isinstance(draft, Metadata) and draft.usage)
    assert (cost.total, cost.total_from_provider) == (0.25, True)


# --- what has no block of ours ----------------------------------------------------------------------------------------


def test_tools_of_the_provider_are_kept_in_their_place() -> None:
    use = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search"}
    result = {
        "type": "web_search_tool_result",
        "tool_use_id": "srvtoolu_1",
        "content": [{"url": "https://x"}],
    }
    _, message = run(
        answer(
            *text(0, "I search"),
            begin(1, **use, input={}),
            piece(1, partial_json=""),
            piece(1, partial_json='{"query":'),
            piece(1, partial_json=' "x"}'),
            over(1),
            begin(2, **result),
            over(2),
            *text(3, "found"),
        )
    )
    assert message.content == [TextContent("I search"), TextContent("found")]
    assert kept(message) == [(1, {**use, "input": {"query": "x"}}), (1, result)]
    entry = message.provider_data[0]
    assert (entry.api, entry.provider, entry.model) == ("anthropic-messages", "anthropic", "claude-x")


def test_input_of_a_provider_s_tool_that_is_no_json_is_kept_as_text() -> None:
    _, message = run(answer(begin(0, "mcp_tool_use", id="m"), piece(0, partial_json='{"a'), over(0)))
    assert kept(message) == [(0, {"type": "mcp_tool_use", "id": "m", "partial_json": '{"a'})]


def test_compaction_is_put_together() -> None:
    delta = {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "compaction_delta", "content": "sum"},
    }
    more = {**delta, "delta": {"type": "compaction_delta", "content": "mary", "encrypted_content": "E"}}
    _, message = run(answer(begin(0, "compaction", content=None), delta, more, over(0), *text(1, "a")))
    assert kept(message) == [(0, {"type": "compaction", "content": "summary", "encrypted_content": "E"})]


def test_citations_stand_behind_their_text() -> None:
    one, two = {"type": "char_location", "cited_text": "x"}, {"type": "char_location", "cited_text": "y"}
    _, message = run(
        answer(
            *text(0, "a"),
            begin(1, "text", text="", citations=[]),
            piece(1, citation=one),
            piece(1, text="b"),
            piece(1, citation=two),
            over(1),
        )
    )
    assert kept(message) == [(2, {"type": "text", "citations": [one, two]})]


def test_the_caller_of_a_call_is_kept_unless_it_is_the_model() -> None:
    program = {"type": "code_execution_20250825", "tool_id": "srvtoolu_1"}
    blocks = [
        begin(0, "tool_use", id="a", name="look", input={}, caller={"type": "direct"}),
        over(0),
        begin(1, "tool_use", id="b", name="look", input={}, caller=program),
        over(1),
    ]
    assert kept(run(answer(*blocks, reason="tool_use"))[1]) == [(2, {"type": "tool_use", "caller": program})]


def test_fallback_to_another_model() -> None:
    block = {"type": "fallback", "from": {"model": "claude-x"}, "to": {"model": "claude-y"}}
    _, message = run(answer(begin(0, **block), over(0), *text(1, "a")))
    assert (message.response_model, kept(message)) == ("claude-y", [(0, block)])


def test_details_of_the_end_are_kept() -> None:
    last = end("stop_sequence", stop_sequence="END", container={"id": "c_1"}, stop_details=None)
    last["context_management"] = {"applied_edits": []}
    _, message = run(sse(start(), *text(0, "a"), last, STOP))
    assert kept(message) == [
        (
            1,
            {
                "type": "message_delta",
                "delta": {"stop_sequence": "END", "container": {"id": "c_1"}},
                "context_management": {"applied_edits": []},
            },
        )
    ]


# --- a whole answer instead of a stream -------------------------------------------------------------------------------


def test_whole_answer_gives_the_message_of_its_stream() -> None:
    blocks = [
        {"type": "thinking", "thinking": "hm", "signature": "SIG"},
        {"type": "redacted_thinking", "data": "OPAQUE"},
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "x"}},
        {"type": "text", "text": "a", "citations": [{"type": "char_location"}]},
        {"type": "tool_use", "id": "t", "name": "look", "input": {"n": 1}},
    ]
    whole = {
        "type": "message",
        "id": "msg_1",
        "model": "claude-x",
        "content": blocks,
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": {"input_tokens": 9, "output_tokens": 7},
    }
    _, message = run(json.dumps(whole).encode())
    streamed = run(
        answer(
            *(event for n, block in enumerate(blocks) for event in (begin(n, **block), over(n))),
            reason="tool_use",
        )
    )[1]
    assert message == streamed
    assert message.tool_calls == [ToolCall("t", "look", {"n": 1})]
    assert run(sse(whole))[1] == message, "also as the one event of a stream"


def test_whole_error() -> None:
    _, message = run(json.dumps(OVERLOADED).encode())
    assert message.error_cause.kind == "overloaded"


# --- the translator by itself -----------------------------------------------------------------------------------------


def translated(
    chunks: list[Any], model: Model | None = None, options: StreamOptions | None = None
) -> list[Draft]:
    setup = TranslatorSetup(model=model or Model(id="claude-x"), options=options or StreamOptions())
    translator = api.translator(setup)
    out: list[Draft] = []
    translator.translate(chunks, out)
    if translator.complete:
        translator.finish(out)
    return out


def test_the_translator_says_how_many_chunks_it_took() -> None:
    chunks = [start(), *text(0, "a"), end(), STOP, start(), STOP]
    translator = api.translator(TranslatorSetup(model=Model(id="m")))
    out: list[Draft] = []
    assert translator.translate(chunks, out) == len(chunks) - 2
    assert translator.complete and translator.ended


def test_the_short_path_and_the_long_one_say_the_same() -> None:
    """An unknown field beside the text takes a delta off the short path."""
    plain = [piece(0, text=str(number)) for number in range(9)]
    long = [{**event, "delta": {**event["delta"], "x": 1}} for event in plain]
    before, after = [start(), begin(0, "text", text="")], [over(0), end(), STOP]
    assert translated(before + plain + after) == translated(before + long + after)
    assert sum(isinstance(draft, TextDelta) for draft in translated(before + plain + after)) == 9


def test_frames_of_this_file_are_what_they_seem() -> None:
    """A guard for the helpers: every piece of a body is one event."""
    assert answer(*text(0, "a")).count(b"data: ") == len([start(), *text(0, "a"), end(), STOP])
    assert piece(0, text="a")["delta"] == {"type": "text_delta", "text": "a"}
