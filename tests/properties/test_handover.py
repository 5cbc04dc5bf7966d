"""Any history, however broken, handed over to any model."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from pi_stream.apis import api_ids, get_api
from pi_stream.handover import Handover, HandoverPolicy, hand_over, id_rule
from pi_stream.messages import (
    AssistantMessage,
    ImageContent,
    Message,
    ProviderData,
    SystemMessage,
    TextContent,
    ThinkingContent,
    Tool,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from pi_stream.models import Model
from pi_stream.options import StreamOptions
from pi_stream.serialization import to_json

APIS = (
    "openai-completions",
    "anthropic-messages",
    "openai-responses",
    "google-generative-ai",
    "mistral-conversations",
    "bedrock-converse-stream",
    "cohere-chat",
    "ollama",
)
TARGETS = [
    Model(id="m", provider="p", api=api, base_url="https://api.openai.com/v1", input=kinds, reasoning=True)
    for api in APIS
    for kinds in (("text",), ("text", "image"))
]

texts = st.sampled_from(["", " ", "hello", "half \ud83d", "two\nlines"])
signatures = st.sampled_from([None, None, "c2ln", '{"type":"reasoning","id":"rs_1","encrypted_content":"x"}'])
ids = st.sampled_from(
    ["c1", "c1", "c2", "call:1", "call;1", "call_1|fc_1", "call_1|fc_2", "abcdefgh9", "", "y" * 70]
)
names = st.sampled_from(["add", "read"])
arguments = st.sampled_from([{}, {"a": 1}, {"text": "\udc00"}])
images = st.builds(ImageContent, st.just("aGk="), st.just("image/png"))
text_blocks = st.builds(TextContent, texts, text_signature=signatures)
thinking_blocks = st.builds(
    ThinkingContent, texts, thinking_signature=signatures, redacted=st.sampled_from([None, None, True])
)
calls = st.builds(
    ToolCall,
    ids,
    names,
    arguments,
    thought_signature=signatures,
    arguments_error=st.sampled_from([None, None, None, "not JSON\n\n{"]),
)
data = st.builds(
    ProviderData,
    after=st.integers(0, 4),
    api=st.sampled_from(APIS),
    provider=st.sampled_from(["p", "q"]),
    model=st.just("m"),
    data=st.just({"type": "server_block"}),
)
answers = st.builds(
    AssistantMessage,
    st.lists(text_blocks | thinking_blocks | calls, max_size=4),
    api=st.sampled_from(APIS),
    provider=st.sampled_from(["p", "p", "q"]),
    model=st.just("m"),
    stop_reason=st.sampled_from(["stop", "toolUse", "toolUse", "length", "aborted", "error", "pending"]),
    provider_data=st.none() | st.lists(data, max_size=2),
    timestamp=st.just(5),
)
contents = st.lists(st.builds(TextContent, texts) | images, max_size=3)
results = st.builds(ToolResultMessage, ids, names, contents, timestamp=st.just(6))
users = st.builds(UserMessage, texts | contents, timestamp=st.just(7))
systems = st.builds(SystemMessage, texts, sections=st.none() | st.just({"a": "b"}), timestamp=st.just(0))
histories = st.lists(answers | results | users | systems, max_size=9)
targets = st.sampled_from(TARGETS)
policies = st.builds(
    HandoverPolicy,
    thinking=st.sampled_from(["drop", "text", "tag"]),
    broken_turns=st.sampled_from(["keep", "drop"]),
    malformed_calls=st.sampled_from(["answered", "drop"]),
    missing_results=st.sampled_from(["add", "drop"]),
)


def tool_calls(messages: list[Message]) -> list[ToolCall]:
    return [
        call for message in messages if isinstance(message, AssistantMessage) for call in message.tool_calls
    ]


@given(histories, targets, policies)
def test_every_call_has_its_one_result_right_behind_it(
    messages: list[Message], target: Model, policy: HandoverPolicy
) -> None:
    """In the order of the calls, under the same id and name; no other result is left."""
    rest = iter(hand_over(messages, target, policy).messages)
    for message in rest:
        assert not isinstance(message, ToolResultMessage)
        for call in message.tool_calls if isinstance(message, AssistantMessage) else ():
            result = next(rest)
            assert isinstance(result, ToolResultMessage)
            assert (result.tool_call_id, result.tool_name) == (call.id, call.name)


@given(histories, targets, policies)
def test_ids_are_legal_and_different(messages: list[Message], target: Model, policy: HandoverPolicy) -> None:
    """For every protocol, whatever they were."""
    rule = id_rule(target)
    made = [call.id for call in tool_calls(hand_over(messages, target, policy).messages)]
    assert all(map(rule.allows, made))
    assert len(set(map(rule.name, made))) == len(made)


@given(histories, targets, policies)
def test_handing_over_twice_changes_nothing_more(
    messages: list[Message], target: Model, policy: HandoverPolicy
) -> None:
    """What came out can be saved and go on from."""
    once = hand_over(messages, target, policy).messages
    assert hand_over(once, target, policy) == Handover(once, [])


@given(histories, targets, policies)
def test_the_history_given_is_not_changed(
    messages: list[Message], target: Model, policy: HandoverPolicy
) -> None:
    """It is the application's; and the same arguments give the same result."""
    before = copy.deepcopy(messages)
    first = hand_over(messages, target, policy)
    assert messages == before
    assert hand_over(before, target, policy) == first


