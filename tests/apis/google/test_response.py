"""Gemini answers: faults seen on the wire and odd cases, each whole and cut anywhere."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pi_stream.apis import get_api
from pi_stream.apis.base import TranslatorSetup
from pi_stream.engine.pipeline import Pipeline
from pi_stream.events import Event
from pi_stream.guard import Guard
from pi_stream.http import ResponseHead
from pi_stream.messages import (
    AssistantMessage,
    ErrorCause,
    TextContent,
    ThinkingContent,
    ToolCall,
)
from pi_stream.models import Model
from pi_stream.options import StreamOptions
from pi_stream.testing import check_events
from pi_stream.usage import ModelCost

CUTS = (1, 2, 3, 7, 64)
GEMINI = Model(id="gemini-3-flash-preview", api="google-generative-ai", provider="google")
STOP: dict[str, Any] = {"finishReason": "STOP"}


def chunk(*parts: Any, **candidate: Any) -> dict[str, Any]:
    """A chunk with one candidate."""
    return {"candidates": [{"content": {"role": "model", "parts": list(parts)}, "index": 0, **candidate}]}


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"text": words, **more}


def call(name: str | None = None, signature: str | None = None, **fields: Any) -> dict[str, Any]:
    """A part with a function call."""
    named = {} if name is None else {"name": name}
    signed = {} if signature is None else {"thoughtSignature": signature}
    return {"functionCall": {**named, **fields}, **signed}


def update(path: str, **value: Any) -> dict[str, Any]:
    return {"jsonPath": path, **value}


def sse(*chunks: Any, line: bytes = b"\r\n") -> bytes:
    """A body as Google sends it: CRLF, no end mark. What is bytes already stands as it is."""
    parts = [each if isinstance(each, bytes) else b"data: " + json.dumps(each).encode() for each in chunks]
    return b"".join(part + line + line for part in parts)


def events_of(
    body: bytes, *, cut: int | None = None, model: Model = GEMINI, status: int = 200, **options: Any
) -> list[Event]:
    setup = TranslatorSetup(model=model, options=StreamOptions(**options))
    head = AssistantMessage(api=model.api, provider=model.provider, model=model.id, timestamp=0)
    pipeline = Pipeline(get_api(model.api), setup, ResponseHead(status=status), Guard(head))
    events: list[Event] = []
    step = cut or len(body) or 1
    for start in range(0, len(body), step):
        events += pipeline.feed(body[start : start + step])
        if pipeline.finished:
            return events
    return events + pipeline.end()


def answer(*chunks: Any, body: bytes | None = None, **arguments: Any) -> AssistantMessage:
    """The final message of an answer that was checked whole and cut."""
    body = sse(*chunks) if body is None else body
    events = events_of(body, **arguments)
    for cut in CUTS:
        assert events_of(body, cut=cut, **arguments) == events, f"differs when cut at {cut}"
    return check_events(events)


def cause(message: AssistantMessage) -> ErrorCause:
    assert message.stop_reason == "error" and message.error_cause is not None
    return message.error_cause


def diagnostics(message: AssistantMessage) -> list[str]:
    return [entry.type for entry in message.diagnostics or ()]


def kept(message: AssistantMessage) -> list[tuple[int, Any]]:
    return [(entry.after, entry.data) for entry in message.provider_data or ()]


def results(message: AssistantMessage) -> list[tuple[str, dict[str, Any], str | None]]:
    return [(call.name, call.arguments, call.arguments_error) for call in message.tool_calls]


# --- text, thinking, signatures ---------------------------------------------------------------------------------------


def test_text_thinking_usage_and_ids() -> None:
    head = {"responseId": "r-1", "modelVersion": "gemini-3-flash-preview-001"}
    usage = {"promptTokenCount": 9, "candidatesTokenCount": 3, "thoughtsTokenCount": 4, "totalTokenCount": 16}
    message = answer(
        {**chunk(text("plan", thought=True)), **head},
        {**chunk(text(" more", thought=True)), **head},
        {**chunk(text("Hi")), **head},
        {**chunk(text(" you"), **STOP), **head, "usageMetadata": usage},
    )
    assert message.content == [ThinkingContent("plan more"), TextContent("Hi you")]
    assert (message.stop_reason, message.raw_stop_reason) == ("stop", "STOP")
    assert (message.response_id, message.response_model) == ("r-1", "gemini-3-flash-preview-001")
    found = message.usage
    assert (found.input, found.output, found.reasoning, found.total_tokens) == (9, 7, 4, 16)
    assert found.provider_total_tokens == 16


@pytest.mark.parametrize("line", [b"\n", b"\r", b"\r\n"])
def test_all_line_ends_are_equal(line: bytes) -> None:
    assert answer(body=sse(chunk(text("Hi"), **STOP), line=line)).text == "Hi"


def test_last_event_may_lack_its_empty_line() -> None:
    body = sse(chunk(text("Hi"))) + b"data: " + json.dumps(chunk(**STOP)).encode()
    assert answer(body=body).stop_reason == "stop"


def test_empty_unsigned_parts_open_nothing() -> None:
    message = answer(chunk(text("")), chunk(text("", thought=True)), chunk({}, text(""), **STOP))
    assert message.content == [] and message.stop_reason == "stop"


def test_a_signed_part_is_a_block_of_its_own() -> None:
    """Google forbids to merge parts of which one is signed: the pieces must come back as they were."""
    message = answer(
        chunk(text("a")),
        chunk(text("b")),
        chunk(text("c", thoughtSignature="S1==")),
        chunk(text("d", thoughtSignature="S2==")),
        chunk(text("e")),
        chunk(text("f"), **STOP),
    )
    assert message.content == [
        TextContent("ab"),
        TextContent("c", text_signature="S1=="),
        TextContent("d", text_signature="S2=="),
        TextContent("ef"),
    ]


def test_equal_signatures_mark_pieces_of_one_part() -> None:
    message = answer(
        chunk(text("a", thought=True, thoughtSignature="S1==")),
        chunk(text("b", thought=True, thoughtSignature="S1=="), **STOP),
    )
    assert message.content == [ThinkingContent("ab", thinking_signature="S1==")]


@pytest.mark.parametrize("part", [text("", thoughtSignature="S1=="), {"thoughtSignature": "S1=="}])
def test_a_signature_without_text_is_kept_as_an_empty_block(part: dict[str, Any]) -> None:
    message = answer(chunk(text("done")), chunk(part, **STOP))
    assert message.content == [TextContent("done"), TextContent("", text_signature="S1==")]


def test_null_fields_are_absent() -> None:
    """Some servers write every field of a part."""
    part = text("Hi", thought=None, thoughtSignature=None, functionCall=None, inlineData=None)
    message = answer(chunk(part, finishReason=None), chunk(text(" you"), finishReason=""), chunk(**STOP))
    assert message.content == [TextContent("Hi you")] and message.provider_data is None


def test_only_the_first_candidate_counts() -> None:
    two = chunk(text("Hi"), **STOP)
    two["candidates"].insert(0, {"index": 1, "content": {"parts": [text("other")]}})
    assert answer(two).text == "Hi"


# --- function calls ---------------------------------------------------------------------------------------------------


def test_calls_without_ids_get_the_same_ids_each_time() -> None:
    whole = chunk(call("f", args={"k": 1}), call("g", args={}), **STOP)
    message = answer({**whole, "responseId": "aB-c_1"})
    assert [block.id for block in message.tool_calls] == ["call_aBc1_0", "call_aBc1_1"]
    assert results(message) == [("f", {"k": 1}, None), ("g", {}, None)]
    assert (message.stop_reason, message.raw_stop_reason) == ("toolUse", "STOP")


def test_two_equal_calls_without_ids_are_two_calls_and_the_signature_stays() -> None:
    message = answer(chunk(call("f", "U0lH", args={"k": 1})), chunk(call("f", args={"k": 1}), **STOP))
    assert [block.thought_signature for block in message.tool_calls] == ["U0lH", None]
    assert len({block.id for block in message.tool_calls}) == 2


@pytest.mark.parametrize(("first", "second"), [("U0lH", None), (None, "U0lH"), ("U0lH", "U0lH")])
def test_a_call_repeated_with_its_id_is_one_call_and_keeps_its_signature(
    first: str | None, second: str | None
) -> None:
    message = answer(
        chunk(call("f", first, id="a", args={"k": 1})),
        chunk(call("f", second, id="a", args={"k": 1}), **STOP),
    )
    assert message.content == [ToolCall("a", "f", {"k": 1}, thought_signature="U0lH")]


def test_one_id_for_two_different_calls_is_made_unique() -> None:
    message = answer(chunk(call("f", id="a", args={"k": 1}), call("f", id="a", args={"k": 2}), **STOP))
    assert [block.id for block in message.tool_calls] == ["a", "call_1"]
    assert [block.arguments for block in message.tool_calls] == [{"k": 1}, {"k": 2}]


def test_calls_after_stop_and_text_between_them() -> None:
    message = answer(
        chunk(call("f", id="a"), **STOP), chunk(text("and")), chunk(call("g", id="b", args=None), **STOP)
    )
    assert [block.type for block in message.content] == ["toolCall", "text", "toolCall"]
    assert message.stop_reason == "toolUse"


@pytest.mark.parametrize("args", [[1], "no json", 3, True])
def test_arguments_that_are_no_object_are_an_error_of_the_call(args: Any) -> None:
    message = answer(chunk(call("f", id="a", args=args), **STOP))
    ((name, arguments, error),) = results(message)
    assert (name, arguments) == ("f", {}) and error is not None
    assert message.stop_reason == "stop"


def test_arguments_as_json_text_are_read() -> None:
    assert results(answer(chunk(call("f", args='{"k": 1}'), **STOP))) == [("f", {"k": 1}, None)]


def test_a_call_without_a_name_is_an_error_of_the_call() -> None:
    message = answer(chunk(call(args={"k": 1}), **STOP))
    ((name, _, error),) = results(message)
    assert (
        name == "" and error is not None and error.startswith("the provider sent a tool call without a name")
    )


def test_an_empty_call_that_continues_nothing_is_noted() -> None:
    message = answer(chunk(call()), chunk(text("Hi"), **STOP))
    assert message.text == "Hi" and message.tool_calls == []
    assert diagnostics(message) == ["unexpected_tool_call"]


def test_argument_updates_are_merged_by_path_and_sent_as_one_delta() -> None:
    body = sse(
        chunk(call("cook", "U0lH", willContinue=True)),
        chunk(
            call(
                partialArgs=[update("$.recipe.steps[0]", stringValue="Pre", willContinue=True)],
                willContinue=True,
            )
        ),
        chunk(call(partialArgs=[update("$.recipe.steps[0]", stringValue="heat")], willContinue=True)),
        chunk(call(willContinue=True)),
        chunk(
            call(
                partialArgs=[
                    update("$.recipe.steps[1]", stringValue="Bake"),
                    update('$[\'recipe\']["for \\"us\\""]', boolValue=False),
                    update("$.n", numberValue=2),
                    update("$.none", nullValue="NULL_VALUE"),
                ],
                willContinue=True,
            )
        ),
        chunk(call()),
        chunk(call("cook", args={})),
        chunk(**STOP),
    )
    message = answer(body=body)
    recipe = {"steps": ["Preheat", "Bake"], 'for "us"': False}
    assert results(message) == [("cook", {"recipe": recipe, "n": 2, "none": None}, None), ("cook", {}, None)]
    assert message.tool_calls[0].thought_signature == "U0lH"
    assert message.stop_reason == "toolUse"
    deltas = [
        event for event in events_of(body) if event.type == "toolcall_delta" and event.content_index == 0
    ]
    assert len(deltas) == 1


def test_a_name_repeated_with_each_update_stays_one_call() -> None:
    message = answer(
        chunk(call("f", willContinue=True)),
        chunk(call("f", partialArgs=[update("$.a", numberValue=1)], willContinue=True)),
        chunk(call("f", partialArgs=[update("$.b", stringValue="x")])),
        chunk(**STOP),
    )
    assert results(message) == [("f", {"a": 1, "b": "x"}, None)]


def test_a_new_name_ends_a_call_that_was_to_continue() -> None:
    message = answer(
        chunk(call("f", willContinue=True)),
        chunk(call(partialArgs=[update("$.a", numberValue=1)], willContinue=True)),
        chunk(call("g", args={"b": 2}), **STOP),
    )
    assert results(message) == [("f", {"a": 1}, None), ("g", {"b": 2}, None)]


def test_a_last_value_at_a_path_wins_and_huge_indexes_cost_nothing() -> None:
    updates = [
        update("$.a", stringValue="old"),
        update("$.a", stringValue="new"),
        update("$.list[999999999]", numberValue=2),
        update("$.list[0]", numberValue=1),
        update("$.kind", stringValue="text"),
        update("$.kind.inner", boolValue=True),
    ]
    message = answer(chunk(call("f", partialArgs=updates), **STOP))
    assert results(message) == [("f", {"a": "new", "list": [1, 2], "kind": {"inner": True}}, None)]


@pytest.mark.parametrize("path", ["", "$", "a.b", "$[0]", "$.", "$.a[", "$..a", "$" + ".a" * 65, None, 3])
def test_an_update_with_a_path_that_names_no_place_is_an_error_of_the_call(path: Any) -> None:
    updates = [update("$.k", numberValue=1), {"jsonPath": path, "numberValue": 1}]
    message = answer(chunk(call("f", partialArgs=updates), **STOP))
    ((_, arguments, error),) = results(message)
    assert arguments == {} and error is not None and error.endswith('{"k":1}')
    assert message.stop_reason == "stop"


@pytest.mark.parametrize(("reason", "stop"), [("MAX_TOKENS", "length"), ("SAFETY", "error")])
def test_a_call_cut_inside_its_arguments_cannot_be_run(reason: str, stop: str) -> None:
    message = answer(
        chunk(call("f", willContinue=True)),
        chunk(call(partialArgs=[update("$.a", stringValue="half", willContinue=True)], willContinue=True)),
        chunk(finishReason=reason),
    )
    ((_, arguments, error),) = results(message)
    assert arguments == {} and error == 'the answer ended inside this tool call\n\n{"a":"half"}'
    assert message.stop_reason == stop


def test_a_call_left_open_at_stop_is_complete() -> None:
    message = answer(
        chunk(call("f", partialArgs=[update("$.a", numberValue=1)], willContinue=True)), chunk(**STOP)
    )
    assert results(message) == [("f", {"a": 1}, None)] and message.stop_reason == "toolUse"


# --- how it ends ------------------------------------------------------------------------------------------------------


def test_stop_before_the_content_is_read_on_to_the_end() -> None:
    message = answer(chunk(**STOP), chunk(text("late")), chunk(finishReason="MAX_TOKENS"), chunk(text("r")))
    assert (message.text, message.stop_reason, message.raw_stop_reason) == ("later", "length", "MAX_TOKENS")


@pytest.mark.parametrize("chunks", [[chunk(text("half"))], [chunk(call("f", args={}))], []])
def test_without_a_stop_reason_it_is_truncated(chunks: list[Any]) -> None:
    message = answer(*chunks)
    assert cause(message).kind == "truncated" and cause(message).retryable
    assert len(message.content) == len(chunks)


@pytest.mark.parametrize(
    ("reason", "kind", "retryable"),
    [
        ("MALFORMED_FUNCTION_CALL", "provider_error", True),
        ("UNEXPECTED_TOOL_CALL", "provider_error", True),
        ("OTHER", "provider_error", False),
        ("SAFETY", "filtered", False),
        ("RECITATION", "filtered", False),
        ("MODEL_ARMOR", "filtered", False),
        ("IMAGE_SAFETY", "filtered", False),
    ],
)
def test_bad_stop_reasons_are_errors_with_a_kind(reason: str, kind: str, retryable: bool) -> None:
    message = answer(chunk(text("some")), chunk(finishReason=reason, finishMessage="because"))
    assert (cause(message).kind, cause(message).retryable) == (kind, retryable)
    assert message.raw_stop_reason == reason and message.text == "some"
    assert message.error_message == f"Provider finishReason: {reason} (because)"


@pytest.mark.parametrize(
    "candidate",
    [
        {"content": {"role": "model", "parts": [{"thoughtSignature": "eA=="}]}},
        {"content": {}},
        {"content": None},
        {},
    ],
)
def test_a_malformed_call_is_no_empty_success(candidate: dict[str, Any]) -> None:
    malformed = {**candidate, "finishReason": "MALFORMED_FUNCTION_CALL"}
    message = answer({"candidates": [malformed], "usageMetadata": {"promptTokenCount": 40}})
    assert cause(message).retryable and message.usage.input == 40
    assert message.raw_stop_reason == "MALFORMED_FUNCTION_CALL"


def test_an_unknown_stop_reason_is_stop_with_a_diagnostic() -> None:
    message = answer(chunk(text("Hi"), finishReason="FAKE_ENUM"))
    assert (message.stop_reason, message.raw_stop_reason) == ("stop", "FAKE_ENUM")
    assert diagnostics(message) == ["unknown_stop_reason"]
    failed = answer(chunk(text("Hi"), finishReason="FAKE_ENUM"), unknown_stop="error")
    assert cause(failed).kind == "provider_error" and failed.text == "Hi"


def test_an_unknown_stop_reason_with_complete_calls_is_tool_use() -> None:
    """One mock server says FUNCTION_CALL, which Google's own list does not have."""
    message = answer(chunk(call("f", args={}), finishReason="FUNCTION_CALL"))
    assert message.stop_reason == "toolUse" and diagnostics(message) == ["unknown_stop_reason"]


