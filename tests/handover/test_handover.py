"""Hand-over, rule by rule: what changes on the way to a model, and what the report says of it."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from pi_stream.exceptions import ConfigError
from pi_stream.handover import Change, Handover, HandoverPolicy, IdRule, hand_over
from pi_stream.messages import (
    AssistantMessage,
    Content,
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
)
from pi_stream.models import Model
from pi_stream.serialization import from_json, to_json

TARGET = Model(id="m", provider="p", api="anthropic-messages", input=("text", "image"))
BLIND = evolve(TARGET, input=("text",))
ASK, AGAIN = UserMessage("ask", timestamp=1), UserMessage("again", timestamp=9)
CALL = ToolCall("c1", "add", {"a": 1})
IMAGE = ImageContent("aGk=", "image/png")
HALF = 'not JSON\n\n{"a": '


def own(*content: Content, stop: str = "toolUse", **fields: Any) -> AssistantMessage:
    """An answer of the target itself."""
    fields = {"provider": "p", "api": "anthropic-messages", "model": "m", "timestamp": 5, **fields}
    return AssistantMessage(list(content), stop_reason=stop, **fields)  # type: ignore[arg-type]


def foreign(*content: Content, **fields: Any) -> AssistantMessage:
    """An answer of another model."""
    return own(*content, **{"provider": "q", **fields})


def result(id: str = "c1", text: str = "2", name: str = "add", **fields: Any) -> ToolResultMessage:
    return ToolResultMessage(id, name, [TextContent(text)], timestamp=6, **fields)


def changes(handover: Handover) -> list[tuple[str, int, int | None]]:
    return [(change.what, change.message, change.block) for change in handover.changes]


def test_a_history_that_fits_is_handed_over_as_it_is() -> None:
    """No copies, no changes: thinking, signatures and provider data of the same model included."""
    data = ProviderData(after=1, api="anthropic-messages", provider="p", model="m", data={"type": "x"})
    answer = own(
        ThinkingContent("", thinking_signature="sig"),
        ThinkingContent("[redacted]", thinking_signature="blob", redacted=True),
        ThinkingContent("not signed"),
        TextContent("t", text_signature="ts"),
        ToolCall("c1", "add", {"a": 1}, thought_signature="s", namespace="n"),
        provider_data=[data],
    )
    messages: list[Message] = [SystemMessage("s"), ASK, answer, result(), AGAIN]
    handover = hand_over(messages, TARGET)
    assert handover.changes == []
    assert all(new is old for new, old in zip(handover.messages, messages, strict=True))


# --- thinking and signatures ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "content"),
    [
        ("drop", [TextContent("t")]),
        ("text", [TextContent("why"), TextContent("t")]),
        ("tag", [TextContent("<thinking>\nwhy\n</thinking>"), TextContent("t")]),
    ],
)
@pytest.mark.parametrize("other", [{"provider": "q"}, {"api": "openai-completions"}, {"model": "m2"}])
def test_thinking_of_another_model_is_dropped_or_becomes_text(
    policy: Any, content: list[Content], other: dict[str, str]
) -> None:
    """Another provider, api or model each makes it another's."""
    answer = own(ThinkingContent("why", thinking_signature="sig"), TextContent("t"), stop="stop", **other)
    handover = hand_over([ASK, answer], TARGET, HandoverPolicy(thinking=policy))
    assert handover.messages == [ASK, evolve(answer, content=content)]
    assert changes(handover) == [("thinking_dropped" if policy == "drop" else "thinking_to_text", 1, 0)]


@pytest.mark.parametrize("policy", ["drop", "text", "tag"])
def test_redacted_and_blank_thinking_goes_to_no_other_model(policy: Any) -> None:
    """Nobody else can read the payload, and the placeholder is not what was thought."""
    redacted = ThinkingContent("[redacted]", thinking_signature="blob", redacted=True)
    answer = foreign(redacted, ThinkingContent(" \n"), TextContent("t"), stop="stop")
    handover = hand_over([answer, ASK], TARGET, HandoverPolicy(thinking=policy))
    assert handover.messages == [evolve(answer, content=[TextContent("t")]), ASK]
    assert changes(handover) == [("thinking_dropped", 0, 0), ("thinking_dropped", 0, 1)]


