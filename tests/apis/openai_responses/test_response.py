"""Answers of Responses: what servers send, usual and odd, whole and cut anywhere, becomes the right message."""

from __future__ import annotations

import json
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from pi_stream import AssistantMessage, decode
from pi_stream.apis import get_api
from pi_stream.apis.base import TranslatorSetup
from pi_stream.engine.pipeline import Pipeline
from pi_stream.events import Event
from pi_stream.guard import Guard
from pi_stream.http import ResponseHead
from pi_stream.messages import TextContent, ThinkingContent, Tool
from pi_stream.models import Model
from pi_stream.options import StreamOptions
from pi_stream.testing import check_events
from pi_stream.usage import ModelCost

CUTS = (1, 2, 3, 7, 64)
USAGE = {
    "input_tokens": 9,
    "input_tokens_details": {"cached_tokens": 4},
    "output_tokens": 5,
    "output_tokens_details": {"reasoning_tokens": 2},
    "total_tokens": 14,
}
Json = dict[str, Any]


# --- what is sent -----------------------------------------------------------------------------------------------------


def sse(*chunks: Any) -> bytes:
    return b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks)


def event(name: str, **fields: Any) -> Json:
    return {"type": f"response.{name}", **fields}


def added(index: int | None, item: Json) -> Json:
    return event("output_item.added", item=item, **({} if index is None else {"output_index": index}))


def done(index: int | None, item: Json) -> Json:
    return event("output_item.done", item=item, **({} if index is None else {"output_index": index}))


