"""Replay of system messages."""

from __future__ import annotations

from pi_stream.apis._history import (
    collapse,
    current_prompt,
    current_tools,
    system_text,
    tool_additions,
    update_text,
)
from pi_stream.messages import Message, SystemMessage, TextContent, Tool, UserMessage

HI = UserMessage("hi")


def system(content: str = "", added: str = "", removed: str = "", **fields: object) -> SystemMessage:
    return SystemMessage(
        content,
        tools_added=[Tool(name, description=content) for name in added] or None,
        tools_removed=[{"name": name} for name in removed] or None,
        **fields,  # type: ignore[arg-type]
    )


def names(tools: list[Tool]) -> str:
    return "".join(tool.name for tool in tools)


def test_current_prompt_joins_texts_and_patches_sections() -> None:
    messages: list[Message] = [
        system("base", sections={"a": "A", "b": "B"}),
        HI,
        system("", sections={"a": "A2", "b": None, "c": "C"}),
        SystemMessage([TextContent("x"), TextContent("y")], sections={"b": "B2"}),
    ]
    assert current_prompt(messages) == "base\n\nx\ny\n\nA2\n\nC\n\nB2"


def test_current_tools_keep_the_place_of_a_redefined_name_unless_it_was_removed() -> None:
    redefined = [system("old", "abc"), system("new", "a")]
    assert [(tool.name, tool.description) for tool in current_tools(redefined)] == [
        ("a", "new"),
        ("b", "old"),
        ("c", "old"),
    ]
    assert names(current_tools([system("", "abc"), system("", "a", removed="a")])) == "bca"
    assert names(current_tools([system("", "abc"), system("", removed="bx")])) == "ac"


def test_texts_of_one_message_leave_empty_parts_out() -> None:
    message = system("", sections={"a": "A", "b": "", "c": None})
    assert system_text(message) == "A"
    assert update_text(system("only text")) == "only text"
    assert update_text(system("")) == ""


def test_collapse_replays_all_system_messages_into_a_first_one() -> None:
    messages: list[Message] = [
        HI,
        system("one", "a", timestamp=5),
        HI,
        system("two", "b", removed="a", timestamp=9),
    ]
    head, *rest = collapse(messages)
    assert isinstance(head, SystemMessage)
    assert (head.content, names(head.tools_added or []), head.timestamp) == ("one\n\ntwo", "b", 5)
    assert rest == [HI, HI]
    assert collapse([HI]) == [HI]


def additions(*messages: SystemMessage | UserMessage) -> tuple[str, dict[int, str]]:
    top, later = tool_additions(messages)
    return names(top), {index: names(tools) for index, tools in later.items()}


def test_tools_can_be_added_in_place_until_one_is_taken_back() -> None:
    assert additions(system("", "a"), HI, system("", "b"), system("", "c")) == ("a", {2: "b", 3: "c"})
    assert additions(HI, system("", "a")) == ("", {1: "a"})
    assert additions(system("", "a"), system("", "b"), system("", removed="a"), system("", "c")) == (
        "b",
        {3: "c"},
    )


def test_a_second_declaration_of_a_name_is_no_addition() -> None:
    assert additions(system("", "ab"), system("", "a"), system("", "c")) == ("ab", {2: "c"})
    assert additions(system("", "ab", removed=""), system("", removed="a"), system("", "a")) == ("ba", {})
