"""The message model: what messages offer beside their fields, and transcripts of applications."""

from __future__ import annotations

import copy
from typing import Any, Literal

import pytest
from attrs import define, field

from pi_stream.exceptions import ConfigError
from pi_stream.messages import (
    AssistantMessage,
    Context,
    CustomMessage,
    SystemMessage,
    TextContent,
    ThinkingContent,
    Tool,
    ToolCall,
    ToolResultMessage,
    UnknownContent,
    UserMessage,
    convert_to_llm,
    now_ms,
    register_role,
)
from pi_stream.usage import Usage


@register_role
@define
class Bookmark:
    """A message of an application."""

    role: Literal["bookmark"] = field(default="bookmark", init=False)
    title: str = ""


def test_projections_of_an_answer() -> None:
    """Text, thinking and calls are read off an answer without a loop; other blocks are left out."""
    call = ToolCall("1", "add", {"a": 1})
    answer = AssistantMessage(
        [
            ThinkingContent("h"),
            TextContent("a"),
            call,
            UnknownContent("video"),
            ThinkingContent("m"),
            TextContent("b"),
        ]
    )
    assert answer.text == "ab"
    assert answer.thinking == "hm"
    assert answer.tool_calls == [call]


def test_a_new_answer_is_pending_and_empty() -> None:
    """Until the terminal event nothing is claimed of an answer."""
    answer = AssistantMessage()
    assert answer.stop_reason == "pending"
    assert answer.content == []
    assert answer.usage == Usage()


@pytest.mark.parametrize(
    "make",
    [SystemMessage, UserMessage, AssistantMessage, lambda **time: ToolResultMessage("1", "f", **time)],
)
def test_messages_are_stamped_when_they_are_made(make: Any) -> None:
    """A message made in Python has the time of its making, or the one it was given."""
    before = now_ms()
    assert before <= make().timestamp <= now_ms()
    assert make(timestamp=5).timestamp == 5


def test_messages_share_nothing() -> None:
    """Two messages never share a list or dict by default."""
    one, other = AssistantMessage(), AssistantMessage()
    one.content.append(TextContent("a"))
    one.extra["key"] = 1
    one.usage.cost.total = 1
    assert (other.content, other.extra, other.usage.cost.total) == ([], {}, 0)


def test_messages_are_values() -> None:
    """Messages compare by what they say, unknown keys included, and copy deeply."""
    answer = AssistantMessage([ToolCall("1", "add", {"a": [1]})], timestamp=5, extra={"key": 1})
    twin = copy.deepcopy(answer)
    assert twin == answer
    twin.tool_calls[0].arguments["a"].append(2)
    assert twin != answer
    assert AssistantMessage(timestamp=5, extra={"key": 2}) != AssistantMessage(timestamp=5)


def test_the_tag_cannot_be_given() -> None:
    """The class says what a block is; nobody can make it say otherwise."""
    with pytest.raises(TypeError):
        TextContent(type="image")  # type: ignore[call-arg]


def test_transcript_folds_prompt_and_tools_into_a_leading_message() -> None:
    """``system_prompt`` and ``tools`` are short for a system message at time 0, before any other."""
    tool = Tool("add")
    user = UserMessage("hi", timestamp=5)
    assert Context([user], system_prompt="Be brief.", tools=[tool]).transcript() == [
        SystemMessage("Be brief.", tools_added=[tool], timestamp=0),
        user,
    ]
    assert Context([user], tools=[tool]).transcript()[0] == SystemMessage("", tools_added=[tool], timestamp=0)
    assert Context([user], system_prompt="Be brief.").transcript()[0] == SystemMessage(
        "Be brief.", timestamp=0
    )


@pytest.mark.parametrize("context", [Context(), Context(system_prompt="", tools=[])])
def test_transcript_invents_no_message(context: Context) -> None:
    """Without prompt and tools a transcript is just its messages, in a list of its own."""
    assert context.transcript() == []
    user = UserMessage("hi")
    context.messages.append(user)
    assert context.transcript() == [user]
    assert context.transcript() is not context.messages


def test_transcript_keeps_a_system_message_that_is_there() -> None:
    """The folded message goes before one that the transcript begins with."""
    own = SystemMessage("Own.", timestamp=1)
    first, second = Context([own], system_prompt="Folded.").transcript()
    assert (first.content, second) == ("Folded.", own)


def test_convert_to_llm_leaves_application_messages_out() -> None:
    """By default only what every model understands is kept, in order."""
    user, result = UserMessage("hi"), ToolResultMessage("1", "f")
    assert convert_to_llm([Bookmark("a"), user, CustomMessage("note"), result]) == [user, result]


def test_convert_to_llm_asks_for_application_messages() -> None:
    """A converter makes one message, several or none of a message of the application; plain ones are not touched."""
    user, said, more = UserMessage("hi"), UserMessage("said"), UserMessage("more")
    made: dict[str, Any] = {"one": said, "two": [said, more], "none": None, "empty": []}

    def convert(message: Any) -> Any:
        return made[message.title]

    transcript = [Bookmark("one"), user, Bookmark("two"), Bookmark("none"), Bookmark("empty")]
    assert convert_to_llm(transcript, convert) == [said, user, said, more]


def test_registering_a_role_twice_is_fine() -> None:
    """A module may be loaded again, and a decorator gives the class back."""
    assert register_role(Bookmark) is Bookmark


class Plain:
    role = "plain"


@define
class Nameless:
    title: str = ""


@define
class WithoutDefault:
    role: str


@define
class Impostor:
    role: Literal["user"] = field(default="user", init=False)


@define
class SecondBookmark:
    role: Literal["bookmark"] = field(default="bookmark", init=False)


@pytest.mark.parametrize(
    ("cls", "reason"),
    [
        (Plain, "attrs class"),
        (Nameless, "`role` attribute"),
        (WithoutDefault, "role name"),
        (Impostor, "'user' of Impostor is taken"),
        (SecondBookmark, "'bookmark' of SecondBookmark is taken"),
    ],
)
def test_a_class_that_cannot_be_a_role_is_refused(cls: type, reason: str) -> None:
    """What would be lost on saving, or shadow another role, is refused when it is registered."""
    with pytest.raises(ConfigError, match=reason):
        register_role(cls)
