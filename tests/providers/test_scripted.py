"""The scripted provider: everything a real stream can do, on purpose and the same every time."""

from __future__ import annotations

import gc
from collections.abc import Callable
from copy import deepcopy
from types import AsyncGeneratorType
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import given
from hypothesis import strategies as st

from pi_stream import (
    AssistantMessage,
    Client,
    ConfigError,
    Context,
    DeferredHandle,
    Diagnostic,
    Done,
    Error,
    ErrorCause,
    Event,
    ImageContent,
    Limits,
    Metadata,
    Model,
    ModelCost,
    ProviderData,
    TextContent,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingContent,
    Tool,
    ToolCall,
    ToolCallDelta,
    Usage,
    UserMessage,
    complete,
    fold,
)
from pi_stream.engine.generator import GeneratorRequest
from pi_stream.events import Finish
from pi_stream.providers._playback import play
from pi_stream.providers.scripted import Reply, ScriptedProvider, raw_call, scripted
from pi_stream.testing import check_events

pytestmark = pytest.mark.trio
on_every_loop = pytest.mark.anyio


async def run(provider: ScriptedProvider, prompt: Any = "hi", **options: Any) -> list[Event]:
    """All events of one request; at each step they fold into the stream's message."""
    seen: list[Event] = []
    async with (
        Client(providers=[provider]) as client,
        client.stream(provider.id, prompt, **options) as stream,
    ):
        async for event in stream:
            seen.append(event)
            assert fold(seen) == stream.message
        assert check_events(seen) == stream.message
    return seen


async def ask(provider: ScriptedProvider, prompt: Any = "hi", **options: Any) -> AssistantMessage:
    """The final message of one request."""
    last = (await run(provider, prompt, **options))[-1]
    assert isinstance(last, Done | Error)
    return last.message if isinstance(last, Done) else last.error


def types(events: list[Event]) -> list[str]:
    return [event.type for event in events]


def deltas(events: list[Event]) -> list[str]:
    return [event.delta for event in events if event.type.endswith("_delta")]  # type: ignore[union-attr]


CALLS = [
    ToolCall("c1", "add", {"a": 3, "b": 4}),
    ToolCall("c2", "now", {}),
    ToolCall("c3", "say", {"text": "x" * 30}),
]


# --- the queue ----------------------------------------------------------------------------------------------------------


@on_every_loop
async def test_each_request_takes_the_next_reply() -> None:
    """Replies come in order, can be added later, and the requests are there to look at."""
    provider = scripted("one", "two")
    assert provider.pending == 2
    assert (await ask(provider, "first")).text == "one"
    provider.append("three", "four")
    assert [(await ask(provider)).text for _ in range(2)] == ["two", "three"]
    assert provider.pending == 1
    assert [request.prompt for request in provider.calls] == ["first", "hi", "hi"]


@on_every_loop
async def test_requests_take_replies_in_the_order_they_start() -> None:
    """A reply is taken when a stream is first read, not when it is made, and not when it ends."""
    provider = scripted("one", "two")
    async with Client(providers=[provider]) as client:
        late, early = client.stream("scripted", "late"), client.stream("scripted", "early")
        assert provider.pending == 2
        await anext(early)
        assert (await late.result()).text == "two"
        assert (await early.result()).text == "one"
    assert [request.prompt for request in provider.calls] == ["early", "late"]


@on_every_loop
async def test_a_used_up_script_is_an_error() -> None:
    """One request too many is the fault of the test, said in a lone error event."""
    events = await run(scripted())
    assert types(events) == ["error"]
    error = fold(events)
    assert "no more scripted replies" in (error.error_message or "")
    assert error.error_cause is not None
    assert (error.error_cause.origin, error.error_cause.retryable) == ("caller", False)


@on_every_loop
async def test_a_default_answers_when_the_script_is_used_up() -> None:
    """The default is played as often as asked."""
    provider = scripted("first", default="again")
    assert [(await ask(provider)).text for _ in range(3)] == ["first", "again", "again"]