def test_signatures_of_another_model_are_dropped() -> None:
    """Texts and calls stay, without what only the other model can read."""
    answer = foreign(
        TextContent("t", text_signature="ts"),
        ToolCall("c1", "add", {"a": 1}, thought_signature="s", namespace="n"),
    )
    handover = hand_over([ASK, answer, result()], TARGET)
    assert handover.messages[1] == foreign(TextContent("t"), CALL)
    assert changes(handover) == [("signature_dropped", 1, 0), ("signature_dropped", 1, 1)]


def test_an_answer_of_thinking_alone_disappears_for_another_model() -> None:
    """Nothing is left that could be sent."""
    handover = hand_over([ASK, foreign(ThinkingContent("hm"), stop="stop"), AGAIN], TARGET)
    assert handover.messages == [ASK, AGAIN]
    assert changes(handover) == [("turn_dropped", 1, None), ("thinking_dropped", 1, 0)]


def test_provider_data_goes_back_to_its_own_model_only() -> None:
    """Its place is counted anew when a block before it is dropped."""
    data = ProviderData(after=2, api="anthropic-messages", provider="p", model="m", data=1)
    of_another = evolve(data, model="m2")
    answer = own(TextContent(" "), TextContent("t"), stop="stop", provider_data=[data, of_another])
    handover = hand_over([ASK, answer], TARGET)
    assert handover.messages[1].provider_data == [evolve(data, after=1)]  # type: ignore[union-attr]
    assert changes(handover) == [("provider_data_dropped", 1, None), ("text_dropped", 1, 0)]
    handover = hand_over([ASK, evolve(answer, provider="q")], TARGET)
    assert handover.messages[1].provider_data is None  # type: ignore[union-attr]


@pytest.mark.parametrize("stop", ["aborted", "error"])
def test_provider_data_of_a_broken_answer_is_dropped(stop: str) -> None:
    """The other half, such as the result of a server's tool, may be missing."""
    data = ProviderData(after=0, api="anthropic-messages", provider="p", model="m", data=1)
    handover = hand_over([own(TextContent("t"), stop=stop, provider_data=[data]), ASK], TARGET)
    assert handover.messages == [own(TextContent("t"), stop=stop), ASK]
    assert changes(handover) == [("provider_data_dropped", 0, None)]


def test_provider_data_about_a_dropped_call_goes_with_it() -> None:
    """Behind the block before it, it would say something of that one."""
    data = ProviderData(after=2, api="anthropic-messages", provider="p", model="m", data={"type": "tool_use"})
    cut = own(TextContent("t"), ToolCall("c", "add", {}), stop="length", provider_data=[data])
    handover = hand_over([ASK, cut, AGAIN], TARGET)
    assert handover.messages == [ASK, own(TextContent("t"), stop="length"), AGAIN]
    assert changes(handover) == [("provider_data_dropped", 1, None), ("call_dropped", 1, 1)]


# --- broken turns and half calls --------------------------------------------------------------------------------------


@pytest.mark.parametrize("stop", ["aborted", "error"])
@pytest.mark.parametrize("make", [own, foreign])
def test_a_broken_turn_keeps_its_text_and_finished_calls(stop: str, make: Any) -> None:
    """The user saw them; the half call goes, with the result that says it was aborted."""
    answer = make(TextContent("so far"), CALL, ToolCall("c2", "add", {}, arguments_error=HALF), stop=stop)
    handover = hand_over([ASK, answer, result(), result("c2", "aborted"), AGAIN], TARGET)
    assert handover.messages == [ASK, evolve(answer, content=[TextContent("so far"), CALL]), result(), AGAIN]
    assert changes(handover) == [("call_dropped", 1, 2), ("result_dropped", 3, None)]