@given(histories, targets, policies)
def test_nothing_is_left_that_the_target_cannot_take(
    messages: list[Message], target: Model, policy: HandoverPolicy
) -> None:
    """No foreign thinking or signature, no image for the blind, no half character, no empty answer."""
    made = hand_over(messages, target, policy).messages
    json.dumps([to_json(message) for message in made], ensure_ascii=False).encode()
    for message in made:
        if isinstance(message, AssistantMessage):
            assert message.content or message.provider_data
            if (message.provider, message.api) != ("p", target.api):
                assert not message.provider_data
                for block in message.content:
                    assert not isinstance(block, ThinkingContent)
                    assert (
                        getattr(block, "text_signature", None)
                        is getattr(block, "thought_signature", None)
                        is None
                    )
        elif not isinstance(message.content, str) and "image" not in target.input:
            assert not any(isinstance(block, ImageContent) for block in message.content)


@given(histories, targets, policies)
def test_the_report_accounts_for_every_difference(
    messages: list[Message], target: Model, policy: HandoverPolicy
) -> None:
    """Messages and blocks it does not name are the very same, in the same order; the numbers add up."""
    handover = hand_over(messages, target, policy)
    named = {change.message for change in handover.changes if change.what != "result_added"}
    kinds = [change.what for change in handover.changes]
    dropped, added = kinds.count("turn_dropped") + kinds.count("result_dropped"), kinds.count("result_added")
    assert len(handover.messages) == len(messages) - dropped + added
    rest = iter(handover.messages)
    for index, message in enumerate(messages):
        if index not in named:
            assert any(other is message for other in rest), f"message {index} is not where it was"
    for old, new, changed in kept_answers(messages, handover):
        assert [block for number, block in enumerate(old.content) if number not in changed] == [
            block for block in new.content if any(block is other for other in old.content)
        ]


def kept_answers(
    messages: list[Message], handover: Handover
) -> Iterator[tuple[AssistantMessage, AssistantMessage, set[int | None]]]:
    """Answers before and after, and which of their blocks the report names. Answers are never moved."""
    gone = {change.message for change in handover.changes if change.what == "turn_dropped"}
    new = iter(message for message in handover.messages if isinstance(message, AssistantMessage))
    for index, message in enumerate(messages):
        if isinstance(message, AssistantMessage) and index not in gone:
            changes = [change for change in handover.changes if change.message == index]
            blocks = {change.block for change in changes if change.what != "result_added"}
            yield message, next(new), blocks
    assert next(new, None) is None


# --- on the wire ------------------------------------------------------------------------------------------------------


def found(value: Any) -> Iterator[tuple[str, str]]:
    """All calls and results in a body, in order: what it is, and its id."""
    if isinstance(value, list):
        for item in value:
            yield from found(item)
    elif isinstance(value, dict):
        kind = value.get("type")
        if "tool_call_id" in value:
            yield "result", value["tool_call_id"]
        elif kind in ("tool_result", "function_call_output"):
            yield "result", value.get("tool_use_id") or value["call_id"]
        elif "functionResponse" in value:
            yield "result", value["functionResponse"].get("id", "")
        elif "toolResult" in value:
            yield "result", value["toolResult"]["toolUseId"]
        elif "toolUse" in value:
            yield "call", value["toolUse"]["toolUseId"]
        elif kind in ("tool_use", "function", "function_call") or "function" in value:
            yield "call", value.get("call_id") or value["id"]
        elif "functionCall" in value:
            yield "call", value["functionCall"].get("id", "")
        else:
            for item in value.values():
                yield from found(item)


@pytest.mark.parametrize("api", APIS)
@given(histories)
def test_requests_pair_every_call_with_one_result(api: str, messages: list[Message]) -> None:
    """Whatever the history, whoever writes the request."""
    base_url = "https://bedrock-runtime.us-east-1.amazonaws.com" if "bedrock" in api else TARGETS[0].base_url
    target = evolve(TARGETS[0], api=api, base_url=base_url, id="gemini-3-pro" if "google" in api else "m")
    head = SystemMessage("be brief", tools_added=[Tool("add"), Tool("read")], timestamp=0)
    made = hand_over([head, *messages], target).messages
    body = get_api(api).build_request(target, made, StreamOptions(api_key="k")).body
    wire = list(found(body.get("messages") or body.get("input") or body.get("contents")))
    assert len(wire) == 2 * len(tool_calls(made))
    waiting: list[str] = []
    for kind, id in wire:
        if kind == "call":
            waiting.append(id)
        else:
            assert id == waiting.pop(0)
    assert not waiting


def test_every_protocol_is_handed_over_to() -> None:
    """A new one that is built in should say what ids it takes."""
    from pi_stream.handover import ID_RULES

    assert set(APIS) <= set(ID_RULES) & set(api_ids())