@on_every_loop
async def test_two_providers_have_a_queue_each() -> None:
    """Providers with ids of their own stand beside each other in one client."""
    one, two = scripted("from one", id="one"), scripted("from two", id="two")
    async with Client(providers=[one, two]) as client:
        assert (await client.complete("two/any/model", "hi")).text == "from two"
        message = await client.complete("one", "hi")
    assert (message.provider, message.model, message.api) == ("one", "scripted", "scripted")
    assert (one.pending, two.pending) == (0, 0)


@on_every_loop
async def test_a_function_makes_its_reply_from_the_request() -> None:
    """Functions, async ones too, see the request and may give any kind of reply."""

    def count(request: GeneratorRequest) -> str:
        return f"{len(request.messages)} messages, {request.options.temperature}"

    async def call(request: GeneratorRequest) -> Reply:
        await checkpoint()
        return Reply([ToolCall("c", request.tools[0].name)])

    provider = scripted(count, call)
    context = Context([UserMessage("a"), AssistantMessage([TextContent("b")]), UserMessage("c")])
    assert (await ask(provider, context, temperature=0.5)).text == "3 messages, 0.5"
    assert (await ask(provider, tools=[Tool("add")])).tool_calls == [ToolCall("c", "add")]


@on_every_loop
async def test_a_function_that_raises_is_a_provider_that_raises() -> None:
    """The exception becomes the error event."""

    def wrong(request: GeneratorRequest) -> str:
        raise ValueError("not this")

    message = await ask(scripted(wrong))
    assert message.error_message == "guarantee 8: the provider raised ValueError: not this"


@on_every_loop
async def test_without_a_script_it_repeats_what_was_said() -> None:
    """`scripted/anything` needs no client of its own and no queue, and answers the same every time."""
    first = await complete("scripted/anything", "What is 3 + 4?")
    again = await complete("scripted", "What is 3 + 4?", tools=[Tool("add")])
    assert first.stop_reason == "stop"
    assert "What is 3 + 4?" in first.text
    assert first.content == again.content
    assert (await complete("scripted", "")).text


# --- content ------------------------------------------------------------------------------------------------------------


@on_every_loop
@pytest.mark.parametrize("size", [1, 3, 16, 1000])
async def test_text_is_cut_into_pieces_of_a_fixed_size(size: int) -> None:
    """The cutting depends on nothing but the size."""
    said = "The quick brown fox jumps over the lazy dog. 😀"
    pieces = deltas(await run(scripted(Reply(said, chunk_size=size), chunk_size=7)))
    assert pieces == [said[at : at + size] for at in range(0, len(said), size)]
    assert deltas(await run(scripted(said, chunk_size=size))) == pieces


REPLIES: dict[str, Any] = {
    "a string": "hello",
    "one block": ThinkingContent("hm", thinking_signature="sig"),
    "strings and blocks": ["a", TextContent("b", text_signature="s"), "c"],
    "thinking, text, calls": [ThinkingContent("hm"), TextContent("well"), *CALLS],
    "redacted thinking": ThinkingContent("[redacted]", thinking_signature="payload", redacted=True),
    "a signature alone": ThinkingContent("", thinking_signature="sig"),
    "text between calls": [CALLS[0], TextContent("and"), CALLS[1]],
    "call with everything": ToolCall(
        "c", "f", {"é": [1, None, "\ud83d"]}, thought_signature="s", namespace="n"
    ),
    "invalid arguments": raw_call("c", "f", '{"a": [1, 2'),
    "arguments with an error of their own": ToolCall("", "", arguments_error="no name\n\n{}"),
    "nothing": [],
}


@on_every_loop
@pytest.mark.parametrize("interleave", [False, True])
@pytest.mark.parametrize("reply", REPLIES.values(), ids=REPLIES)
async def test_the_answer_has_the_content_of_the_script(reply: Any, interleave: bool) -> None:
    """Blocks arrive as they were written: signatures, redaction, ids, arguments and their errors included."""
    blocks = reply if isinstance(reply, list) else [reply]
    expected = [TextContent(block) if isinstance(block, str) else block for block in blocks]
    message = await ask(scripted(Reply(reply, chunk_size=3, interleave=interleave)))
    assert message.content == expected
    assert message.stop_reason == ("toolUse" if message.tool_calls else "stop")