@pytest.mark.parametrize("stop", ["aborted", "error"])
def test_broken_turns_can_be_dropped_whole(stop: str) -> None:
    """With the results of their calls."""
    messages: list[Message] = [ASK, own(TextContent("so far"), CALL, stop=stop), result(), AGAIN]
    handover = hand_over(messages, TARGET, HandoverPolicy(broken_turns="drop"))
    assert handover.messages == [ASK, AGAIN]
    assert changes(handover) == [("turn_dropped", 1, None), ("result_dropped", 2, None)]


@pytest.mark.parametrize("stop", ["aborted", "error", "length"])
def test_thinking_at_the_end_of_a_cut_answer_is_dropped(stop: str) -> None:
    """What it led to never came, and providers refuse an answer that ends with thinking."""
    thought = ThinkingContent("hm", thinking_signature="sig")
    answer = own(TextContent("t"), thought, ToolCall("c", "add", {}, arguments_error=HALF), stop=stop)
    assert hand_over([answer, ASK], TARGET).messages == [own(TextContent("t"), stop=stop), ASK]
    assert hand_over([own(thought, stop=stop), ASK], TARGET).messages == [ASK]


def test_unsigned_thinking_of_a_broken_answer_is_dropped() -> None:
    """It was cut before its signature came, and cannot be given back."""
    answer = own(ThinkingContent("hm"), TextContent("t"), stop="aborted")
    assert hand_over([answer, ASK], TARGET).messages == [own(TextContent("t"), stop="aborted"), ASK]


@pytest.mark.parametrize("stop", ["aborted", "error", "length"])
def test_a_last_call_without_arguments_may_never_have_begun(stop: str) -> None:
    """Cut right after its name, it looks like a call of a tool without parameters. One with a result was made."""
    answer = own(TextContent("t"), ToolCall("c1", "now", {}), stop=stop)
    assert hand_over([ASK, answer, AGAIN], TARGET).messages[1] == own(TextContent("t"), stop=stop)
    messages: list[Message] = [ASK, answer, result(name="now"), AGAIN]
    assert hand_over(messages, TARGET).messages == messages


@pytest.mark.parametrize("stop", ["toolUse", "stop", "length"])
def test_a_malformed_call_is_kept_if_its_result_tells_the_model(stop: str) -> None:
    """Else the model would make the same mistake again; without a result it is dropped."""
    answer = own(TextContent("t"), ToolCall("c1", "add", {}, arguments_error=HALF), stop=stop)
    told = result(text="the arguments are no JSON", is_error=True)
    messages: list[Message] = [ASK, answer, told]
    assert hand_over(messages, TARGET) == Handover(messages, [])
    without = [ASK, own(TextContent("t"), stop=stop)]
    assert hand_over([ASK, answer], TARGET).messages == without
    assert hand_over(messages, TARGET, HandoverPolicy(malformed_calls="drop")).messages == without


@pytest.mark.parametrize("stop", ["aborted", "error"])
def test_a_broken_answer_that_nothing_follows_is_asked_for_anew(stop: str) -> None:
    """Some providers refuse a history that ends with an answer. System messages are no turn."""
    broken = own(TextContent("so far"), stop=stop)
    handover = hand_over([ASK, broken, broken, SystemMessage("s", timestamp=7)], TARGET)
    assert handover.messages == [ASK, SystemMessage("s", timestamp=7)]
    assert changes(handover) == [("turn_dropped", 1, None), ("turn_dropped", 2, None)]


@pytest.mark.parametrize("stop", ["stop", "length", "pending"])
def test_a_last_answer_that_did_not_break_is_kept(stop: str) -> None:
    """Where a provider can continue an answer, this asks for it."""
    messages: list[Message] = [ASK, own(TextContent("so far"), stop=stop)]
    assert hand_over(messages, TARGET) == Handover(messages, [])


