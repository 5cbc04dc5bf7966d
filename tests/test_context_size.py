"""How much of a model's window a history takes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pi_stream.context_size import context_tokens
from pi_stream.messages import (
    AssistantMessage,
    Context,
    CustomMessage,
    ImageContent,
    Message,
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
from pi_stream.usage import Usage

MODEL = Model(id="m", provider="p", api="a", context_window=1000)
TOOL = Tool("add", "Add", {"type": "object"})


def said(characters: int, at: int = 1) -> UserMessage:
    return UserMessage("x" * characters, timestamp=at)


def answer(usage: Usage | None = None, text: str = "ok", at: int = 2, **fields: Any) -> AssistantMessage:
    fields = {"provider": "p", "model": "m", "stop_reason": "stop", **fields}
    return AssistantMessage([TextContent(text)], usage=usage or Usage(), timestamp=at, **fields)


def used(prompt: int, output: int = 0) -> Usage:
    return Usage(input=prompt, output=output, total_tokens=prompt + output)


@pytest.mark.parametrize(
    ("message", "characters"),
    [
        (said(35), 35),
        (said(36), 36),
        (UserMessage([TextContent("x" * 10), ImageContent("aGk=", "image/png")]), 4810),
        (AssistantMessage([ThinkingContent("x" * 7), TextContent("x" * 7)]), 14),
        (AssistantMessage([ToolCall("c", "add", {"a": 1})]), len('add{"a":1}')),
        (ToolResultMessage("c", "add", [TextContent("x" * 7)]), 7),
        (SystemMessage("x" * 7, sections={"a": "x" * 7, "b": None}), 14),
        (
            SystemMessage("", tools_added=[TOOL], tools_removed=[{"name": "old"}]),
            len('{"name":"add","description":"Add","parameters":{"type":"object"}}{"name":"old"}'),
        ),
        (UserMessage([UnknownContent("audio", {"type": "audio"})]), len('{"type":"audio"}')),
    ],
    ids=lambda value: getattr(value, "role", None),
)
def test_without_a_report_everything_is_estimated(message: Message, characters: int) -> None:
    """3.5 characters to a token, rounded up for each message; an image is 4,800 characters."""
    size = context_tokens([message])
    assert size.tokens == size.estimated == -(-characters * 2 // 7)
    assert (size.reported, size.window, size.left, size.is_full) == (0, 0, None, False)


def test_the_last_report_counts_and_what_follows_is_estimated() -> None:
    """Prompt and answer are in the report; only the rest is guessed."""
    messages = [said(700), answer(used(300, 20)), said(35, at=3)]
    size = context_tokens(messages, MODEL)
    assert (size.reported, size.estimated, size.tokens, size.left) == (320, 10, 330, 670)


def test_parts_are_added_up_where_there_is_no_total() -> None:
    """Old sessions may lack it."""
    usage = Usage(input=1, cache_read=20, cache_write=300, output=4000)
    assert context_tokens([answer(usage)]).tokens == 4321


@pytest.mark.parametrize(
    "messages",
    [
        [said(35), answer(used(500), text="", stop_reason="aborted")],
        [said(35), answer(used(500), text="", stop_reason="error")],
        [said(35), answer(Usage(), text="")],
        [said(35, at=9), answer(used(500), text="", at=2)],
    ],
    ids=["aborted", "failed", "no usage", "older than a summary before it"],
)
def test_a_report_that_does_not_count_is_passed_over(messages: list[Message]) -> None:
    """Its numbers are not those of this history."""
    assert context_tokens(messages).tokens == 10


def test_a_context_counts_with_its_prompt_and_tools_and_without_custom_messages() -> None:
    """What is not sent takes nothing."""
    context = Context(
        [said(35), CustomMessage("note", {"text": "x" * 700})], system_prompt="x" * 35, tools=[TOOL]
    )
    tool = json.dumps({"name": "add", "description": "Add", "parameters": {"type": "object"}})
    assert context_tokens(context).tokens > 20
    assert context_tokens(context).tokens < 20 + len(tool)


def test_arguments_that_are_no_json_are_left_to_the_request() -> None:
    """It says where they are; counting does not fail."""
    assert context_tokens([AssistantMessage([ToolCall("c", "add", {"a": object()})])]).tokens == 1


@pytest.mark.parametrize(
    ("messages", "full"),
    [
        ([said(8000)], True),
        ([said(6000)], False),  # 1,715 by the estimate: it may be half of that
        ([UserMessage([ImageContent("aGk=", "image/png")] * 9)], False),
        ([said(3000), answer(used(1000))], True),
        ([said(3000), answer(used(900), text="x" * 1000)], True),
        ([said(3000), answer(used(900, 400))], False),  # thinking is not sent again
        ([said(3000), answer(used(2000), model="m2")], False),  # in another model's tokens
        ([said(700), answer(used(2000))], False),  # the rest was taken out since
    ],
)
def test_full_is_what_cannot_fit_however_wrong_the_estimate_is(messages: list[Message], full: bool) -> None:
    """A request that could work is never called impossible."""
    assert context_tokens(messages, MODEL).is_full is full


def test_nothing_is_left_of_a_window_that_is_passed() -> None:
    """Not less than nothing; and an unknown window is never full."""
    assert context_tokens([said(80_000)], MODEL).left == 0
    assert not context_tokens([said(80_000)], Model(id="m")).is_full
