"""Recorded answers of Ollama: whole and cut, up to every line, and beside what a person reads in the body."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from recording_checks import Recording, check_prefixes, check_whole_and_cut, recordings

from pi_stream import AssistantMessage

# How the text and the thinking begin, and how many characters they have; the calls; why it ended; tokens of the prompt and
# of the answer.
READ: dict[str, tuple[Any, ...]] = {
    "live-aimock-length": (("This reply was cut", 18), ("", 0), [], ("stop", "stop"), (0, 0)),
    "live-aimock-plain": (("Hello there, naïve 🌍 world.", 63), ("", 0), [], ("stop", "stop"), (0, 0)),
    "live-aimock-reasoning": (
        ("Because of Rayleigh scattering.", 31),
        ("Light scatters; blue scatters more.", 35),
        [],
        ("stop", "stop"),
        (0, 0),
    ),
    "ollama-gemma3-1b-length": (
        ("Hello there! I’m doing well", 185),
        ("", 0),
        [],
        ("length", "length"),
        (15, 50),
    ),
    "ollama-qwen3-4b-after-tool": (
        ("Okay, let me go through this", 538),
        ("", 0),
        [],
        ("stop", "stop"),
        (1295, 138),
    ),
    "ollama-qwen3-4b-parallel-tools": (
        ("Okay, the user wants me", 1904),
        ("", 0),
        [("call_REDACTED_1", "lookup_harbor_label", {}), ("call_REDACTED_2", "lookup_orchard_label", {})],
        ("toolUse", "stop"),
        (262, 473),
    ),
    "ollama-qwen3-4b-parallel-tools-2": (
        ("Okay, let me try to figure", 1772),
        ("", 0),
        [
            ("call_REDACTED_4", "add", {"x": 2, "y": 3}),
            ("call_REDACTED_1", "add", {"x": 10, "y": 20}),
            ("call_REDACTED_2", "add", {"x": 2, "y": 3}),
            ("call_REDACTED_3", "add", {"x": 10, "y": 20}),
        ],
        ("toolUse", "stop"),
        (236, 619),
    ),
    "ollama-qwen3-4b-tool": (
        ("Okay, let's see. The user is asking", 1264),
        ("", 0),
        [("call_REDACTED_1", "get_weather", {"city": "Tokyo"})],
        ("toolUse", "stop"),
        (307, 308),
    ),
    "ollama-qwen3-4b-tool-3": (
        ("Okay, let's see. The user asked", 4036),
        ("", 0),
        [
            (
                "call_REDACTED_2",
                "final_result",
                {
                    "summary": "Tokyo's current weather is sunny with light clouds, 72°F (22°C), 45% humidity, "
                    "and a 8 mph northwest wind.",
                    "city": "Tokyo",
                },
            )
        ],
        ("toolUse", "stop"),
        (655, 1092),
    ),
    "ollama-qwen3-4b-tool-no-args": (
        ("", 0),
        ("Okay, the user wants me", 2472),
        [("call_REDACTED_1", "lookup_harbor_label", {})],
        ("toolUse", "stop"),
        (195, 575),
    ),
    "ollama-qwen3-6-latest-thinking": (
        ("1\n2\n3\n4\n5", 9),
        ("Here's a thinking process:", 3064),
        [],
        ("stop", "stop"),
        (21, 889),
    ),
}
FAILED = {
    "live-aimock-disconnected": ("truncated", "This stream "),
    "live-aimock-truncated": ("truncated", "This stream is truncated"),
    "live-aimock-error-429": ("rate_limit", ""),
    "ollama-nonexistent-model-latest-http-404": ("http_status", ""),
}


@pytest.fixture(scope="module")
def cases(shared: Path) -> dict[str, Recording]:
    return {recording.name: recording for recording in recordings(shared, "ollama-native", "ollama")}


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
        assert (message.usage.input, message.usage.output) == usage, name
        assert message.usage.total_tokens == sum(usage), name
        assert message.usage.reasoning is None, "Ollama does not tell"


def test_failures_have_a_kind_and_keep_what_came(messages: dict[str, AssistantMessage]) -> None:
    for name, (kind, text) in FAILED.items():
        message = messages[name]
        assert message.error_cause is not None
        assert (message.stop_reason, message.error_cause.kind, message.text) == ("error", kind, text), name
    words = messages["ollama-nonexistent-model-latest-http-404"].error_message
    assert words == "404 model 'nonexistent-model:latest' not found"


def test_every_recording_is_read(messages: dict[str, AssistantMessage]) -> None:
    assert messages.keys() == {*READ, *FAILED}


def test_cut_off_before_the_last_line_every_answer_is_an_error(cases: dict[str, Recording]) -> None:
    for name in READ:
        recording = cases[name]
        lines = [position + 1 for position, byte in enumerate(recording.body) if byte == 10]
        last = recording.body.rindex(b"\n", 0, -1) + 1
        check_prefixes(recording, len(recording.body) - 1, [*lines[:-2:31], last, last + 9])