@on_every_loop
async def test_broken_arguments_keep_the_text() -> None:
    """A call whose arguments are no JSON comes with the error and with what was received."""
    (call,) = (await ask(scripted(raw_call("c", "f", '{"a": tru')))).tool_calls
    assert call.arguments == {}
    assert call.arguments_error is not None
    assert call.arguments_error.endswith('\n\n{"a": tru')


@on_every_loop
async def test_empty_texts_open_no_block() -> None:
    """As with any provider, a block is never invented."""
    assert types(await run(scripted(["", TextContent(""), ThinkingContent("")]))) == [
        "start",
        "metadata",
        "done",
    ]


@on_every_loop
async def test_calls_interleave_piece_by_piece() -> None:
    """With `interleave` the calls of a run grow in turns, each under its own index."""
    plain = await run(scripted(Reply(["go", *CALLS], chunk_size=8)))
    mixed = await run(scripted(Reply(["go", *CALLS], chunk_size=8, interleave=True)))
    assert plain[-1].message.content == mixed[-1].message.content  # type: ignore[union-attr]
    order = [event.content_index for event in mixed if isinstance(event, ToolCallDelta)]
    assert order == [1, 2, 3, 1, 3, 3, 3, 3, 3]
    assert [event.content_index for event in plain if isinstance(event, ToolCallDelta)] == sorted(order)


@on_every_loop
async def test_unknown_items_are_passed_as_they_are() -> None:
    """What is no block reaches the guard untouched: metadata is welcome, anything else is refused by name."""
    message = await ask(scripted(["a", Metadata(response_model="m-2"), "b"]))
    assert (message.text, message.response_model) == ("ab", "m-2")
    for item in (object(), ImageContent("", "image/png"), {"text": "x"}):
        message = await ask(scripted(["a", item, "b"]))
        assert message.text == "a"
        assert message.error_message == f"guarantee 8: {type(item).__name__} is no event"


# --- what belongs to the message ----------------------------------------------------------------------------------------


def everything() -> AssistantMessage:
    return AssistantMessage(
        [ThinkingContent("hm", thinking_signature="s"), TextContent("done")],
        stop_reason="length",
        response_id="r1",
        response_model="m-1",
        raw_stop_reason="max_tokens",
        usage=Usage(input=5, output=2, total_tokens=7, quality="reported"),
        diagnostics=[Diagnostic(type="note", timestamp=1)],
        provider_data=[ProviderData(after=1, api="a", provider="p", model="m", data={"x": 1})],
    )


@on_every_loop
async def test_a_message_is_played_with_all_it_has() -> None:
    """An assistant message as a reply gives an equal answer, but for who answered and when."""
    provider = scripted(everything(), id="p")
    message = await ask(provider)
    expected = everything()
    expected.api, expected.provider, expected.model = "scripted", "p", "scripted"
    expected.timestamp, expected.duration_ms = message.timestamp, message.duration_ms
    assert message == expected


@on_every_loop
async def test_a_reply_is_not_changed_by_being_played() -> None:
    """The answers to two requests share nothing with each other or with the script."""
    reply = everything()
    provider = scripted(default=reply)
    first = await ask(provider)
    first.usage.input = 99
    first.content.clear()
    assert first.diagnostics is not None
    first.diagnostics[0].type = "changed"
    assert first.provider_data is not None
    first.provider_data[0].data["x"] = 2
    expected = everything()
    expected.timestamp = reply.timestamp
    assert reply == expected
    second = await ask(provider)
    assert (second.usage, second.diagnostics, second.provider_data) == (
        reply.usage,
        reply.diagnostics,
        reply.provider_data,
    )


@on_every_loop
async def test_a_message_without_a_stop_reason_stops_as_its_content_says() -> None:
    """A new message is pending; as a reply that reads as not given, and a reply's own word wins."""
    provider = scripted(
        AssistantMessage([TextContent("a")]),
        AssistantMessage([CALLS[0]]),
        Reply(AssistantMessage([TextContent("a")], stop_reason="stop"), stop_reason="length"),
        Reply(AssistantMessage([TextContent("a")], stop_reason="stop"), error="no", fail_after=1),
    )
    assert [(await ask(provider)).stop_reason for _ in range(4)] == ["stop", "toolUse", "length", "error"]