def test_a_blocked_prompt_says_why() -> None:
    feedback = {"blockReason": "SAFETY", "blockReasonMessage": "hate", "safetyRatings": []}
    message = answer({"promptFeedback": feedback, "usageMetadata": {"promptTokenCount": 5}})
    assert cause(message).kind == "filtered" and not cause(message).retryable
    assert message.error_message == "The prompt was blocked: SAFETY (hate)"
    assert message.raw_stop_reason == "SAFETY" and message.usage.input == 5


@pytest.mark.parametrize("feedback", [{}, {"safetyRatings": []}, {"blockReason": "BLOCK_REASON_UNSPECIFIED"}])
def test_feedback_that_blocks_nothing_changes_nothing(feedback: dict[str, Any]) -> None:
    assert answer({**chunk(text("Hi"), **STOP), "promptFeedback": feedback}).stop_reason == "stop"


ERROR = {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}


@pytest.mark.parametrize(
    "sent",
    [
        {"error": ERROR},
        [{"error": ERROR}],
        json.dumps({"error": ERROR}, indent=2).encode(),
        json.dumps({"error": ERROR}, indent=2).replace("\n", "\r\n").encode(),
    ],
    ids=["event", "array", "bare-json", "bare-json-crlf"],
)
@pytest.mark.parametrize(
    "after", [chunk(text("half")), chunk(text("half"), **STOP)], ids=["open", "complete"]
)
def test_an_error_inside_the_stream_ends_it(sent: Any, after: dict[str, Any]) -> None:
    """Google sends it as bare JSON between the events, too."""
    message = answer(after, sent)
    assert (cause(message).kind, cause(message).retryable) == ("overloaded", True)
    assert cause(message).provider_code == "UNAVAILABLE"
    assert (message.error_message, message.text) == ("The model is overloaded.", "half")


