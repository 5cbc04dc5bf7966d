"""The generator door: what a custom provider yields, and what becomes of everything it may do wrong."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import pytest

from pi_stream import (
    AssistantMessage,
    Client,
    ConfigError,
    DeferredHandle,
    Done,
    Error,
    ErrorCause,
    Event,
    Limits,
    Metadata,
    Start,
    TextContent,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingContent,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    Tool,
    ToolCall,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)
from pi_stream.events import BlockEnd, Finish
from pi_stream.providers import GeneratorRequest, Provider, finish, text, thinking, tool_call, usage
from pi_stream.testing import check_events

pytestmark = pytest.mark.anyio


class Playing:
    """A generator provider that yields these items, raising those that are exceptions; knows whether it was closed."""

    def __init__(self, *items: Any) -> None:
        self.items = items
        self.running = 0

    async def generate(self, request: GeneratorRequest) -> AsyncIterator[Any]:
        self.running += 1
        try:
            for item in self.items:
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            self.running -= 1


async def run(generate: Callable[..., Any], prompt: Any = "hi", **options: Any) -> list[Event]:
    """All events of one request to a generator provider."""
    async with (
        Client(providers=[Provider("mine", generate=generate)]) as client,
        client.stream("mine/m", prompt, **options) as stream,
    ):
        events = [event async for event in stream]
        assert stream.message == check_events(events)
    return events


async def play(*items: Any, **options: Any) -> list[Event]:
    """All events of one answer with these items; nothing is left running."""
    playing = Playing(*items)
    events = await run(playing.generate, **options)
    assert playing.running == 0
    return events


def final(events: list[Event]) -> AssistantMessage:
    last = events[-1]
    assert isinstance(last, Done | Error)
    return last.message if isinstance(last, Done) else last.error


# --- doing it right -----------------------------------------------------------------------------------------------------


async def shout(request: GeneratorRequest) -> AsyncIterator[Any]:
    yield thinking("They said: " + request.prompt)
    for word in request.prompt.upper().split():
        yield text(word + " ")
    if request.tools:
        yield tool_call(request.tools[0].name, {"words": 2})
    yield usage(input=3, output=2)
    yield finish("toolUse" if request.tools else "stop")


async def test_twelve_lines_are_a_provider() -> None:
    """A generator streams thinking, text, a call and usage through the client, like any vendor."""
    events = await run(shout, "hello there", tools=[Tool("count")])
    assert [event.type for event in events] == [
        *("start", "thinking_start", "thinking_delta", "thinking_end"),
        *("text_start", "text_delta", "text_delta", "text_end"),
        *("toolcall_start", "toolcall_delta", "metadata", "toolcall_end", "done"),
    ]
    message = final(events)
    assert (message.thinking, message.text, message.stop_reason) == (
        "They said: hello there",
        "HELLO THERE ",
        "toolUse",
    )
    assert message.tool_calls == [ToolCall("call_0", "count", {"words": 2})]
    assert (message.provider, message.model, message.usage.total_tokens) == ("mine", "m", 5)


async def test_the_request_has_what_was_asked() -> None:
    """Prompt, plain messages, tools, model and options reach the generator."""
    seen: list[GeneratorRequest] = []

    async def generate(request: GeneratorRequest) -> AsyncIterator[Any]:
        seen.append(request)
        yield finish()

    await run(generate, "What?", tools=[Tool("count")], system_prompt="Be brief.", temperature=0.5)
    (request,) = seen
    assert request.prompt == "What?"
    assert [message.role for message in request.messages] == ["system", "user"]
    assert [tool.name for tool in request.tools] == ["count"]
    assert (request.model.id, request.options.temperature) == ("m", 0.5)


async def test_calls_in_pieces_are_told_apart_by_id() -> None:
    """Pieces with the same id make one call, however they alternate; calls without an id are whole."""
    events = await play(
        tool_call("add", '{"a": ', id="x"),
        tool_call("sub", '{"b": ', id="y"),
        tool_call("add", "1}", id="x"),
        tool_call("sub", "2}", id="y"),
        tool_call("now"),
        finish("toolUse"),
    )
    assert final(events).tool_calls == [
        ToolCall("x", "add", {"a": 1}),
        ToolCall("y", "sub", {"b": 2}),
        ToolCall("call_2", "now", {}),
    ]


async def test_calls_keep_their_place() -> None:
    """A call without arguments stands where it was yielded, also before text and thinking."""
    events = await play(
        text("a"),
        tool_call("now"),
        text("b"),
        tool_call("here"),
        thinking("hm"),
        tool_call("now"),
        finish("toolUse"),
    )
    assert [getattr(block, "name", block.type) for block in final(events).content] == [
        *("text", "now", "text", "here", "thinking", "now"),
    ]


async def test_usage_and_notes_do_not_disturb_the_blocks() -> None:
    """Metadata between the parts changes nothing: signatures and calls without arguments survive it."""
    events = await play(
        usage(input=1),
        thinking("hm", signature="s"),
        usage(input=2),
        tool_call("now"),
        usage(input=3),
        finish("toolUse"),
    )
    message = final(events)
    assert message.content == [ThinkingContent("hm", thinking_signature="s"), ToolCall("call_0", "now", {})]
    assert (message.stop_reason, message.usage.input) == ("toolUse", 3)


async def test_a_signature_may_come_before_or_after_its_thinking() -> None:
    """Thinking without text is kept where it has a signature; a later signature replaces an earlier one."""
    events = await play(
        thinking("", signature="only"), text("a"), thinking("b"), thinking("", signature="late"), finish()
    )
    assert final(events).content == [
        ThinkingContent("", thinking_signature="only"),
        TextContent("a"),
        ThinkingContent("b", thinking_signature="late"),
    ]


async def test_a_list_is_one_batch() -> None:
    """Parts that are yielded together are handed out together."""
    playing = Playing([text("a"), text("b")], [text("c"), finish()])
    async with Client(providers=[Provider("mine", generate=playing.generate)]) as client:
        batches = [batch async for batch in client.stream("mine/m", "hi").batches()]
    assert [[event.type for event in batch] for batch in batches] == [
        ["start", "text_start", "text_delta", "text_delta"],
        ["text_delta", "text_end", "done"],
    ]


async def test_empty_pieces_open_nothing() -> None:
    """An answer of nothing but empty texts is complete and has no content."""
    events = await play(text(""), thinking(""), [], finish())
    assert [event.type for event in events] == ["start", "done"]


async def test_raw_events_give_full_control() -> None:
    """A generator may yield events: its own indexes, interleaved calls, a terminal event with what it knows."""
    message = AssistantMessage(stop_reason="toolUse", response_id="r1", usage=Usage(input=1, total_tokens=1))
    events = await play(
        Start(AssistantMessage(response_model="m-1")),
        [ToolCallStart(0, "x", "add"), ToolCallStart(1, "y", "sub")],
        ToolCallDelta(1, "{}"),
        ToolCallDelta(0, '{"a":1}'),
        ToolCallEnd(1, ToolCall("y", "sub", {})),
        ToolCallEnd(0, ToolCall("x", "add", {"a": 1}, thought_signature="t")),
        Metadata(content_index=1, signature="late"),
        Done("toolUse", message),
    )
    got = final(events)
    assert got.tool_calls == [
        ToolCall("x", "add", {"a": 1}, thought_signature="t"),
        ToolCall("y", "sub", {}, thought_signature="late"),
    ]
    assert (got.response_id, got.response_model, got.usage.input) == ("r1", "m-1", 1)
    assert (got.provider, got.stop_reason) == ("mine", "toolUse")


async def test_drafts_end_blocks_without_repeating_them() -> None:
    """`BlockEnd` and `Finish` leave the bookkeeping of contents to the engine."""
    events = await play(
        ThinkingStart(0),
        ThinkingDelta(0, "[redacted]"),
        BlockEnd(0, signature="payload", redacted=True),
        Finish("stop"),
    )
    assert final(events).content == [
        ThinkingContent("[redacted]", thinking_signature="payload", redacted=True)
    ]


async def test_deferred_hands_over_its_ticket() -> None:
    """An answer that comes later ends with the handle and without content."""
    handle = DeferredHandle(provider="mine", model_id="m", api="mine", id="job-1")
    message = final(await play(finish("deferred", deferred=handle)))
    assert (message.stop_reason, message.deferred, message.content) == ("deferred", handle, [])


# --- ending badly -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("last", "reason", "kind"),
    [
        (finish("error", error="out of luck"), "error", "provider_error"),
        (finish("error"), "error", "provider_error"),
        (finish("aborted"), "aborted", "cancelled"),
        (Finish("error"), "error", "provider_error"),
        (Finish("error", "too long", ErrorCause(kind="overflow")), "error", "overflow"),
        (Error("error", AssistantMessage(stop_reason="error")), "error", "provider_error"),
        (
            Error("aborted", AssistantMessage(stop_reason="aborted", error_message="enough")),
            "aborted",
            "cancelled",
        ),
    ],
)
async def test_a_reported_failure_keeps_the_content(last: Any, reason: str, kind: str) -> None:
    """A provider that says it failed gets its error event, with a message for people in any case."""
    message = final(await play(text("half an ans"), last))
    assert message.text == "half an ans"
    assert message.stop_reason == reason
    assert message.error_message
    assert message.error_cause is not None
    assert message.error_cause.kind == kind


async def test_a_config_error_is_the_caller_s() -> None:
    """A missing key or package is reported in its own words, as a lone error."""
    (event,) = await play(ConfigError("set MY_KEY"))
    assert isinstance(event, Error)
    assert event.error.error_message == "set MY_KEY"
    assert event.error.error_cause is not None
    assert (event.error.error_cause.kind, event.error.error_cause.origin) == ("config", "caller")


@pytest.mark.parametrize("what", ["idle", "first", "total"])
async def test_silence_ends_by_the_limit(what: str) -> None:
    """A generator that gives nothing any more ends by the clock that runs out first; it is closed."""
    closed = []

    async def generate(request: GeneratorRequest) -> AsyncIterator[Any]:
        try:
            if what != "first":
                yield text("so far")
            await anyio.sleep_forever()
        finally:
            closed.append(True)

    events = await run(generate, limits=Limits(**{what: 0.05}))
    message = final(events)
    assert message.error_cause is not None
    assert message.error_cause.kind == f"timeout_{what}"
    assert message.error_cause.retryable
    assert message.text == ("" if what == "first" else "so far")
    assert closed == [True]


async def never_waiting(request: GeneratorRequest) -> AsyncIterator[Any]:
    while True:
        yield text("x")


async def test_a_generator_that_never_waits_can_be_cancelled() -> None:
    """A model that computes without a pause does not keep its reader from being cancelled."""
    async with (
        Client(providers=[Provider("mine", generate=never_waiting)]) as client,
        client.stream("mine/m", "hi") as stream,
    ):
        with anyio.move_on_after(0.05) as scope:
            async for _ in stream:
                pass
        assert scope.cancelled_caught
        assert stream.message.stop_reason == "aborted"


async def test_a_generator_that_never_waits_can_be_aborted() -> None:
    """Other tasks have their turn, and what they abort ends."""
    async with (
        Client(providers=[Provider("mine", generate=never_waiting)]) as client,
        client.stream("mine/m", "hi") as stream,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(stream.result)
        await anyio.sleep(0.02)
        stream.abort()
    assert stream.message.stop_reason == "aborted"


async def test_a_generator_that_never_waits_meets_the_total_limit() -> None:
    """The limit on the whole stream holds for it, too."""
    message = final(await run(never_waiting, limits=Limits(total=0.05)))
    assert message.error_cause is not None
    assert message.error_cause.kind == "timeout_total"


async def test_a_total_that_passes_between_pulls() -> None:
    """A consumer who comes back too late gets the error, not an exception."""
    client = Client(
        providers=[Provider("mine", generate=Playing(text("a"), text("b"), finish("stop")).generate)]
    )
    async with client.stream("mine/m", "hi", limits=Limits(total=0.03)) as stream:
        await anext(stream)
        await anyio.sleep(0.05)
        message = await stream.result()
    assert message.error_cause is not None
    assert message.error_cause.kind == "timeout_total"


async def test_pieces_of_a_kind_of_string_are_strings() -> None:
    """Libraries have string classes of their own; what is handed out is plain text."""

    class Token(str):
        __slots__ = ()

    events = await play(text(Token("a")), thinking(Token("b")), finish())
    assert final(events).content == [TextContent("a"), ThinkingContent("b")]
    assert {type(event.delta) for event in events if isinstance(event, TextDelta | ThinkingDelta)} == {str}


# --- breaking the guarantees --------------------------------------------------------------------------------------------

HALF = [text("kept")]
RAW = [TextStart(0), TextDelta(0, "kept")]
RAW_TEXT = [*RAW, TextEnd(0, "kept")]
STOPPED = AssistantMessage(stop_reason="stop")

BROKEN: dict[str, tuple[int, list[Any]]] = {
    # the acceptance list of the engine
    "generator raises": (8, [*HALF, ValueError("boom")]),
    "returns without finish": (9, HALF),
    "unknown delta": (8, [*HALF, {"delta": "x"}]),
    "toolUse without a call": (9, [*HALF, finish("toolUse")]),
    "wrong index": (2, [*RAW_TEXT, TextStart(2)]),
    "delta after end": (2, [*RAW_TEXT, TextDelta(0, "more")]),
    "change of kind": (2, [*RAW, ThinkingDelta(0, "hm")]),
    "missing end before done": (3, [*RAW, Done("stop", STOPPED)]),
    "done while pending": (5, [*RAW_TEXT, Done("stop", AssistantMessage())]),
    "two terminals in one batch": (1, [*RAW_TEXT, [Done("stop", STOPPED), Done("stop", STOPPED)]]),
    # and its neighbours
    "raises while a call is open": (8, [*HALF, tool_call("add", '{"a'), RuntimeError("boom")]),
    "two parts finish in one batch": (1, [*HALF, [finish(), finish()]]),
    "None": (8, [*HALF, None]),
    "a bare string": (8, [*HALF, "more"]),
    "text that is no text": (8, [*HALF, text(5)]),  # type: ignore[arg-type]
    "thinking that is no text": (8, [*HALF, thinking(b"x")]),  # type: ignore[arg-type]
    "delta that is no text": (8, [*RAW, TextDelta(0, 5)]),  # type: ignore[arg-type]
    "index that is no number": (8, [*RAW, TextDelta([], "x")]),  # type: ignore[arg-type]
    "negative index": (2, [*RAW, TextDelta(-1, "x")]),
    "delta of a block never opened": (2, [*RAW, TextDelta(1, "x")]),
    "end of a block never opened": (2, [*RAW, BlockEnd(1)]),
    "end of another kind": (2, [*RAW, ThinkingEnd(0, "kept")]),
    "end twice": (2, [*RAW_TEXT, TextEnd(0, "kept")]),
    "end that contradicts its deltas": (4, [*RAW, TextEnd(0, "other")]),
    "end that is no text": (4, [*RAW, TextEnd(0, None)]),  # type: ignore[arg-type]
    "call end without a call": (8, [*RAW_TEXT, ToolCallStart(1, "x", "f"), ToolCallEnd(1, None)]),  # type: ignore[arg-type]
    "second start": (1, [*RAW, Start(AssistantMessage())]),
    "text while text is open": (6, [*RAW, TextStart(1)]),
    "call while text is open": (6, [*RAW, ToolCallStart(1, "x", "f")]),
    "call without a name": (8, [*RAW_TEXT, ToolCallStart(1, "x", None)]),  # type: ignore[arg-type]
    "empty block": (7, [*RAW_TEXT, TextStart(1), TextEnd(1, "")]),
    "empty block at the end": (7, [*RAW_TEXT, TextStart(1), finish()]),
    "signature of no block": (2, [*RAW_TEXT, Metadata(content_index=7, signature="s")]),
    "signature of an open block": (2, [*RAW, Metadata(content_index=0, signature="s")]),
    "pending as reason": (5, [*HALF, finish("pending")]),
    "reason nobody knows": (5, [*HALF, finish("fin")]),  # type: ignore[arg-type]
    "done and message differ": (5, [*RAW_TEXT, Done("length", STOPPED)]),
    "done with other content": (
        5,
        [*RAW_TEXT, Done("stop", AssistantMessage([TextContent("x")], stop_reason="stop"))],
    ),
    "done without a message": (8, [*RAW_TEXT, Done("stop", None)]),  # type: ignore[arg-type]
    "raw toolUse without a call": (9, [*RAW_TEXT, finish("toolUse")]),
    "raw done toolUse without a call": (
        9,
        [*RAW_TEXT, Done("toolUse", AssistantMessage(stop_reason="toolUse"))],
    ),
    "call renamed": (4, [*RAW_TEXT, ToolCallStart(1, "x", "f"), ToolCallEnd(1, ToolCall("x", "g"))]),
    "arguments the deltas do not have": (
        4,
        [*RAW_TEXT, ToolCallStart(1, "x", "f"), ToolCallEnd(1, ToolCall("x", "f", {"a": 1}))],
    ),
    "broken arguments without an error": (
        4,
        [*RAW_TEXT, ToolCallStart(1, "x", "f"), ToolCallDelta(1, '{"a'), ToolCallEnd(1, ToolCall("x", "f"))],
    ),
}


@pytest.mark.parametrize(("rule", "items"), BROKEN.values(), ids=BROKEN)
async def test_a_violation_is_one_error_that_names_the_guarantee(rule: int, items: list[Any]) -> None:
    """Whatever a provider does wrong: one error event, last, naming the rule; blocks ended before it, content kept."""
    events = await play(*items)  # checks that every block has its end and the terminal event is the only one
    last = events[-1]
    assert isinstance(last, Error)
    assert last.reason == "error"
    message = last.error
    assert message.error_message is not None
    assert message.error_message.startswith(f"guarantee {rule}: ")
    assert message.error_cause is not None
    assert (message.error_cause.kind, message.error_cause.origin) == ("protocol", "provider")
    assert message.error_cause.provider_code == f"guarantee-{rule}"
    assert message.content[0] == TextContent("kept")


@pytest.mark.parametrize(
    ("rule", "items"),
    [
        (8, [ValueError("boom")]),
        (9, []),
        (8, [object()]),
        (9, [finish("toolUse")]),
        (2, [TextStart(1)]),
        (2, [BlockEnd(0)]),
        (2, [Metadata(content_index=0, signature="s"), finish()]),
        (2, [Metadata(content_index=0, signature="s"), ValueError("boom")]),
        (2, [Metadata(content_index=0, signature="s"), finish("error")]),
    ],
)
async def test_a_violation_before_any_content(rule: int, items: list[Any]) -> None:
    """Before the first block the same holds: at most a start, then the one error."""
    events = await play(*items)
    message = final(events)
    assert message.stop_reason == "error"
    assert f"guarantee {rule}: " in (message.error_message or "")
    assert message.content == []


async def test_what_is_known_before_a_lone_error_is_in_its_message() -> None:
    """Metadata that waited for the start is not lost when there is none."""
    (event,) = await play(usage(input=7), Metadata(response_id="r1"), ValueError("boom"))
    assert isinstance(event, Error)
    assert (event.error.usage.input, event.error.response_id) == (7, "r1")


async def test_what_follows_the_end_is_dropped() -> None:
    """Parts behind `finish` in the same batch leave a diagnostic; later ones are never asked for."""
    events = await play([text("all"), finish(), text("more")], text("even more"))
    message = final(events)
    assert (message.text, message.stop_reason) == ("all", "stop")
    assert [diagnostic.type for diagnostic in message.diagnostics or ()] == ["after_terminal"]


async def test_a_provider_that_is_no_generator_is_an_error() -> None:
    """A coroutine instead of an async generator, the usual slip, is reported; nothing is left un-awaited."""

    async def generate(request: GeneratorRequest) -> Any:
        return "text"

    events = await run(generate)
    assert "guarantee 8: the provider raised TypeError: it is a coroutine" in (
        final(events).error_message or ""
    )
    gc.collect()  # a coroutine that was never awaited would warn here


async def test_a_generator_that_fails_while_it_closes_spoils_nothing() -> None:
    """The answer is over: what goes wrong afterwards is the provider's own business."""

    async def generate(request: GeneratorRequest) -> AsyncIterator[Any]:
        try:
            yield text("fine")
            yield finish()
        finally:
            raise ValueError("boom")

    assert final(await run(generate)).stop_reason == "stop"