def message(text: str | None = None, id: str | None = "msg_1", **fields: Any) -> Json:
    content = [] if text is None else [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": id, "role": "assistant", "content": content, **fields}


def reasoning(*summaries: str, id: str = "rs_1", **fields: Any) -> Json:
    summary = [{"type": "summary_text", "text": text} for text in summaries]
    return {"type": "reasoning", "id": id, "summary": summary, **fields}


def call(arguments: Any = "", id: str | None = "fc_1", call_id: str = "call_1", **fields: Any) -> Json:
    item = {"type": "function_call", "id": id, "call_id": call_id, "name": "add", "arguments": arguments}
    return item | fields


def text_delta(index: int | None, delta: str, **fields: Any) -> Json:
    return event("output_text.delta", output_index=index, delta=delta, **fields)


def summary_delta(index: int, delta: str, part: int = 0) -> Json:
    return event("reasoning_summary_text.delta", output_index=index, summary_index=part, delta=delta)


def arguments_delta(index: int | None, delta: str, **fields: Any) -> Json:
    return event("function_call_arguments.delta", output_index=index, delta=delta, **fields)


def created(**fields: Any) -> Json:
    return event("created", response={"id": "resp_1", "status": "in_progress", **fields})


def completed(*output: Json, **fields: Any) -> Json:
    response = {"id": "resp_1", "status": "completed", "output": list(output), "usage": USAGE, **fields}
    return event("completed", response=response)


# --- what becomes of it -----------------------------------------------------------------------------------------------


def play(body: bytes, cut: int | None = None, **setup: Any) -> list[Event]:
    """Events of a body, as ``decode`` makes them, for a request with tools and options."""
    model = setup.pop("model", Model(id="m"))
    model = evolve(model, api="openai-responses", provider=model.provider or "p")
    full = TranslatorSetup(model=model, **setup)
    head = AssistantMessage(api=model.api, provider=model.provider, model=model.id, timestamp=0)
    pipeline = Pipeline(get_api(model.api), full, ResponseHead(status=200), Guard(head))
    events: list[Event] = []
    step = cut or len(body) or 1
    for start in range(0, len(body), step):
        if not pipeline.finished:
            events += pipeline.feed(body[start : start + step])
    return events if pipeline.finished else events + pipeline.end()


def answer(*chunks: Any, **setup: Any) -> AssistantMessage:
    """The message of these chunks, the same however they are cut, with all guarantees kept."""
    body = chunks[0] if len(chunks) == 1 and isinstance(chunks[0], bytes) else sse(*chunks)
    events = play(body, **setup)
    for cut in CUTS:
        assert play(body, cut, **setup) == events, f"differs when cut at {cut}"
    return check_events(events)


def diagnostics(given: AssistantMessage) -> list[str]:
    return [diagnostic.type for diagnostic in given.diagnostics or ()]


def kept(given: AssistantMessage) -> list[tuple[int, Any]]:
    return [(entry.after, entry.data) for entry in given.provider_data or ()]


def text_block(given: AssistantMessage, index: int = 0) -> TextContent:
    block = given.content[index]
    assert isinstance(block, TextContent)
    return block


def thinking_block(given: AssistantMessage, index: int = 0) -> ThinkingContent:
    block = given.content[index]
    assert isinstance(block, ThinkingContent)
    return block


# --- text -------------------------------------------------------------------------------------------------------------


def test_a_text_answer() -> None:
    given = answer(
        created(model="gpt-other"),
        added(0, message()),
        event(
            "content_part.added", output_index=0, content_index=0, part={"type": "output_text", "text": ""}
        ),
        text_delta(0, "Hel", content_index=0, item_id="msg_1"),
        text_delta(0, "lo", content_index=0, item_id="msg_1"),
        event("output_text.done", output_index=0, content_index=0, text="Hello"),
        done(0, message("Hello")),
        completed(message("Hello")),
    )
    assert given.text == "Hello"
    assert given.stop_reason == "stop"
    assert given.raw_stop_reason == "completed"
    assert (given.response_id, given.response_model) == ("resp_1", "gpt-other")
    assert text_block(given).text_signature == '{"v":1,"id":"msg_1"}'
    usage = given.usage
    assert (usage.input, usage.cache_read, usage.output, usage.reasoning) == (5, 4, 5, 2)
    assert (usage.total_tokens, usage.provider_total_tokens) == (14, 14)


def test_the_phase_of_a_message_is_in_its_signature() -> None:
    given = answer(
        added(0, message(phase="commentary")),
        text_delta(0, "I look"),
        done(0, message("I look", phase="commentary")),
        added(1, message(id="msg_2", phase="final_answer")),
        text_delta(1, "Done"),
        done(1, message("Done", id="msg_2", phase="final_answer")),
        completed(),
    )
    assert [text_block(given, index).text_signature for index in (0, 1)] == [
        '{"v":1,"id":"msg_1","phase":"commentary"}',
        '{"v":1,"id":"msg_2","phase":"final_answer"}',
    ]


def test_ids_that_differ_in_each_event_are_one_item() -> None:
    """B44: the place in the output says what belongs together."""
    given = answer(
        added(0, message(id="A")),
        text_delta(0, "h", item_id="B", content_index=0),
        text_delta(0, "i", item_id="C", content_index=0),
        done(0, message("hi", id="D")),
        completed(message("hi", id="E")),
    )
    assert [block.text for block in given.content if isinstance(block, TextContent)] == ["hi"]


def test_a_delta_before_its_item_was_announced_opens_it() -> None:
    """B89: no announcement, no index, and a final response without output."""
    given = answer(event("output_text.delta", delta="he"), event("output_text.delta", delta="y"), completed())
    assert (given.text, len(given.content), given.stop_reason) == ("hey", 1, "stop")


def test_an_item_that_is_announced_after_its_first_delta_is_the_same_item() -> None:
    given = answer(
        event("output_text.delta", delta="he"),
        added(0, message()),
        text_delta(0, "y"),
        done(0, message("hey")),
        completed(),
    )
    assert (given.text, len(given.content)) == ("hey", 1)


def test_the_final_item_completes_streamed_text() -> None:
    given = answer(added(0, message()), text_delta(0, "one"), done(0, message("one two")), completed())
    assert given.text == "one two"
    assert diagnostics(given) == []


def test_a_final_item_that_contradicts_streamed_text_changes_nothing() -> None:
    given = answer(added(0, message()), text_delta(0, "one"), done(0, message("two")), completed())
    assert given.text == "one"
    assert diagnostics(given) == ["final_text_differs"]


def test_a_final_item_without_content_does_not_erase_streamed_text() -> None:
    given = answer(added(0, message()), text_delta(0, "one"), done(0, message()), completed())
    assert (given.text, diagnostics(given)) == ("one", [])


def test_text_without_an_end_of_its_item_is_ended_by_the_final_response() -> None:
    given = answer(added(0, message()), text_delta(0, "one"), completed(message("one two")))
    assert given.text == "one two"
    assert text_block(given).text_signature == '{"v":1,"id":"msg_1"}'


def test_text_that_only_the_final_response_has_is_said() -> None:
    given = answer(added(0, message()), done(0, message()), completed(message("all of it")))
    assert given.text == "all of it"


def test_an_empty_message_opens_no_block() -> None:
    given = answer(added(0, message()), done(0, message("")), completed(message("")))
    assert given.content == []
    assert given.stop_reason == "stop"


def test_equal_deltas_are_not_repeats() -> None:
    """B83."""
    assert answer(added(0, message()), text_delta(0, "ha"), text_delta(0, "ha"), completed()).text == "haha"


def test_parts_of_a_message_are_one_text() -> None:
    parts = [{"type": "output_text", "text": "a"}, {"type": "output_text", "text": "b"}]
    given = answer(
        added(0, message()),
        text_delta(0, "a", content_index=0),
        text_delta(0, "b", content_index=1),
        done(0, message() | {"content": parts}),
        completed(),
    )
    assert (given.text, len(given.content), diagnostics(given)) == ("ab", 1, [])


def test_messages_whose_deltas_interleave_keep_their_order_of_arrival() -> None:
    """One text block at a time is open: what comes later of the first message is a block of its own."""
    given = answer(
        added(0, message(id="msg_1")),
        text_delta(0, "a"),
        added(1, message(id="msg_2")),
        text_delta(1, "b"),
        text_delta(0, "c"),
        done(0, message("ac", id="msg_1")),
        done(1, message("b", id="msg_2")),
        completed(),
    )
    assert [text_block(given, index).text for index in range(3)] == ["a", "b", "c"]
    assert [text_block(given, index).text_signature is None for index in range(3)] == [False, False, True]


def test_items_that_share_an_output_index_are_told_apart_by_id() -> None:
    given = answer(
        added(0, call(id="fc_1", call_id="c1")),
        added(0, call(id="fc_2", call_id="c2")),
        arguments_delta(0, '{"a":', item_id="fc_1"),
        arguments_delta(0, '{"b":', item_id="fc_2"),
        arguments_delta(0, "1}", item_id="fc_1"),
        arguments_delta(0, "2}", item_id="fc_2"),
        completed(),
    )
    assert [tool_call.arguments for tool_call in given.tool_calls] == [{"a": 1}, {"b": 2}]


def test_citations_are_kept() -> None:
    citation = {"type": "url_citation", "url": "https://x.test", "start_index": 0, "end_index": 2}
    final = message("as said")
    final["content"][0]["annotations"] = [citation]
    given = answer(
        added(0, message()),
        text_delta(0, "as said"),
        event("output_text.annotation.added", output_index=0, content_index=0, annotation=citation),
        done(0, final),
        completed(final),
    )
    part = {"type": "output_text", "annotations": [citation]}
    assert kept(given) == [(1, {"type": "message", "id": "msg_1", "content": [part]})]


def test_citations_that_came_only_as_events_are_kept() -> None:
    given = answer(
        added(0, message()),
        text_delta(0, "x"),
        event("output_text.annotation.added", output_index=0, annotation={"type": "file_citation"}),
        done(0, message("x")),
        completed(),
    )
    assert [data["content"][-1]["annotations"] for _, data in kept(given)] == [[{"type": "file_citation"}]]


def test_a_refusal_is_an_error_with_its_text_kept() -> None:
    refused = message() | {"content": [{"type": "refusal", "refusal": "I will not."}]}
    given = answer(
        added(0, message()),
        event("refusal.delta", output_index=0, delta="I will"),
        event("refusal.delta", output_index=0, delta=" not."),
        done(0, refused),
        completed(refused),
    )
    assert (given.text, given.stop_reason, given.error_message) == ("I will not.", "error", "I will not.")
    assert given.error_cause is not None
    assert (given.error_cause.kind, given.error_cause.retryable) == ("refusal", False)
    assert given.usage.output == 5


# --- thinking ---------------------------------------------------------------------------------------------------------


def test_summaries_are_joined_with_blank_lines_and_signed_with_the_whole_item() -> None:
    final = reasoning("one", "two", encrypted_content="ENC")
    given = answer(
        added(0, reasoning(encrypted_content="partial")),
        event("reasoning_summary_part.added", output_index=0, summary_index=0),
        summary_delta(0, "on"),
        summary_delta(0, "e"),
        event("reasoning_summary_text.done", output_index=0, summary_index=0, text="one"),
        event("reasoning_summary_part.done", output_index=0, summary_index=0),
        summary_delta(0, "two", part=1),
        done(0, final),
        added(1, message()),
        text_delta(1, "hi"),
        done(1, message("hi")),
        completed(final, message("hi")),
    )
    block = thinking_block(given)
    assert block.thinking == "one\n\ntwo"
    assert block.thinking_signature is not None
    assert json.loads(block.thinking_signature) == final
    assert diagnostics(given) == []


def test_a_part_without_deltas_is_said_when_it_ends() -> None:
    given = answer(
        added(0, reasoning()),
        event("reasoning_summary_text.done", output_index=0, summary_index=0, text="one"),
        summary_delta(0, "two", part=1),
        done(0, reasoning("one", "two")),
        completed(),
    )
    assert (given.thinking, diagnostics(given)) == ("one\n\ntwo", [])


def test_raw_reasoning_text_of_open_models() -> None:
    final = reasoning() | {"content": [{"type": "reasoning_text", "text": "count to 5"}]}
    given = answer(
        added(0, reasoning()),
        event("reasoning_text.delta", output_index=0, content_index=0, delta="count "),
        event("reasoning_text.delta", output_index=0, content_index=0, delta="to 5"),
        done(0, final),
        completed(final),
    )
    assert given.thinking == "count to 5"


def test_of_summary_and_raw_text_the_first_is_shown_and_both_are_signed() -> None:
    final = reasoning("short") | {"content": [{"type": "reasoning_text", "text": "long"}]}
    given = answer(
        added(0, reasoning()),
        event("reasoning_text.delta", output_index=0, content_index=0, delta="long"),
        summary_delta(0, "short"),
        done(0, final),
        completed(),
    )
    assert (given.thinking, diagnostics(given)) == ("long", [])
    assert json.loads(thinking_block(given).thinking_signature or "") == final


def test_reasoning_without_text_is_an_empty_signed_block_in_its_place() -> None:
    final = reasoning(encrypted_content="ENC")
    given = answer(
        added(0, reasoning()), done(0, final), added(1, message()), text_delta(1, "x"), completed(final)
    )
    assert [block.type for block in given.content] == ["thinking", "text"]
    assert (given.thinking, thinking_block(given).thinking_signature) == (
        "",
        json.dumps(final, separators=(",", ":")),
    )


def test_reasoning_that_ends_after_the_text_began_is_signed_late() -> None:
    """OpenRouter and llama.cpp end all items at the end."""
    final = reasoning("plan", encrypted_content="ENC")
    given = answer(
        added(0, reasoning()),
        summary_delta(0, "plan"),
        added(1, message()),
        text_delta(1, "hi"),
        done(1, message("hi")),
        done(0, final),
        completed(reasoning("plan", id="rs_new"), message("hi")),
    )
    assert (given.thinking, given.text) == ("plan", "hi")
    assert json.loads(thinking_block(given).thinking_signature or "") == final


def test_an_announced_reasoning_item_keeps_its_place_also_without_text_and_end() -> None:
    given = answer(added(0, reasoning()), added(1, message()), text_delta(1, "hi"), completed())
    assert [block.type for block in given.content] == ["thinking", "text"]
    assert json.loads(thinking_block(given).thinking_signature or "") == reasoning()


def test_encrypted_reasoning_that_only_the_final_response_has_is_filled_in() -> None:
    """Azure."""
    final = reasoning("plan", encrypted_content="ENC")
    given = answer(
        added(0, reasoning()), summary_delta(0, "plan"), done(0, reasoning("plan")), completed(final)
    )
    assert json.loads(thinking_block(given).thinking_signature or "") == final


def test_encrypted_reasoning_that_was_there_is_not_replaced() -> None:
    first = reasoning("plan", encrypted_content="FIRST")
    given = answer(
        added(0, reasoning()), done(0, first), completed(reasoning("plan", encrypted_content="OTHER"))
    )
    assert json.loads(thinking_block(given).thinking_signature or "") == first


# --- calls ------------------------------------------------------------------------------------------------------------


def test_a_call_has_both_its_ids() -> None:
    given = answer(
        added(0, call()),
        arguments_delta(0, '{"a":'),
        arguments_delta(0, "1}"),
        event("function_call_arguments.done", output_index=0, arguments='{"a":1}'),
        done(0, call('{"a":1}', namespace="calc")),
        completed(),
    )
    (tool_call,) = given.tool_calls
    assert (tool_call.id, tool_call.name, tool_call.arguments) == ("call_1|fc_1", "add", {"a": 1})
    assert (tool_call.namespace, given.stop_reason) == ("calc", "toolUse")


def test_parallel_calls_without_index_or_sequence_numbers_are_told_apart_by_id() -> None:
    """llama.cpp: every item ends at the very end."""
    first, second = call(id="fc_1", call_id="c1"), call(id="fc_2", call_id="c2")
    given = answer(
        added(None, first),
        event("function_call_arguments.delta", item_id="fc_1", delta='{"a": 1'),
        event("function_call_arguments.delta", item_id="fc_1", delta="}"),
        added(None, second),
        event("function_call_arguments.delta", item_id="fc_2", delta='{"a": 2}'),
        done(None, first | {"arguments": '{"a": 1}'}),
        done(None, second | {"arguments": '{"a": 2}'}),
        completed(first | {"arguments": '{"a": 1}'}, second | {"arguments": '{"a": 2}'}),
    )
    assert [tool_call.arguments for tool_call in given.tool_calls] == [{"a": 1}, {"a": 2}]


def test_arguments_that_interleave_are_told_apart_by_index() -> None:
    given = answer(
        added(0, call(id="fc_1", call_id="c1")),
        added(1, call(id="fc_2", call_id="c2")),
        arguments_delta(0, '{"a":'),
        arguments_delta(1, '{"b":'),
        arguments_delta(0, "1}"),
        arguments_delta(1, "2}"),
        completed(),
    )
    assert [tool_call.arguments for tool_call in given.tool_calls] == [{"a": 1}, {"b": 2}]


@pytest.mark.parametrize("end", [{}, {"arguments": ""}, {"arguments": None}])
def test_a_call_without_arguments_has_none(end: Json) -> None:
    """B34."""
    given = answer(added(0, call()), done(0, call() | end), completed())
    assert (given.tool_calls[0].arguments, given.tool_calls[0].arguments_error) == ({}, None)


def test_arguments_as_an_object_are_taken() -> None:
    """B35."""
    given = answer(added(0, call()), done(0, call({"a": 1})), completed())
    assert given.tool_calls[0].arguments == {"a": 1}


@pytest.mark.parametrize("deltas", [[], ['{"a":1}'], ['{"a"', ":1}"]])
def test_whole_arguments_in_the_announcement_are_not_doubled(deltas: list[str]) -> None:
    given = answer(added(0, call('{"a":1}')), *(arguments_delta(0, delta) for delta in deltas), completed())
    assert given.tool_calls[0].arguments == {"a": 1}


def test_arguments_that_begin_in_the_announcement_go_on() -> None:
    given = answer(added(0, call('{"a":')), arguments_delta(0, "1}"), done(0, call('{"a":1}')), completed())
    assert (given.tool_calls[0].arguments, diagnostics(given)) == ({"a": 1}, [])


def test_a_call_whose_name_comes_late_starts_with_it() -> None:
    given = answer(
        added(0, call(name="")), arguments_delta(0, '{"a":1}'), done(0, call('{"a":1}')), completed()
    )
    assert [(each.name, each.arguments) for each in given.tool_calls] == [("add", {"a": 1})]


def test_a_call_that_was_never_announced_starts_at_its_end() -> None:
    given = answer(done(0, call('{"a":1}')), completed(call('{"a":1}')))
    assert [each.id for each in given.tool_calls] == ["call_1|fc_1"]


def test_a_call_without_name_is_an_error_of_that_call_with_its_text() -> None:
    """B59."""
    given = answer(arguments_delta(0, '{"a":1}'), completed())
    (tool_call,) = given.tool_calls
    assert tool_call.arguments == {}
    assert tool_call.arguments_error is not None
    assert tool_call.arguments_error.endswith('{"a":1}')


def test_a_call_without_ids_gets_one_from_the_response() -> None:
    given = answer(created(), added(0, call(id=None, call_id="")), arguments_delta(0, "{}"), completed())
    assert given.tool_calls[0].id == "call_resp1_0"


def test_a_call_cut_by_the_token_limit_is_not_usable() -> None:
    """B65."""
    given = answer(
        added(0, call()),
        arguments_delta(0, '{"a'),
        event(
            "incomplete",
            response={"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
        ),
    )
    assert given.stop_reason == "length"
    assert given.tool_calls[0].arguments_error is not None


def test_custom_input_is_wrapped_as_escaped_json() -> None:
    item = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c1", "name": "sql", "input": ""}
    text = 'SELECT "x"\n'
    tool = Tool(
        "sql",
        parameters={"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
        constrained_sampling={"type": "grammar", "variants": {"openai_regex": ".*"}},
    )
    chunks = (
        added(0, item),
        event("custom_tool_call_input.delta", output_index=0, delta='SELECT "'),
        event("custom_tool_call_input.delta", output_index=0, delta='x"\n'),
        done(0, item | {"input": text}),
        completed(),
    )
    assert answer(*chunks, tools=(tool,)).tool_calls[0].arguments == {"query": text}
    assert answer(*chunks).tool_calls[0].arguments == {"input": text}


def test_custom_input_that_only_the_final_item_has_is_taken() -> None:
    item = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c1", "name": "sql", "input": "a\\b"}
    assert answer(done(0, item), completed()).tool_calls[0].arguments == {"input": "a\\b"}


def test_custom_input_that_differs_at_the_end_changes_nothing() -> None:
    item = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c1", "name": "sql", "input": ""}
    delta = event("custom_tool_call_input.delta", output_index=0, delta="one")
    given = answer(added(0, item), delta, done(0, item | {"input": "two"}), completed())
    assert given.tool_calls[0].arguments == {"input": "one"}
    assert diagnostics(given) == ["final_text_differs"]


def test_what_a_call_says_beyond_our_fields_is_kept() -> None:
    """Such as the program that made the call, which has to go back with it."""
    item = call("{}", caller={"type": "program", "caller_id": "c9"})
    given = answer(added(0, item), done(0, item), completed())
    ((after, data),) = kept(given)
    assert after == 0
    assert (data["call_id"], data["caller"]) == ("call_1", {"type": "program", "caller_id": "c9"})


# --- items without a block --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "type",
    [
        *("web_search_call", "file_search_call", "image_generation_call", "mcp_call", "mcp_list_tools"),
        *("local_shell_call", "shell_call", "code_interpreter_call", "compaction", "program"),
        *("tool_search_call", "apply_patch_call", "something_new"),
    ],
)
def test_items_of_built_in_tools_are_kept_in_their_place(type: str) -> None:
    item = {"type": type, "id": "x_1", "status": "completed", "result": "r"}
    given = answer(
        added(0, reasoning()),
        done(0, reasoning("a")),
        added(1, item | {"status": "in_progress", "result": None}),
        event(f"{type}.in_progress", output_index=1, item_id="x_1"),
        done(1, item),
        added(2, message()),
        text_delta(2, "hi"),
        done(2, message("hi")),
        completed(reasoning("a"), item, message("hi")),
    )
    assert kept(given) == [(1, item)]
    assert given.stop_reason == "stop"


def test_items_that_only_the_final_response_has_are_kept() -> None:
    item = {"type": "web_search_call", "id": "ws_1"}
    given = answer(added(0, message()), text_delta(0, "x"), completed(message("x"), item))
    assert kept(given) == [(1, item)]


def test_filter_results_of_azure_are_kept() -> None:
    filters = [{"blocked": False, "source_type": "prompt"}]
    assert kept(answer(completed(message("x"), content_filters=filters))) == [
        (1, {"content_filters": filters})
    ]


# --- how it ends ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "status", "details", "stop", "raw"),
    [
        ("completed", "completed", None, "stop", "completed"),
        ("completed", None, None, "stop", "completed"),
        ("completed", "in_progress", None, "stop", "in_progress"),
        ("incomplete", "incomplete", "max_output_tokens", "length", "incomplete.max_output_tokens"),
        ("completed", "incomplete", "max_output_tokens", "length", "incomplete.max_output_tokens"),
        ("incomplete", None, "max_output_tokens", "length", "incomplete.max_output_tokens"),
        ("incomplete", "completed", "max_output_tokens", "length", "incomplete.max_output_tokens"),
    ],
)
def test_stop_reasons(name: str, status: str | None, details: str | None, stop: str, raw: str) -> None:
    response = {"status": status, "incomplete_details": details and {"reason": details}}
    given = answer(added(0, message()), text_delta(0, "x"), event(name, response=response))
    assert (given.stop_reason, given.raw_stop_reason, diagnostics(given)) == (stop, raw, [])


@pytest.mark.parametrize(
    ("response", "stop"),
    [
        ({"status": "incomplete"}, "length"),
        ({"status": "incomplete", "incomplete_details": {"reason": "new_reason"}}, "length"),
        ({"status": "paused"}, "stop"),
    ],
)
def test_unknown_stop_values_are_noted_or_errors(response: Json, stop: str) -> None:
    chunks = (added(0, message()), text_delta(0, "x"), event("completed", response=response))
    given = answer(*chunks)
    assert (given.stop_reason, diagnostics(given)) == (stop, ["unknown_stop_reason"])
    strict = answer(*chunks, options=StreamOptions(unknown_stop="error"))
    assert (strict.stop_reason, strict.text) == ("error", "x")


def test_a_filtered_answer_is_an_error() -> None:
    response = {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}
    given = answer(added(0, message()), text_delta(0, "x"), event("incomplete", response=response))
    assert (given.stop_reason, given.text) == ("error", "x")
    assert given.error_cause is not None
    assert given.error_cause.kind == "filtered"


def test_a_failed_response_is_an_error_with_its_code() -> None:
    """B43."""
    response = {"status": "failed", "error": {"code": "server_error", "message": "boom"}, "usage": USAGE}
    given = answer(added(0, message()), text_delta(0, "x"), event("failed", response=response))
    assert (given.stop_reason, given.error_message, given.text) == ("error", "boom", "x")
    assert given.error_cause is not None
    assert (given.error_cause.provider_code, given.error_cause.retryable) == ("server_error", True)
    assert given.usage.output == 5


@pytest.mark.parametrize(
    "response", [{}, {"status": "failed"}, {"incomplete_details": {"reason": "gone"}}, None, "text"]
)
def test_a_failed_response_without_words_is_an_error_all_the_same(response: Any) -> None:
    given = answer(event("failed", response=response))
    assert (given.stop_reason, given.content) == ("error", [])


@pytest.mark.parametrize(
    "frame",
    [
        {"type": "error", "code": "rate_limit_exceeded", "message": "slow down", "param": None},
        {"type": "error", "error": {"code": "rate_limit_exceeded", "message": "slow down"}},
        {"type": "error", "status": 429, "error": {"message": "slow down"}},
        {"error": {"code": "rate_limit_exceeded", "message": "slow down"}},
    ],
)
def test_error_frames_keep_code_and_content(frame: Json) -> None:
    given = answer(added(0, message()), text_delta(0, "x"), frame, text_delta(0, "never"))
    assert (given.stop_reason, given.error_message, given.text) == ("error", "slow down", "x")
    assert given.error_cause is not None
    assert (given.error_cause.kind, given.error_cause.retryable) == ("rate_limit", True)


def test_an_answer_that_breaks_off_is_an_error_with_its_content() -> None:
    """B01."""
    given = answer(added(0, message()), text_delta(0, "half"), done(0, message("half")))
    assert (given.stop_reason, given.text) == ("error", "half")
    assert given.error_cause is not None
    assert (given.error_cause.kind, given.error_cause.retryable) == ("truncated", True)


def test_done_without_a_final_response_is_truncation() -> None:
    given = answer(sse(added(0, message()), text_delta(0, "x")) + b"data: [DONE]\n\n")
    assert given.error_cause is not None
    assert given.error_cause.kind == "truncated"


def test_done_after_the_final_response_is_nothing() -> None:
    assert answer(sse(completed(message("x"))) + b"data: [DONE]\n\n").stop_reason == "stop"


def test_the_stream_ends_with_the_final_response_and_waits_for_nothing() -> None:
    body = sse(added(0, message()), text_delta(0, "x"), completed(message("x")))
    head = AssistantMessage(api="openai-responses", timestamp=0)
    setup = TranslatorSetup(model=Model(id="m"))
    pipeline = Pipeline(get_api("openai-responses"), setup, ResponseHead(status=200), Guard(head))
    assert pipeline.feed(body)[-1].type == "done"
    assert pipeline.finished


def test_keep_alives_and_padding_say_nothing() -> None:
    given = answer(
        created(),
        {"type": "keepalive", "sequence_number": 1},
        added(0, message()),
        text_delta(0, "a", obfuscation="zzzz", logprobs=[]),
        {"type": "keepalive"},
        text_delta(0, "b", obfuscation="z"),
        event("something.new", output_index=0, delta="never"),
        completed(),
    )
    assert (given.text, diagnostics(given)) == ("ab", [])


def test_a_whole_json_answer_gives_the_events_of_its_stream() -> None:
    output = [reasoning("plan"), message("hi"), call('{"a":1}')]
    response = {"id": "resp_1", "object": "response", "status": "completed", "output": output, "usage": USAGE}
    whole = answer(json.dumps(response).encode())
    streamed = answer(
        *(chunk for index, item in enumerate(output) for chunk in (added(index, item), done(index, item))),
        completed(*output),
    )
    assert whole == streamed
    assert (whole.thinking, whole.text, whole.stop_reason) == ("plan", "hi", "toolUse")


def test_a_whole_json_answer_that_failed_is_an_error() -> None:
    given = answer(json.dumps({"status": "failed", "error": {"message": "boom"}, "output": []}).encode())
    assert (given.stop_reason, given.error_message) == ("error", "boom")


# --- money ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("id", "tier", "asked", "factor"),
    [
        ("m", None, None, 1),
        ("m", "default", "flex", 1),
        ("m", "flex", None, 0.5),
        ("m", None, "flex", 0.5),
        ("m", "priority", None, 2),
        ("m", "fast", None, 2),
        ("gpt-5.5", "priority", None, 2.5),
        ("gpt-5.5", "flex", None, 0.5),
    ],
)
def test_the_service_tier_multiplies_the_cost(
    id: str, tier: str | None, asked: str | None, factor: float
) -> None:
    model = Model(id=id, cost=ModelCost(input=1, output=2, cache_read=0.5))
    given = answer(
        completed(message("x"), service_tier=tier), model=model, options=StreamOptions(service_tier=asked)
    )
    plain = 5 * 1 / 1e6, 4 * 0.5 / 1e6, 5 * 2 / 1e6
    cost = given.usage.cost
    assert (cost.input, cost.cache_read, cost.output) == pytest.approx([part * factor for part in plain])
    assert cost.total == pytest.approx(sum(plain) * factor)