def test_bare_json_needs_no_line_end_at_the_end_of_the_body() -> None:
    body = sse(chunk(text("half"), **STOP)) + json.dumps({"error": ERROR}, indent=2).encode()
    assert cause(answer(body=body)).kind == "overloaded"


@pytest.mark.parametrize("body", [{"error": ERROR}, [{"error": ERROR}]])
def test_an_error_body_is_a_lone_error(body: Any) -> None:
    message = answer(body=json.dumps(body, indent=1).encode(), status=503)
    assert cause(message).kind == "overloaded" and message.content == []


def test_google_s_details_say_when_to_come_back_and_that_a_key_is_bad() -> None:
    details = [{"@type": "x"}, {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "1.5s"}]
    limited = {"error": {"code": 429, "message": "m", "status": "RESOURCE_EXHAUSTED", "details": details}}
    assert cause(answer(body=json.dumps(limited).encode(), status=429)).retry_after_ms == 1500
    bad_key = {"error": {"code": 400, "message": "m", "details": [{"reason": "API_KEY_INVALID"}]}}
    assert cause(answer(body=json.dumps(bad_key).encode(), status=400)).kind == "auth"


def test_an_array_of_chunks_gives_what_its_stream_would() -> None:
    """Where a proxy loses ``alt=sse``, the answer is one JSON array."""
    chunks = [chunk(text("Hi")), chunk(text(" you"), call("f", id="a", args={"k": 1})), chunk(**STOP)]
    as_array = answer(body=json.dumps(chunks, indent=2).encode())
    streamed = answer(*chunks)
    assert as_array.content == streamed.content and as_array.stop_reason == streamed.stop_reason == "toolUse"