@pytest.mark.parametrize(
    "content", [[], [TextContent("")], [TextContent(" "), TextContent("\n", text_signature="of another")]]
)
def test_answers_that_say_nothing_are_dropped(content: list[Content]) -> None:
    """As those that were aborted before anything came."""
    handover = hand_over([ASK, foreign(*content, stop="stop"), AGAIN], TARGET)
    assert handover.messages == [ASK, AGAIN]
    assert ("turn_dropped", 1, None) in changes(handover)


def test_null_content_of_old_sessions_is_an_empty_answer() -> None:
    """Hand-made messages may have it too."""
    answer = own(stop="stop")
    answer.content = None  # type: ignore[assignment]
    assert hand_over([ASK, answer], TARGET).messages == [ASK]


def test_blank_text_with_a_signature_of_the_model_is_kept() -> None:
    """Gemini wants it back."""
    messages: list[Message] = [ASK, own(TextContent("", text_signature="sig"), stop="stop")]
    assert hand_over(messages, TARGET) == Handover(messages, [])


def test_blocks_of_unknown_types_are_kept() -> None:
    """Who writes the request decides about them."""
    messages: list[Message] = [ASK, foreign(UnknownContent("audio", {"type": "audio"}), stop="stop"), AGAIN]
    assert hand_over(messages, BLIND) == Handover(messages, [])


# --- calls and results ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stop", "words"),
    [
        ("aborted", "the answer was aborted"),
        ("error", "the answer ended with an error"),
        ("length", "cut off at its length limit"),
        ("toolUse", "the call was interrupted."),
    ],
)
def test_a_missing_result_is_added_with_its_cause(stop: str, words: str) -> None:
    """An error result right behind the call; it says what is true, and has no time of its own."""
    handover = hand_over([ASK, own(CALL, stop=stop), AGAIN], TARGET)
    added = handover.messages[2]
    assert isinstance(added, ToolResultMessage)
    assert (added.tool_call_id, added.tool_name, added.is_error, added.timestamp) == ("c1", "add", True, 5)
    assert words in added.content[0].text  # type: ignore[union-attr]
    assert [handover.messages[0], handover.messages[3]] == [ASK, AGAIN]
    assert changes(handover) == [("result_added", 1, 0)]


def test_a_last_call_without_a_result_gets_one_too() -> None:
    """A request may not end with an open call."""
    made = hand_over([ASK, own(CALL)], TARGET).messages
    assert [message.role for message in made] == ["user", "assistant", "toolResult"]


def test_calls_without_results_can_be_dropped_instead() -> None:
    """For those who want nothing invented."""
    messages: list[Message] = [ASK, own(TextContent("t"), CALL), AGAIN]
    handover = hand_over(messages, TARGET, HandoverPolicy(missing_results="drop"))
    assert handover.messages == [ASK, own(TextContent("t")), AGAIN]
    assert changes(handover) == [("call_dropped", 1, 1)]


def test_orphan_and_duplicate_results_are_dropped() -> None:
    """Of two results the first counts; one that comes before its call belongs to none."""
    early, late = result(text="early"), result(text="late")
    handover = hand_over([ASK, early, own(CALL), result(), late, result("c9"), AGAIN], TARGET)
    assert handover.messages == [ASK, own(CALL), result(), AGAIN]
    assert changes(handover) == [
        ("result_dropped", 1, None),
        ("result_dropped", 4, None),
        ("result_dropped", 5, None),
    ]
    assert handover.changes[1].why != handover.changes[2].why


def test_results_stand_right_behind_their_turn_in_the_order_of_the_calls() -> None:
    """What the user said meanwhile comes after them: providers without ids go by the order."""
    calls = own(CALL, ToolCall("c2", "add", {"a": 2}))
    handover = hand_over([ASK, calls, result("c2"), AGAIN, result("c1")], TARGET)
    assert handover.messages == [ASK, calls, result("c1"), result("c2"), AGAIN]
    assert [change for change in changes(handover) if change[0] == "message_moved"] == [
        ("message_moved", 2, None),
        ("message_moved", 4, None),
    ]


