"""Recorded answers of Mistral: whole and cut, up to every event, and beside what a person reads in the body."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from recording_checks import Recording, check_prefixes, check_whole_and_cut, event_borders, recordings

from pi_stream import AssistantMessage

RED = [("call_REDACTED_1", "alpha", {"value": "red"}), ("call_REDACTED_2", "beta", {"value": "blue"})]
# How the text and the thinking begin, and how many characters they have; the calls; why it ended; uncached prompt tokens,
# output tokens and cached tokens.
READ: dict[str, tuple[Any, ...]] = {
    "mistral-magistral-medium-latest-thinking": (
        ("What is 2+2?\n\\[ 2 + 2 = 4 \\]", 39),
        ('Okay, the user has asked "What is 2+', 145),
        [],
        ("stop", "stop"),
        (5, 63, 5),
    ),
    "mistral-ministral-3b-latest-parallel-tools": (
        ("", 0),
        ("", 0),
        RED,
        ("toolUse", "tool_calls"),
        (20, 19, 128),
    ),
    "mistral-ministral-3b-latest-tool": (
        ("", 0),
        ("", 0),
        [("call_REDACTED_1", "file_report", None)],
        ("length", "length"),
        (125, 16, 0),
    ),
    "mistral-ministral-3b-latest-tool-no-args": (
        ("", 0),
        ("", 0),
        [("call_REDACTED_1", "ping", {})],
        ("toolUse", "tool_calls"),
        (74, 5, 0),
    ),
    "mistral-mistral-large-latest-length": (
        ("The sky appears blue due to a phenom", 433),
        ("", 0),
        [],
        ("length", "length"),
        (9, 100, 0),
    ),
    "mistral-mistral-large-latest-text": (("2", 1), ("", 0), [], ("stop", "stop"), (22, 2, 0)),
    "mistral-mistral-small-latest-document": (("BANANA-7391", 11), ("", 0), [], ("stop", "stop"), (51, 9, 0)),
    "mistral-mistral-small-latest-image": (
        ("The dominant colour of the attached", 71),
        ("", 0),
        [],
        ("stop", "stop"),
        (133, 15, 0),
    ),
    "mistral-mistral-small-latest-length": (("c", 1), ("", 0), [], ("length", "length"), (30, 2, 0)),
    "mistral-mistral-small-latest-parallel-tools": (
        ("", 0),
        ("", 0),
        [("call_REDACTED_1", "lookup_harbor_label", {}), ("call_REDACTED_2", "lookup_orchard_label", {})],
        ("toolUse", "tool_calls"),
        (213, 16, 0),
    ),
    "mistral-mistral-small-latest-thinking": (
        ("144", 3),
        ("The user is asking for the product", 174),
        [],
        ("stop", "stop"),
        (31, 66, 0),
    ),
    "mistral-mistral-small-latest-tool-3": (
        ('{"total": 42}', 13),
        ("", 0),
        [("call_REDACTED_1", "add", {"x": 20, "y": 22})],
        ("toolUse", "tool_calls"),
        (88, 25, 0),
    ),
    "mistral-mistral-small-latest-tool-5": (
        ("", 0),
        ("", 0),
        [("call_REDACTED_1", "file_report", None)],
        ("length", "length"),
        (25, 16, 112),
    ),
    "mistral-voxtral-small-latest-cache": (
        ("The sun was setting slowly, casting", 72),
        ("", 0),
        [],
        ("stop", "stop"),
        (2, 15, 9),
    ),
}


@pytest.fixture(scope="module")
def cases(shared: Path) -> dict[str, Recording]:
    return {recording.name: recording for recording in recordings(shared, "mistral", "mistral-conversations")}


@pytest.fixture(scope="module")
def messages(cases: dict[str, Recording]) -> dict[str, AssistantMessage]:
    """Each recording decoded whole and cut, to the same events, keeping the guarantees."""
    return {name: check_whole_and_cut(recording) for name, recording in cases.items()}


def test_what_a_person_reads_is_what_is_decoded(messages: dict[str, AssistantMessage]) -> None:
    """A call whose arguments were cut off has an error in their place."""
    for name, (text, thinking, calls, stop, usage) in READ.items():
        message = messages[name]
        for whole, (beginning, length) in ((message.text, text), (message.thinking, thinking)):
            assert whole.startswith(beginning) and len(whole) == length, name
        made = [
            (call.id, call.name, None if call.arguments_error else call.arguments)
            for call in message.tool_calls
        ]
        assert made == calls, name
        assert (message.stop_reason, message.raw_stop_reason) == stop, name
        counted = message.usage
        assert (counted.input, counted.output, counted.cache_read) == usage, name
        assert (counted.total_tokens, counted.reasoning) == (sum(usage), None), name


def test_every_recording_is_read(messages: dict[str, AssistantMessage]) -> None:
    assert messages.keys() - READ.keys() == {"mistral-definitely-not-a-model-http-400"}
    failed = messages["mistral-definitely-not-a-model-http-400"]
    assert failed.error_message == "400 Invalid model: definitely-not-a-model"
    assert failed.error_cause is not None
    assert (failed.error_cause.kind, failed.error_cause.provider_code) == ("http_status", "1500")


def test_cut_off_before_the_stop_reason_every_answer_is_an_error(cases: dict[str, Recording]) -> None:
    for name in READ:
        recording = cases[name]
        body = recording.body
        finished = max(body.rfind(b'"finish_reason":"' + READ[name][3][1].encode()), 0)
        complete_at = body.index(b"}\n", finished) + 1
        check_prefixes(recording, complete_at, [*event_borders(body), complete_at - 1])