def test_an_array_that_ends_with_an_error_is_an_error() -> None:
    message = answer(body=json.dumps([chunk(text("Hi"), **STOP), {"error": ERROR}]).encode())
    assert cause(message).kind == "overloaded" and message.text == "Hi"


def test_a_whole_answer_to_a_streaming_request() -> None:
    message = answer(body=json.dumps(chunk(text("Hi"), **STOP), indent=2).encode())
    assert (message.text, message.stop_reason) == ("Hi", "stop")


def test_an_end_mark_that_gateways_add_ends_it() -> None:
    assert answer(chunk(text("Hi"), **STOP), b"data: [DONE]", b"data: nonsense").text == "Hi"
    assert cause(answer(chunk(text("Hi")), b"data: [DONE]")).kind == "truncated"


@pytest.mark.parametrize("odd", [3, "x", None, True, [[]], [3]])
def test_chunks_of_no_known_shape_are_noted(odd: Any) -> None:
    message = answer(chunk(text("a")), odd, chunk(text("b"), **STOP))
    assert message.text == "ab" and diagnostics(message) == ["unexpected_chunk"]


# --- usage ------------------------------------------------------------------------------------------------------------


def counted(*usages: Any, **model: Any) -> AssistantMessage:
    chunks = [{**chunk(text("a")), "usageMetadata": usage} for usage in usages]
    rated = Model(id="m", api="google-generative-ai", provider="google", **model)
    return answer(*chunks, chunk(**STOP), model=rated)


