"""Generated Chat Completions streams: what is put in comes out, and nothing that is put in breaks a guarantee."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from attrs import define, field
from chat_answers import API, DONE, MODEL, chunk, deltas, events_of, frame, piece, pipeline_of, stream
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pi_stream.apis.base import TranslatorSetup
from pi_stream.apis.openai_completions.response import ChatTranslator
from pi_stream.events import Draft, Event
from pi_stream.messages import AssistantMessage, TextContent, ThinkingContent, ToolCall
from pi_stream.reducer import fold
from pi_stream.testing import check_events

# --- answers whose message is known -------------------------------------------------------------------------------------

Chunk = dict[str, Any]
words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
scalars = st.none() | st.booleans() | st.integers(-99, 99) | words
arguments = st.dictionaries(words, scalars | st.lists(scalars, max_size=2), max_size=3)
names = st.sampled_from(["f", "get_weather", "f2"])
REASONING = ["reasoning_content", "reasoning", "reasoning_text"]


@define
class Answer:
    """Chunks, and the message they must become."""

    chunks: list[Chunk] = field(factory=list)
    content: list[Any] = field(factory=list)
    usage: tuple[int, int] = (0, 0)
    calls: int = 0
    reason: str = "stop"
    raw: str = "stop"

    def say(self, kind: type, text: str, signature: str | None = None) -> None:
        """Expect text or thinking: more of the last block, or a new one."""
        last = self.content[-1] if self.content else None
        if isinstance(last, TextContent) and kind is TextContent:
            last.text += text
        elif isinstance(last, ThinkingContent) and kind is ThinkingContent:
            last.thinking += text
        elif kind is TextContent:
            self.content.append(TextContent(text))
        else:
            self.content.append(ThinkingContent(text, thinking_signature=signature))

    def made_up(self) -> str:
        return f"call_r1_{self.calls}"


@st.composite
def cut_up(draw: st.DrawFn, text: str) -> list[str]:
    """A text in pieces."""
    places = sorted(draw(st.sets(st.integers(1, max(1, len(text) - 1)), max_size=4)))
    return [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]


@st.composite
def fragments(draw: st.DrawFn, style: str, index: int, id: str, name: str, text: str) -> list[dict[str, Any]]:
    """One call in pieces, as a server of this style sends it."""
    first: dict[str, Any] = {"index": index, "id": id, "type": "function"}
    keys: dict[str, dict[str, Any]] = {
        "by index": {"index": index},
        "all at index 0": {"index": 0},
        "by id": {"id": id},
        "by nothing": {},
        "null index": {"index": None},
    }
    pieces = draw(cut_up(text))
    if style == "everything repeated":
        return [piece(each, **first, name=name) for each in pieces]
    if style == "name repeated empty":
        return [piece(pieces[0], **first, name=name)] + [
            piece(each, index=index, id="", name="") for each in pieces[1:]
        ]
    if style == "name in pieces":
        said = [piece("", index=index, id=id, name=each) for each in draw(cut_up(name)) if each]
        return said + [piece(each, index=index) for each in pieces]
    if style == "name late":
        # An index and an id announce the call.
        at = draw(st.integers(1, len(pieces)))
        said = [piece(pieces[0], index=index, id=id)] + [piece(each, index=index) for each in pieces[1:]]
        return [*said[:at], piece("", index=index, name=name), *said[at:]]
    if style == "id changes":
        return [piece("", **first, name=name)] + [piece(each, index=index, id=f"{id}?") for each in pieces]
    if style == "whole":
        return [piece(json.loads(text) if draw(st.booleans()) else text, name=name)]
    start = {key: value for key, value in first.items() if key != "index"} | keys[style]
    return [piece(pieces[0], **start | {"id": id}, name=name)] + [
        piece(each, **keys[style]) for each in pieces[1:]
    ]


INTERLEAVED = ["by index", "by id", "everything repeated", "name repeated empty"]
IN_TURN = ["all at index 0", "by nothing", "null index", "name in pieces", "name late", "id changes", "whole"]


@st.composite
def groups_of_calls(draw: st.DrawFn, answer: Answer) -> None:
    """Some parallel calls, all in one style."""
    style = draw(st.sampled_from(INTERLEAVED + IN_TURN))
    sent: list[list[dict[str, Any]]] = []
    for _ in range(draw(st.integers(1, 3))):
        name, wanted = draw(names), draw(arguments)
        text = json.dumps(wanted, ensure_ascii=draw(st.booleans()), indent=draw(st.sampled_from([None, 1])))
        if not wanted and style not in ("name late", "whole") and draw(st.booleans()):
            text = ""
        index = answer.calls + 1
        id = answer.made_up() if style == "whole" else f"id_{index}"
        answer.content.append(ToolCall(id, name, wanted))
        answer.calls += 1
        sent.append(draw(fragments(style, index, id, name, text)))
    if style in INTERLEAVED:
        # The first pieces stay in their order: it is the order of the calls.
        order = draw(st.permutations([at for at, each in enumerate(sent) for _ in each[1:]]))
        line = [each[0] for each in sent]
        rest = [iter(each[1:]) for each in sent]
        line += [next(rest[at]) for at in order]
    else:
        line = [each for call in sent for each in call]
    while line:
        # Pieces without an index are told apart by their place only when each chunk has one.
        some = 1 if style in ("by id", "by nothing", "null index", "whole") else draw(st.integers(1, 3))
        answer.chunks.append(chunk({"tool_calls": line[:some]}))
        line = line[some:]


@st.composite
def answers(draw: st.DrawFn) -> Answer:
    """An answer of any content, with the noise that servers make around it."""
    answer = Answer()
    if draw(st.booleans()):
        answer.chunks.append(chunk({"role": "assistant", "content": ""}))
    for _ in range(draw(st.integers(0, 5))):
        kind = draw(st.sampled_from(["text", "text", "thinking", "calls", "noise"]))
        if kind == "text":
            for text in draw(st.lists(words, min_size=1, max_size=4)):
                answer.chunks.append(
                    chunk(draw(st.sampled_from([{}, {"role": "assistant"}])) | {"content": text})
                )
                answer.say(TextContent, text)
        elif kind == "thinking":
            name = draw(st.sampled_from(REASONING))
            for text in draw(st.lists(words, min_size=1, max_size=3)):
                answer.chunks.append(chunk({"content": draw(st.sampled_from([None, ""])), name: text}))
                answer.say(ThinkingContent, text, name)
        elif kind == "calls":
            draw(groups_of_calls(answer))
        else:
            answer.chunks.append(draw(noise()))
    draw(ends(answer))
    return answer


@st.composite
def noise(draw: st.DrawFn) -> Chunk:
    """A chunk that says nothing about the answer."""
    other = {"index": 1, "delta": {"content": "other"}, "finish_reason": "length"}
    return draw(
        st.sampled_from(
            [
                {"id": "r1", "choices": []},
                {},
                chunk({}),
                chunk({"content": "", "tool_calls": [], "reasoning_content": None, "reasoning_details": []}),
                {"id": "r1", "model": "m", "choices": [other]},
                {"id": "r1", "choices": [{"index": 0, "finish_reason": ""}], "usage": None},
            ]
        )
    )


@st.composite
def ends(draw: st.DrawFn, answer: Answer) -> None:
    """The stop reason and the usage, in one of the places where servers put it."""
    last = answer.content[-1] if answer.content else None
    answer.raw = draw(st.sampled_from(["stop", "length", "tool_calls", "eos"]))
    if answer.raw == "length" and isinstance(last, ToolCall):
        answer.raw = "stop"  # the last call would count as cut
    if answer.raw == "tool_calls" and not answer.content:
        answer.raw = "stop"  # an error
    answer.reason = "length" if answer.raw == "length" else "toolUse" if answer.calls else "stop"
    finish = chunk(finish=answer.raw)
    answer.chunks.append(finish)
    place = draw(st.sampled_from(["none", "with reason", "after", "running", "in choice", "x_groq"]))
    if place != "none":
        answer.usage = draw(st.tuples(st.integers(0, 99), st.integers(0, 99)))
    counts = {"prompt_tokens": answer.usage[0], "completion_tokens": answer.usage[1]}
    if place == "with reason":
        finish["usage"] = counts
    elif place == "after":
        answer.chunks.append({"id": "r1", "choices": [], "usage": counts})
    elif place == "running":
        for at, each in enumerate(answer.chunks):
            each["usage"] = {"prompt_tokens": answer.usage[0], "completion_tokens": at}
        finish["usage"] = counts
    elif place == "in choice":
        finish["choices"][0]["usage"] = counts
    elif place == "x_groq":
        finish["x_groq"] = {"usage": counts}


@st.composite
def bodies(draw: st.DrawFn, answer: Answer) -> bytes:
    """The bytes of an answer, with keep-alives, other fields, and line ends of any kind."""
    parts: list[bytes] = []
    for each in answer.chunks:
        if draw(st.integers(0, 5)) == 0:
            parts.append(draw(st.sampled_from([b": ping\n\n", b"\n", b"event: x\n", b"retry: 9\nid: 1\n"])))
        parts.append(frame(each))
    ended = answer.chunks[-1].get("usage") and not answer.chunks[-1]["choices"]
    parts.append(draw(st.sampled_from([DONE, b"", DONE[:-2], DONE + b": bye\n\n"])) if not ended else DONE)
    body = b"".join(parts)
    if draw(st.booleans()):
        body = body.replace(b"data: ", b"data:")
    return body.replace(b"\n", draw(st.sampled_from([b"\n", b"\r\n", b"\r"])))


def final(events: list[Event]) -> AssistantMessage:
    return check_events(events)


cuts = st.integers(1, 200)


@given(data=st.data(), answer=answers(), cut=cuts)
def test_the_message_is_what_was_sent(data: st.DataObject, answer: Answer, cut: int) -> None:
    """Whatever its style, an answer becomes its message, keeps the guarantees, and no cut changes an event."""
    body = data.draw(bodies(answer))
    events = events_of(body)
    message = final(events)
    assert message.content == answer.content
    assert (message.stop_reason, message.raw_stop_reason) == (answer.reason, answer.raw)
    assert (message.usage.input, message.usage.output) == answer.usage
    assert events_of(body, cut) == events


@given(data=st.data(), answer=answers())
def test_a_prefix_is_a_failure_or_the_whole_answer(data: st.DataObject, answer: Answer) -> None:
    """Cut off before the stop reason it is an error that keeps what came; after it, it is the answer."""
    body = data.draw(bodies(answer))
    whole = events_of(body)
    prefix = body[: data.draw(st.integers(0, len(body)), label="prefix")]
    message = final(events_of(prefix))
    streamed = deltas(events_of(prefix))
    assert streamed == deltas(whole)[: len(streamed)]
    if message.stop_reason == "error":
        assert message.error_cause is not None
        assert message.error_cause.kind == "truncated"
        assert message.raw_stop_reason is None
    else:
        assert (message.stop_reason, message.content) == (answer.reason, answer.content)


@given(answers())
def test_every_step_folds_into_the_message(answer: Answer) -> None:
    """The fold of the events so far is pending, and grows towards the message."""
    events = events_of(stream(*answer.chunks))
    for end in range(1, len(events)):
        message = fold(events[:end])
        assert message.stop_reason == "pending"
        assert [block.type for block in message.content] == [
            block.type for block in answer.content[: len(message.content)]
        ]
    assert fold(events) == final(events)


class LongPath(ChatTranslator):
    """A translator without its fast path."""

    def translate(self, chunks: list[Any], out: list[Draft]) -> int:
        for position, each in enumerate(chunks, 1):
            self._chunk(each, out)
            if self.ended:
                return position
        return len(chunks)


def drafts_of(make: Callable[[TranslatorSetup], ChatTranslator], chunks: list[Any]) -> list[Draft]:
    out: list[Draft] = []
    translator = make(TranslatorSetup(model=MODEL))
    translator.translate(chunks, out)
    if translator.complete:
        translator.finish(out)
    return out


@given(answers())
def test_the_fast_path_changes_nothing(answer: Answer) -> None:
    assert drafts_of(ChatTranslator, answer.chunks) == drafts_of(LongPath, answer.chunks)


# --- anything at all ----------------------------------------------------------------------------------------------------

_KEYS = """
id model choices index delta message content role reasoning reasoning_content reasoning_details type text summary data
signature refusal tool_calls function_call function custom name arguments input finish_reason usage prompt_tokens
completion_tokens total_tokens prompt_tokens_details cached_tokens completion_tokens_details reasoning_tokens cost
x_groq error code citations annotations object thinking
"""
KEYS = _KEYS.split()
VALUES: list[Any] = [
    *(
        "",
        "x",
        "stop",
        "length",
        "tool_calls",
        "error",
        "reasoning.text",
        "reasoning.encrypted",
        "thinking",
        "{}",
        '{"a":',
        "}",
    ),
    *(None, True, False, 0, 1, -1, 0.5, 10**30, [], {}),
]
anything = st.recursive(
    st.sampled_from(VALUES) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=12,
)
fragment_like = st.fixed_dictionaries(
    {},
    optional={"index": anything, "id": anything, "function": anything, "custom": anything, "name": anything},
) | st.builds(
    piece,
    st.sampled_from(["", "{", '{"a":1}', "}", '"x"', None]),
    name=st.sampled_from(["f", "g", "", None]),
    index=st.sampled_from([0, 1, None]),
    id=st.sampled_from(["a", "b", "", None]),
)
delta_like = st.fixed_dictionaries(
    {},
    optional={
        "content": st.sampled_from(["a", "b", "", None]) | anything,
        "reasoning": st.sampled_from(["a", ""]) | anything,
        "reasoning_details": st.lists(anything, max_size=2) | anything,
        "tool_calls": st.lists(fragment_like, max_size=3) | anything,
        "function_call": anything,
        "refusal": anything,
        "images": anything,
    },
)
choice_like = st.fixed_dictionaries(
    {},
    optional={
        "index": st.sampled_from([0, 1, None]) | anything,
        "delta": delta_like | anything,
        "message": delta_like | anything,
        "finish_reason": st.sampled_from(["", None, "stop", "length", "odd"]) | anything,
        "usage": anything,
        "error": anything,
    },
)
chunk_like = st.fixed_dictionaries(
    {},
    optional={
        "id": st.just("r") | anything,
        "model": st.just("m") | anything,
        "choices": st.lists(choice_like, max_size=2) | anything,
        "usage": anything,
        "error": st.none() | anything,
        "x_groq": anything,
        "citations": anything,
        "object": anything,
    },
)
hostile = st.lists(chunk_like | chunk_like | anything, max_size=6)


@settings(max_examples=300)
@given(hostile, cuts, st.sampled_from(["strict", "lenient"]), st.booleans())
def test_no_json_breaks_a_guarantee(chunks: list[Any], cut: int, malformed: str, done: bool) -> None:
    """Any JSON in any place: one terminal event, the guarantees kept, the same events however it is cut."""
    body = stream(*chunks, done=done)
    events = events_of(body, malformed=malformed)
    final(events)
    assert events_of(body, cut, malformed=malformed) == events


@given(hostile)
def test_the_fast_path_is_no_way_around_for_odd_chunks(chunks: list[Any]) -> None:
    """After a chunk of text, when the fast path is open, the next chunks mean the same on either path."""
    chunks = [chunk({"content": "a"}), *chunks, chunk({"content": "b"})]
    assert drafts_of(ChatTranslator, chunks) == drafts_of(LongPath, chunks)


@st.composite
def alike(draw: st.DrawFn) -> list[Chunk]:
    """Chunks of text with the same keys each, of which any may have a value all at once."""
    values = {
        "id": ["r1", "", None],
        "model": ["m", "m2", None],
        "usage": [None, {}, {"prompt_tokens": 3}],
        "error": [None, {"message": "gone"}],
        "x_groq": [None, {"usage": {"prompt_tokens": 4}}, {"error": "gone"}],
        "citations": [None, ["a"], ["b"]],
        "created": [1, 2],
    }
    in_choice = {
        "index": [0, 0, None, 1],
        "finish_reason": [None, None, "", "stop"],
        "message": [None, {"content": "ab"}, {"content": "abc"}],
        "usage": [None, {"prompt_tokens": 5}],
        "error": [None, "gone"],
        "logprobs": [None, {}],
    }
    top = draw(st.sets(st.sampled_from(sorted(values))))
    inner = draw(st.sets(st.sampled_from(sorted(in_choice))))
    chunks: list[Chunk] = []
    for _ in range(draw(st.integers(2, 6))):
        usual = draw(st.booleans())
        pick = (lambda options: options[0]) if usual else (lambda options: draw(st.sampled_from(options)))
        delta = {"content": draw(st.sampled_from(["a", "b", "c", "", None]))}
        if draw(st.booleans()):
            delta["role"] = "assistant"
        choice = {"delta": delta, **{key: pick(in_choice[key]) for key in sorted(inner)}}
        chunks.append({"choices": [choice], **{key: pick(values[key]) for key in sorted(top)}})
    return chunks


@given(alike())
def test_the_fast_path_misses_nothing_in_chunks_that_look_alike(chunks: list[Chunk]) -> None:
    assert drafts_of(ChatTranslator, chunks) == drafts_of(LongPath, chunks)


@given(anything | chunk_like, cuts, st.sampled_from([200, 200, 204, 400, 429, 500]))
def test_no_whole_body_breaks_a_guarantee(value: Any, cut: int, status: int) -> None:
    """A body that is one JSON value ends in one event or is an answer, with any status."""
    body = json.dumps(value).encode()
    events = events_of(body, status=status)
    message = final(events)
    assert events_of(body, cut, status=status) == events
    if status >= 400:
        assert [event.type for event in events] == ["error"]
        assert message.error_cause is not None
        assert message.error_cause.status == status


MARKS = [
    b"data: ",
    b"data:",
    b"\n",
    b"\r",
    b"\n\n",
    b"{",
    b"}",
    b"[",
    b"]",
    b"[DONE]",
    b"<",
    b"\xef\xbb\xbf",
    b"\xff",
    b'"',
    b":",
]
MARKS += [
    frame(chunk({"content": "x"})),
    frame(chunk(finish="stop")),
    DONE,
    b'{"error":"x"}',
    b"\x00",
    b"\xf0\x9f",
]


@settings(max_examples=300)
@given(st.lists(st.sampled_from(MARKS) | st.binary(max_size=4), max_size=12).map(b"".join), cuts)
@example(b"\xef\xbb", 1)
@example(b"\xef\xbb\xbf\n\xef\xbb\xbf", 1)
@example(b" " * 300 + b"{}", 7)
def test_no_bytes_break_a_guarantee(body: bytes, cut: int) -> None:
    """Arbitrary bytes end in exactly one terminal event, the same however they are cut."""
    for setup in ({}, {"malformed": "lenient"}, {"status": 500}):
        events = events_of(body, **setup)
        final(events)
        assert events_of(body, cut, **setup) == events


@given(
    hostile, st.sampled_from(["transport", "timeout_idle", "timeout_total", "drain", "cancelled"]), st.data()
)
def test_no_way_of_breaking_off_breaks_a_guarantee(chunks: list[Any], kind: str, data: st.DataObject) -> None:
    """Wherever the connection is lost, a limit passes or the caller leaves: one terminal event, all blocks ended."""
    body = stream(*chunks)
    pipeline = pipeline_of()
    events = pipeline.feed(body[: data.draw(st.integers(0, len(body)))])
    final(events + pipeline.fail(kind, "over"))


@pytest.mark.parametrize("deep", ['{"a":', "[", '{"content":['])
@pytest.mark.parametrize(
    "where", ["usage", "error", "content", "arguments", "reasoning_details", "id", "chunk"]
)
@pytest.mark.parametrize("depth", [400, 900, 100_000])
def test_nesting_without_end(deep: str, where: str, depth: int) -> None:
    """JSON nested deeper than any code can walk is at worst an error of its stream."""
    close = {"{": "}", "[": "]"}
    value = (
        deep * depth + "1" + "".join(close[letter] for letter in reversed(deep) if letter in close) * depth
    )
    entry = f'[{{"type":"reasoning.text","text":"x","deep":{value}}}]'
    deltas = {
        "content": f'{{"content":{value}}}',
        "arguments": f'{{"tool_calls":[{{"function":{{"name":"f","arguments":{value}}}}}]}}',
        "reasoning_details": f'{{"reasoning_details":{entry}}}',
    }
    top = f'"{where}":{value},' if where in ("usage", "error", "id") else ""
    payload = f'{{{top}"choices":[{{"delta":{deltas.get(where, "{}")},"finish_reason":"stop"}}]}}'
    body = b"data: " + (value if where == "chunk" else payload).encode() + b"\n\n" + DONE
    message = final(events_of(body))
    assert message.api == API