@on_every_loop
async def test_usage_is_estimated_unless_given() -> None:
    """A token for every four characters of prompt and answer, marked as estimated, at the model's price."""
    model = Model(id="m", cost=ModelCost(input=1e6, output=2e6))
    provider = scripted("x" * 9, Reply("x", usage=Usage(input=7, output=1, total_tokens=8)), models=[model])
    async with Client(providers=[provider]) as client:
        usage = (await client.complete("scripted/m", "123")).usage  # "user:123" is two tokens
        assert (usage.input, usage.output, usage.total_tokens, usage.quality) == (2, 3, 5, "estimated")
        assert usage.cost.total == 2 * 1.0 + 3 * 2.0
        given = (await client.complete("scripted/m", "123")).usage
        assert given == Usage(input=7, output=1, total_tokens=8, quality="reported")


@on_every_loop
async def test_the_estimate_counts_all_text_of_the_prompt() -> None:
    """Text, thinking and calls of earlier answers count; images do not."""
    answer = AssistantMessage([ThinkingContent("1234"), TextContent("5678"), ToolCall("c", "add", {})])
    asked = UserMessage([TextContent("ab"), ImageContent("x" * 1000, "image/png")])
    message = await ask(scripted("ok"), [asked, answer])
    assert message.usage.input == -(-len("user:ab\n\nassistant:12345678add{}") // 4)


@on_every_loop
async def test_a_deferred_answer_has_its_handle_and_no_content() -> None:
    """The ticket of an answer that comes later."""
    handle = DeferredHandle(provider="scripted", model_id="m", api="scripted", id="job-1", poll_after_ms=5)
    message = await ask(scripted(Reply(deferred=handle)))
    assert (message.stop_reason, message.deferred, message.content) == ("deferred", handle, [])


@on_every_loop
async def test_the_response_id_is_known_from_the_first_event() -> None:
    """It comes with the start, as real providers send it, also when the answer fails at once."""
    client = Client(providers=[scripted(Reply("text", response_id="r1"))])
    async with client, client.stream("scripted", "hi") as stream:
        batch = await anext(stream.batches())
    assert types(batch)[:2] == ["start", "metadata"]
    assert (await ask(scripted(Reply(response_id="r2", fail_after=0)))).response_id == "r2"


@on_every_loop
async def test_raw_events_are_all_that_is_sent() -> None:
    """With `events` nothing is added: what is missing, the guard misses."""
    events = [TextStart(0), [TextDelta(0, "a"), TextDelta(0, "b")], TextEnd(0, "ab"), Finish("length")]
    provider = scripted(Reply(events=events), Reply(events=events[:-1]), Reply(events=[TextStart(3)]))
    complete, cut, wrong = [await ask(provider) for _ in range(3)]
    assert (complete.text, complete.stop_reason) == ("ab", "length")
    assert (cut.text, (cut.error_message or "")[:12]) == ("ab", "guarantee 9:")
    assert (wrong.error_message or "").startswith("guarantee 2:")


# --- failures -----------------------------------------------------------------------------------------------------------


@on_every_loop
async def test_a_reported_error_comes_after_the_content() -> None:
    """The provider says that it failed: its message, its cause, and everything before it."""
    cause = ErrorCause(kind="overloaded", retryable=True, status=529)
    message = await ask(scripted(Reply("so far", error="busy", error_cause=cause)))
    assert (message.text, message.stop_reason, message.error_message) == ("so far", "error", "busy")
    assert message.error_cause == cause
    message = await ask(scripted(AssistantMessage(stop_reason="aborted", error_message="enough")))
    assert (message.stop_reason, message.error_message) == ("aborted", "enough")


@on_every_loop
@pytest.mark.parametrize("after", [0, 1, 2, 3, 99])
@pytest.mark.parametrize(
    ("error", "says"),
    [(None, "scripted failure"), ("busy", "busy"), (ConnectionError("gone"), "raised ConnectionError: gone")],
)
async def test_it_fails_after_so_many_pieces(after: int, error: Any, says: str) -> None:
    """The pieces before the failure arrive, and the failure happens at the latest before the end."""
    message = await ask(scripted(Reply("aabbcc", chunk_size=2, fail_after=after, error=error)))
    assert message.text == "aabbcc"[: 2 * after]
    assert message.stop_reason == "error"
    assert says in (message.error_message or "")
    assert (
        deltas(await run(scripted(Reply("aabbcc", chunk_size=2, fail_after=after))))
        == ["aa", "bb", "cc"][:after]
    )


@on_every_loop
async def test_a_failure_inside_calls_ends_them_all() -> None:
    """Calls that grow in turns are all open when it breaks off; each gets its end, and its text so far."""
    message = await ask(scripted(Reply(CALLS, chunk_size=4, interleave=True, fail_after=4)))
    assert [call.name for call in message.tool_calls] == ["add", "now", "say"]
    assert [call.arguments_error is None for call in message.tool_calls] == [False, True, False]


@on_every_loop
@pytest.mark.parametrize("after", [0, 1, 2, 99])
async def test_it_returns_without_an_end(after: int) -> None:
    """Truncation is never success, also when all of the content came."""
    message = await ask(scripted(Reply("aabbcc", chunk_size=2, truncate_after=after)))
    assert message.text == "aabbcc"[: 2 * after]
    assert message.stop_reason == "error"
    assert (message.error_message or "").startswith("guarantee 9:")


@on_every_loop
@pytest.mark.parametrize("after", [0, 2, 99])
async def test_a_stall_ends_by_the_idle_limit(after: int) -> None:
    """Silence ends when the limit says so, with what came before."""
    reply = Reply("aabbcc", chunk_size=2, stall_after=after)
    message = await ask(scripted(reply), limits=Limits(idle=0.05))
    assert message.text == "aabbcc"[: 2 * after]
    assert message.error_cause is not None
    assert message.error_cause.kind == "timeout_idle"


@on_every_loop
async def test_a_stall_ends_by_abort() -> None:
    """Another task aborts; the reader gets the end of the open block and the aborted terminal."""
    seen: list[Event] = []
    async with (
        Client(providers=[scripted(Reply("aabbcc", chunk_size=2, stall_after=2))]) as client,
        client.stream("scripted", "hi") as stream,
        anyio.create_task_group() as tasks,
    ):

        async def read() -> None:
            async for event in stream:
                seen.append(event)

        tasks.start_soon(read)
        await anyio.wait_all_tasks_blocked()
        stream.abort("enough")
    message = check_events(seen)
    assert (message.text, message.stop_reason, message.error_message) == ("aabb", "aborted", "enough")
    assert types(seen)[-2:] == ["text_end", "error"]


@on_every_loop
async def test_a_stall_ends_by_cancellation() -> None:
    """Cancelling the reader ends the message where it stands."""
    async with Client(providers=[scripted(Reply("aabbcc", chunk_size=2, stall_after=1))]) as client:
        stream = client.stream("scripted", "hi")
        with anyio.move_on_after(0.05) as scope:
            await stream.result()
        assert scope.cancelled_caught
    assert (stream.message.text, stream.message.stop_reason) == ("aa", "aborted")


@on_every_loop
async def test_a_stream_without_pauses_lets_others_run() -> None:
    """Between two pieces other tasks have their turn, so a long answer can be cancelled."""
    async with Client(providers=[scripted(Reply("x" * 10_000, chunk_size=1))]) as client:
        stream = client.stream("scripted", "hi")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stream.result)
            for _ in range(5):
                await checkpoint()
            stream.abort()
    assert stream.message.stop_reason == "aborted"
    assert len(stream.message.text) < 10_000