def test_usage_is_never_added_up_and_missing_fields_keep_their_value() -> None:
    usage = counted(
        {"promptTokenCount": 9, "candidatesTokenCount": 1, "thoughtsTokenCount": 5},
        {"candidatesTokenCount": 2, "promptTokenCount": None},
        {"trafficType": "ON_DEMAND"},
    ).usage
    assert (usage.input, usage.output, usage.reasoning, usage.total_tokens) == (9, 7, 5, 16)
    assert usage.provider_total_tokens is None


def test_tool_use_tokens_are_input_and_cached_ones_are_apart() -> None:
    usage = counted(
        {
            "promptTokenCount": 23,
            "cachedContentTokenCount": 20,
            "toolUsePromptTokenCount": 675,
            "candidatesTokenCount": 593,
            "thoughtsTokenCount": 56,
            "totalTokenCount": 1347,
        }
    ).usage
    assert (usage.input, usage.cache_read, usage.output, usage.reasoning) == (678, 20, 649, 56)
    assert usage.total_tokens == usage.provider_total_tokens == 1347


def test_more_cached_than_prompt_tokens_never_makes_input_or_cost_negative() -> None:
    rates = ModelCost(input=1, output=2, cache_read=0.1)
    usage = counted({"promptTokenCount": 5, "cachedContentTokenCount": 9}, cost=rates).usage
    assert (usage.input, usage.cache_read, usage.total_tokens) == (0, 9, 9)
    assert usage.cost.input == 0 and usage.cost.total == pytest.approx(0.9e-6)