def test_each_result_out_of_order_is_reported() -> None:
    """Those that stand before the result of an earlier call."""
    calls = own(*(ToolCall(f"c{n}", "add", {"a": n}) for n in (1, 2, 3)))
    handover = hand_over([calls, result("c2"), result("c3"), result("c1")], TARGET)
    assert handover.messages == [calls, result("c1"), result("c2"), result("c3")]
    assert changes(handover) == [("message_moved", 1, None), ("message_moved", 2, None)]


def test_system_messages_between_a_call_and_its_results_move_behind() -> None:
    """And only those."""
    before, between, behind = (SystemMessage(text, timestamp=1) for text in ("before", "between", "behind"))
    calls = own(CALL, ToolCall("c2", "add", {"a": 2}))
    messages: list[Message] = [before, ASK, calls, result("c1"), between, result("c2"), behind, AGAIN]
    handover = hand_over(messages, TARGET)
    assert handover.messages == [before, ASK, calls, result("c1"), result("c2"), between, behind, AGAIN]
    assert changes(handover) == [("message_moved", 4, None)]


def test_calls_of_different_turns_with_one_id_keep_their_own_results() -> None:
    """Servers that count anew in every answer; the second gets another id, and so does its result."""
    messages: list[Message] = [own(CALL), result(text="first"), own(CALL), result(text="second")]
    handover = hand_over(messages, TARGET)
    first, one, second, two = handover.messages
    assert (first, one) == tuple(messages[:2])
    new_id = second.content[0].id  # type: ignore[union-attr]
    assert new_id != "c1" and two == evolve(messages[3], tool_call_id=new_id)
    assert handover.changes == [
        Change("id_changed", 2, 0, "another call has it", before="c1", after=new_id),
        Change("id_changed", 3, None, "its call has a new id", before="c1", after=new_id),
    ]


def test_calls_of_one_turn_with_one_id_take_their_results_in_order() -> None:
    """The first result is that of the first call."""
    answer = own(CALL, ToolCall("c1", "mul", {"a": 2}))
    made = hand_over([answer, result(text="first"), result(text="second")], TARGET).messages
    texts = [(each.tool_name, each.content[0].text) for each in made[1:]]  # type: ignore[union-attr]
    assert texts == [("add", "first"), ("mul", "second")]


@pytest.mark.parametrize("make", [own, foreign])
def test_ids_are_mapped_alike_for_call_and_result_whoever_made_them(make: Any) -> None:
    """Also those of the same model: a stored session may hold anything."""
    handover = hand_over([make(ToolCall("call:1|fc_1", "add", {"a": 1})), result("call:1|fc_1")], TARGET)
    assert handover.messages == [make(ToolCall("call_1_fc_1", "add", {"a": 1})), result("call_1_fc_1")]
    assert changes(handover) == [("id_changed", 0, 0), ("id_changed", 1, None)]


def test_the_rule_for_ids_can_be_given() -> None:
    """For a protocol of one's own."""
    policy = HandoverPolicy(ids=IdRule(characters="a-z", longest=12, exact=True))
    answer, output = hand_over([own(CALL), result()], TARGET, policy).messages
    id = answer.content[0].id  # type: ignore[union-attr]
    assert id.isalpha() and len(id) == 12 and output.tool_call_id == id  # type: ignore[union-attr]


def test_a_result_bears_the_name_of_its_call() -> None:
    """Gemini and Mistral go by the name."""
    handover = hand_over([own(CALL), result(name="")], TARGET)
    assert handover.messages == [own(CALL), result(name="add")]
    assert handover.changes == [
        Change("result_renamed", 1, None, "its call names another tool", before="", after="add")
    ]


# --- images and text --------------------------------------------------------------------------------------------------