@on_every_loop
async def test_pieces_are_paced() -> None:
    """`first_delay` comes before anything, `delay` between pieces; both count as waiting."""
    message = await ask(scripted(Reply("aabb", chunk_size=2, first_delay=30)), limits=Limits(idle=0.05))
    assert (message.content, message.error_cause and message.error_cause.kind) == ([], "timeout_idle")
    message = await ask(scripted(Reply("aabb", chunk_size=2, delay=30)), limits=Limits(idle=0.05))
    assert (message.text, message.error_cause and message.error_cause.kind) == ("aa", "timeout_idle")
    message = await ask(scripted("aabb", chunk_size=2, delay=0.001, first_delay=0.001))
    assert (message.text, message.stop_reason) == ("aabb", "stop")


@pytest.mark.parametrize(
    "wrong",
    [
        {"chunk_size": 0},
        {"delay": -1},
        {"first_delay": -0.1},
        {"fail_after": -1},
        {"fail_after": 1, "stall_after": 1},
        {"content": "text", "events": [Finish("stop")]},
    ],
)
def test_a_reply_that_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    """Mistakes in a script show where it is written."""
    with pytest.raises(ConfigError, match="Reply"):
        Reply(**wrong)


# --- leaving ------------------------------------------------------------------------------------------------------------


