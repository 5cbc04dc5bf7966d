"""Recorded answers of Cohere: whole and cut, up to every event, and beside what a person reads in the body."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from recording_checks import Recording, check_prefixes, check_whole_and_cut, event_borders, recordings

from pi_stream import AssistantMessage
from pi_stream.messages import ThinkingContent

# How the text and the thinking begin, and how many characters they have; the calls; why it ended; uncached prompt tokens,
# output tokens, cached tokens and, where it is told, tokens of thinking.
READ: dict[str, tuple[Any, ...]] = {
    "cohere-command-a-03-2025-error": (
        ("", 0),
        ("I will first inspect the tables", 106),
        [],
        ("error", "ERROR"),
        (0, 0, 0, None),
    ),
    "cohere-command-a-03-2025-length": (
        ("(a)\na)\na)", 65),
        ("", 0),
        [],
        ("length", "MAX_TOKENS"),
        (73, 64, 480, None),
    ),
    "cohere-command-a-03-2025-tool": (
        ("", 0),
        ("I will use the weather tool", 57),
        [("weather_4pv2zz9xez6x", "weather", {"latitude": "48.8575", "longitude": "2.3514"})],
        ("toolUse", "TOOL_CALL"),
        (82, 66, 1616, None),
    ),
    "cohere-command-a-plus-05-2026-thinking": (
        ("According to the document, Ruby", 170),
        ("The document clearly states that", 146),
        [],
        ("stop", "COMPLETE"),
        (364, 86, 144, 28),
    ),
    "cohere-command-a-reasoning-08-2025-tool": (
        ("", 0),
        ("Okay, let's see. The user", 1276),
        [("call_REDACTED_1", "subtract", {"x": 2, "y": 5})],
        ("toolUse", "TOOL_CALL"),
        (493, 346, 1008, 304),
    ),
    "cohere-command-a-vision-07-2025-image": (
        ("The image you've provided", 620),
        ("", 0),
        [],
        ("stop", "COMPLETE"),
        (22, 141, 480, None),
    ),
    "cohere-command-r-parallel-tools": (
        ("", 0),
        ("I will search for the current time", 56),
        [
            ("get_time_dg5wwc00d8v5", "get_time", {"location": "Tokyo"}),
            ("get_weather_bc8241gkqss5", "get_weather", {"location": "Tokyo"}),
        ],
        ("toolUse", "TOOL_CALL"),
        (968, 83, 0, None),
    ),
    "cohere-command-text": (
        ("Arrrr, matey! Shiver me timbers", 414),
        ("", 0),
        [],
        ("stop", "COMPLETE"),
        (69, 116, 0, None),
    ),
    "cohere-unknown-parallel-tools": (
        ("", 0),
        ("I will use the weather tool", 131),
        [
            ("weather_e8p4pn45zt0t", "weather", {"location": "San Francisco"}),
            ("cityAttractions_pyxssbwnq9fq", "cityAttractions", {"city": "San Francisco"}),
        ],
        ("toolUse", "TOOL_CALL"),
        (45, 95, 1504, None),
    ),
    "cohere-unknown-thinking": (
        ("The answer to 2 + 2 is 4.", 25),
        ("The user is asking for the sum", 162),
        [],
        ("stop", "COMPLETE"),
        (34, 54, 1360, None),
    ),
    "cohere-unknown-tool": (
        ("", 0),
        ("I will use the currentTime tool", 57),
        [("currentTime_y46ar19t5gvw", "currentTime", {})],
        ("toolUse", "TOOL_CALL"),
        (741, 43, 704, None),
    ),
}


@pytest.fixture(scope="module")
def cases(shared: Path) -> dict[str, Recording]:
    return {recording.name: recording for recording in recordings(shared, "cohere", "cohere-chat")}


@pytest.fixture(scope="module")
def messages(cases: dict[str, Recording]) -> dict[str, AssistantMessage]:
    """Each recording decoded whole and cut, to the same events, keeping the guarantees."""
    return {name: check_whole_and_cut(recording) for name, recording in cases.items()}


def test_what_a_person_reads_is_what_is_decoded(messages: dict[str, AssistantMessage]) -> None:
    for name, (text, thinking, calls, stop, usage) in READ.items():
        message = messages[name]
        for whole, (beginning, length) in ((message.text, text), (message.thinking, thinking)):
            assert whole.startswith(beginning) and len(whole) == length, name
        assert [(call.id, call.name, call.arguments) for call in message.tool_calls] == calls, name
        assert (message.stop_reason, message.raw_stop_reason) == stop, name
        counted = message.usage
        assert (counted.input, counted.output, counted.cache_read, counted.reasoning) == usage, name
        assert counted.total_tokens == counted.input + counted.output + counted.cache_read, name


def test_every_recording_is_read(messages: dict[str, AssistantMessage]) -> None:
    assert messages.keys() - READ.keys() == {
        "cohere-command-a-03-2025-http-400",
        "cohere-command-r-http-404",
    }


def test_error_bodies_are_lone_errors_with_a_kind(messages: dict[str, AssistantMessage]) -> None:
    overflow = messages["cohere-command-a-03-2025-http-400"]
    assert overflow.error_cause is not None and overflow.error_message is not None
    assert (overflow.error_cause.kind, overflow.error_cause.provider_code) == ("overflow", "TOO_MANY_TOKENS")
    assert overflow.error_message.startswith("400 too many tokens: size limit exceeded")
    gone = messages["cohere-command-r-http-404"]
    assert gone.error_cause is not None and gone.error_message is not None
    assert (gone.error_cause.kind, gone.error_cause.status) == ("http_status", 404)
    assert gone.error_message.startswith("404 model 'command-r' was removed")


def test_an_error_in_the_last_event_has_its_words_and_code(messages: dict[str, AssistantMessage]) -> None:
    message = messages["cohere-command-a-03-2025-error"]
    assert message.error_message is not None and message.error_cause is not None
    assert message.error_message.startswith("your request resulted in an invalid tool generation")
    assert message.error_cause.provider_code == "INVALID_TOOL_GENERATION"
    assert message.error_cause.retryable


def test_citations_are_kept_beside_the_text_they_belong_to(messages: dict[str, AssistantMessage]) -> None:
    kept = messages["cohere-command-a-plus-05-2026-thinking"].provider_data or []
    assert [entry.after for entry in kept] == [2, 2]
    cited = [citation for entry in kept for citation in entry.data["citations"]]
    assert [(one["start"], one["end"], one["text"]) for one in cited] == [
        (49, 67, "Yukihiro Matsumoto"),
        (73, 78, "1993."),
    ]


def test_tool_plans_are_thinking_that_says_where_it_came_from(messages: dict[str, AssistantMessage]) -> None:
    plan = messages["cohere-command-r-parallel-tools"].content[0]
    assert isinstance(plan, ThinkingContent) and plan.thinking_signature == "tool_plan"
    thought = messages["cohere-command-a-reasoning-08-2025-tool"].content[0]
    assert isinstance(thought, ThinkingContent) and thought.thinking_signature is None


def test_cut_off_before_the_last_event_every_answer_is_an_error(cases: dict[str, Recording]) -> None:
    for recording in cases.values():
        if recording.case["status"] == 200 and recording.name != "cohere-command-a-03-2025-error":
            end = b'"stream-end"' if recording.body.startswith(b"{") else b'"message-end"'
            lines = [i + 1 for i, byte in enumerate(recording.body) if byte == 10]
            offsets = lines if recording.body.startswith(b"{") else event_borders(recording.body)
            complete_at = recording.body.index(end)
            check_prefixes(recording, complete_at, [*offsets[::7], complete_at - 1])


def test_after_the_last_event_nothing_is_waited_for(cases: dict[str, Recording]) -> None:
    recording = cases["cohere-command-a-03-2025-tool"]
    done = recording.body[: recording.body.index(b"data: [DONE]")]
    assert recording.decode(done + b"data: {\n\n") == recording.decode()