def test_a_run_of_images_becomes_one_line_for_a_model_that_sees_none() -> None:
    """In what users say and in results; text between images parts the runs."""
    said = UserMessage([IMAGE, IMAGE, TextContent("and"), IMAGE], timestamp=1)
    shown = ToolResultMessage("c1", "add", [TextContent("see"), IMAGE, IMAGE], timestamp=2)
    messages: list[Message] = [said, own(CALL), shown]
    omitted = TextContent("(image omitted: model does not support images)")
    tool_omitted = TextContent("(tool image omitted: model does not support images)")
    handover = hand_over(messages, BLIND)
    assert handover.messages == [
        evolve(said, content=[omitted, TextContent("and"), omitted]),
        own(CALL),
        evolve(shown, content=[TextContent("see"), tool_omitted]),
    ]
    assert changes(handover) == [("image_replaced", 0, n) for n in (0, 1, 3)] + [
        ("image_replaced", 2, n) for n in (1, 2)
    ]
    assert hand_over(messages, TARGET) == Handover(messages, [])


def test_lone_surrogates_are_replaced_everywhere() -> None:
    """Texts, sections, tools, thinking and arguments, keys included; split pairs become the character they were."""
    bad, good, pair = "a\ud800", "a\ufffd", "\ud83d\ude00"
    tool = Tool(bad, bad, {"properties": {bad: {}}})
    messages: list[Message] = [
        SystemMessage([TextContent(bad)], sections={bad: bad, "gone": None}, tools_added=[tool], timestamp=1),
        UserMessage(bad, timestamp=1),
        UserMessage([TextContent(pair)], timestamp=1),
        own(
            ThinkingContent(bad, thinking_signature="s"),
            TextContent(bad),
            ToolCall("c1", bad, {bad: [bad, 1, None]}),
        ),
        result(text=bad, name=bad),
    ]
    handover = hand_over(messages, TARGET)
    assert handover.messages == [
        SystemMessage(
            [TextContent(good)],
            sections={good: good, "gone": None},
            tools_added=[Tool(good, good, {"properties": {good: {}}})],
            timestamp=1,
        ),
        UserMessage(good, timestamp=1),
        UserMessage([TextContent("\U0001f600")], timestamp=1),
        own(
            ThinkingContent(good, thinking_signature="s"),
            TextContent(good),
            ToolCall("c1", good, {good: [good, 1, None]}),
        ),
        result(text=good, name=good),
    ]
    assert {change.message for change in handover.changes} == {0, 1, 2, 3, 4}


def test_arguments_nested_too_deeply_are_left_to_who_writes_the_request() -> None:
    """They cannot be walked, and not be written either; that is said there."""
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"a": deep}
    messages: list[Message] = [own(ToolCall("c1", "add", deep)), result()]
    assert hand_over(messages, TARGET).changes == []


# --- policy and report ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fields",
    [
        {"thinking": "keep"},
        {"broken_turns": True},
        {"malformed_calls": ""},
        {"missing_results": None},
        {"ids": 9},
    ],
)
def test_a_policy_that_does_not_exist_is_refused(fields: dict[str, Any]) -> None:
    """The error names the field."""
    with pytest.raises(ConfigError, match=f"HandoverPolicy.{next(iter(fields))} must be"):
        HandoverPolicy(**fields)


def test_the_report_can_be_saved() -> None:
    """A hand-over and its report survive JSON."""
    handover = hand_over([ASK, foreign(ThinkingContent("hm"), ToolCall("c:1", "add", {"a": 1}))], TARGET)
    data = to_json(handover)
    assert data["changes"] == [
        {"what": "thinking_dropped", "message": 1, "block": 0, "why": "another model thought it"},
        {
            "what": "id_changed",
            "message": 1,
            "block": 1,
            "why": "the provider would not take it",
            "before": "c:1",
            "after": "c_1",
        },
        {"what": "result_added", "message": 1, "block": 1, "why": "the call has no result"},
    ]
    assert from_json(data, Handover) == handover