async def leave_by_break(stream: Any) -> None:
    async with stream:
        async for event in stream:
            if event.type == "text_delta":
                break


async def leave_by_aclose(stream: Any) -> None:
    await anext(stream)
    await stream.aclose()


async def leave_by_exception(stream: Any) -> None:
    with pytest.raises(ZeroDivisionError):
        async with stream:
            async for _ in stream:
                raise ZeroDivisionError


async def leave_by_abort(stream: Any) -> None:
    async with stream:
        async for _ in stream:
            stream.abort()


async def leave_by_cancellation(stream: Any) -> None:
    with anyio.CancelScope() as scope:
        async with stream:
            async for event in stream:
                if event.type == "text_delta":
                    scope.cancel()


WAYS = [leave_by_break, leave_by_aclose, leave_by_exception, leave_by_abort, leave_by_cancellation]


@on_every_loop
@pytest.mark.parametrize("leave", WAYS)
async def test_streams_left_early_leave_nothing(leave: Callable[[Any], Any]) -> None:
    """Two hundred streams for each of five ways out: every generator is closed on the spot, and nothing warns."""
    async with Client(providers=[scripted(default="some text that takes several pieces to send")]) as client:
        streams = [client.stream("scripted", "hi") for _ in range(200)]
        for stream in streams:
            await leave(stream)
        assert {stream.message.stop_reason for stream in streams} == {"aborted"}
        assert open_generators() == 0
    del stream, streams
    gc.collect()


def open_generators() -> int:
    """Answers that are being played: started, and neither over nor closed."""
    generators = [one for one in gc.get_objects() if isinstance(one, AsyncGeneratorType)]
    return len([one for one in generators if one.ag_code is play.__code__ and one.ag_frame is not None])


# --- any script ---------------------------------------------------------------------------------------------------------

some_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
some_blocks = st.lists(
    st.builds(TextContent, st.text(min_size=1, max_size=20))
    | st.builds(ThinkingContent, st.text(max_size=20), thinking_signature=st.text(min_size=1, max_size=5))
    | st.builds(
        ToolCall,
        st.text(max_size=5),
        st.text(min_size=1, max_size=5),
        st.dictionaries(st.text(max_size=4), some_json, max_size=3),
        thought_signature=st.none() | st.text(min_size=1, max_size=5),
    ),
    max_size=5,
)


@given(
    blocks=some_blocks,
    chunk_size=st.integers(1, 20),
    interleave=st.booleans(),
    accident=st.sampled_from([None, "fail_after", "truncate_after"]),
    after=st.integers(0, 10),
)
def test_any_script_keeps_the_guarantees(
    blocks: list[Any], chunk_size: int, interleave: bool, accident: str | None, after: int
) -> None:
    """However a script is cut, mixed and broken off: the guarantees hold, and a whole one gives its content back."""
    cut = {accident: after} if accident else {}
    reply = Reply(deepcopy(blocks), chunk_size=chunk_size, interleave=interleave, **cut)
    message = anyio.run(ask, scripted(reply))
    if accident:
        assert message.stop_reason == "error"
        assert len(message.content) <= len(blocks)
    else:
        assert message.content == blocks
        assert message.stop_reason == ("toolUse" if message.tool_calls else "stop")