def test_azure_has_tiers_of_its_own() -> None:
    body = sse(completed(message("x"), service_tier="priority"))
    events = decode(body, api="azure-openai-responses", provider="azure", model="m")
    assert check_events(events).usage == check_events(decode(body, api="openai-responses", model="m")).usage


def test_openrouter_says_what_it_bills() -> None:
    usage = USAGE | {"cost": 0.25, "is_byok": False}
    given = answer(completed(message("x"), usage=usage), model=Model(id="m", provider="openrouter"))
    assert (given.usage.cost.total, given.usage.cost.total_from_provider) == (0.25, True)


# --- hostile input ----------------------------------------------------------------------------------------------------

scalars = (
    st.none() | st.booleans() | st.integers(-2, 3) | st.sampled_from(["", "x", "msg_1", "fc_1", '{"a":1}'])
)
names = st.sampled_from(
    [
        *("output_item.added", "output_item.done", "output_text.delta", "refusal.delta", "created"),
        *("reasoning_summary_text.delta", "reasoning_text.delta", "reasoning_summary_text.done"),
        *("function_call_arguments.delta", "function_call_arguments.done", "custom_tool_call_input.delta"),
        *("output_text.annotation.added", "completed", "incomplete", "failed"),
    ]
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=2),
)
types = st.sampled_from(
    ["message", "reasoning", "function_call", "custom_tool_call", "web_search_call", "", None, 3]
)
parts = st.fixed_dictionaries({}, optional={"type": scalars, "text": values, "refusal": values})
items = (
    st.fixed_dictionaries(
        {"type": types},
        optional={
            "id": values,
            "call_id": values,
            "name": values,
            "arguments": values,
            "input": values,
            "content": st.lists(parts | values, max_size=2) | values,
            "summary": st.lists(parts | values, max_size=2) | values,
            "encrypted_content": values,
            "namespace": values,
        },
    )
    | values
)
responses = (
    st.fixed_dictionaries(
        {},
        optional={
            "id": values,
            "model": values,
            "status": values | st.sampled_from(["completed", "incomplete", "failed", "odd"]),
            "output": st.lists(items, max_size=3) | values,
            "usage": st.fixed_dictionaries(
                {}, optional={"input_tokens": values, "output_tokens_details": values}
            ),
            "incomplete_details": values | st.just({"reason": "max_output_tokens"}),
            "error": values,
            "service_tier": values,
        },
    )
    | values
)
chunks = st.builds(
    lambda name, fields: {"type": f"response.{name}", **fields},
    names,
    st.fixed_dictionaries(
        {},
        optional={
            "output_index": values,
            "item_id": values,
            "summary_index": values,
            "content_index": values,
            "delta": values,
            "text": values,
            "arguments": values,
            "annotation": values,
            "item": items,
            "response": responses,
        },
    ),
)


@given(st.lists(chunks | values, max_size=12))
def test_hostile_chunks_end_in_exactly_one_terminal_event(hostile: list[Any]) -> None:
    """And the translator itself keeps the guarantees: neither the guard nor the pipeline has to step in."""
    given = answer(sse(*hostile))
    if given.error_cause is not None:
        assert given.error_cause.kind != "protocol", given.error_message
        assert "cannot read" not in (given.error_message or "")


@given(st.lists(chunks, max_size=8), st.integers(0, 2000))
def test_every_beginning_of_a_stream_without_its_end_is_an_error(hostile: list[Any], length: int) -> None:
    """What looks finished was finished: the final response was read."""
    body = sse(*hostile)[:length]
    terminal = check_events(play(body)).stop_reason
    if terminal != "error":
        assert any(name in body for name in (b"response.completed", b"response.incomplete"))


@given(st.binary(max_size=200))
def test_arbitrary_bytes_never_raise(body: bytes) -> None:
    check_events(decode(body, api="openai-responses"))