@pytest.mark.parametrize("odd", [3, [], "x", {"promptTokenCount": "9"}, {"promptTokenCount": True}])
def test_counts_that_are_none_are_not_read(odd: Any) -> None:
    assert counted(odd).usage.total_tokens == 0


def test_usage_seen_before_a_broken_end_is_kept() -> None:
    message = answer(
        {**chunk(text("a")), "usageMetadata": {"promptTokenCount": 7, "candidatesTokenCount": 1}}
    )
    assert cause(message).kind == "truncated" and message.usage.total_tokens == 8


# --- content without a block of ours ----------------------------------------------------------------------------------


def test_parts_without_a_block_are_kept_in_their_place() -> None:
    code = {"executableCode": {"language": "PYTHON", "code": "1", "id": "x"}, "thoughtSignature": "S1=="}
    result = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1", "id": "x"}}
    image = {"inlineData": {"mimeType": "image/png", "data": "iVBORw=="}}
    message = answer(
        chunk(text("a")), chunk(code, text("")), chunk(result), chunk(text("b")), chunk(image), chunk(**STOP)
    )
    assert message.content == [TextContent("a"), TextContent("b")]
    assert kept(message) == [(1, code), (1, result), (2, image)]
    assert message.provider_data is not None
    first = message.provider_data[0]
    assert (first.api, first.provider, first.model) == (GEMINI.api, GEMINI.provider, GEMINI.id)


def test_sources_are_kept_once() -> None:
    grounding = {"groundingChunks": [{"web": {"uri": "https://a"}}]}
    citations = [{"citationSources": [{"startIndex": start}]} for start in (1, 2)]
    message = answer(
        chunk(text("a"), groundingMetadata={}, citationMetadata=citations[0]),
        chunk(text("b"), groundingMetadata=grounding, citationMetadata=citations[1]),
        chunk(groundingMetadata=grounding, urlContextMetadata={"urlMetadata": []}, **STOP),
    )
    assert message.text == "ab"
    assert kept(message) == [
        (1, {"citationMetadata": citations[0]}),
        (1, {"citationMetadata": citations[1]}),
        (1, {"groundingMetadata": grounding}),
        (1, {"urlContextMetadata": {"urlMetadata": []}}),
    ]


def test_unknown_fields_beside_text_are_kept_and_the_text_is_shown() -> None:
    message = answer(chunk(text("a", invented=1)), chunk(text("b"), **STOP))
    assert message.text == "ab" and kept(message) == [(1, {"invented": 1})]
    assert len(message.content) == 1


# --- Vertex AI --------------------------------------------------------------------------------------------------------


def test_vertex_answers_are_read_the_same() -> None:
    vertex = Model(id="gemini-2.5-pro", api="google-vertex", provider="google-vertex")
    chunks = [
        {**chunk(text("The", thoughtSignature="S1==")), "usageMetadata": {"trafficType": "ON_DEMAND"}},
        {**chunk(text(" sum"), **STOP), "usageMetadata": {"promptTokenCount": 3}, "responseId": "r"},
    ]
    message = answer(*chunks, model=vertex)
    assert (message.api, message.provider, message.text) == ("google-vertex", "google-vertex", "The sum")
