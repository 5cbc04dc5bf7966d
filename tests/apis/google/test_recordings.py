"""Recorded answers of the Gemini api and of Vertex AI: whole, cut, broken off, and beside the forerunner's.

The rules are explained in ``docs/reference``; a rule that no case needs any more fails here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from recording_checks import (
    Recording,
    check_prefixes,
    check_whole_and_cut,
    differences,
    event_borders,
    recordings,
)

from pi_stream.messages import AssistantMessage

DOCS = Path(__file__).parents[3] / "docs" / "reference"

# Differences from the forerunner's message: the aspects that differ, and in which cases.
RULES: dict[str, tuple[set[str], set[str]]] = {
    "tool-use-tokens-are-input": (
        {"usage"},
        {
            "google-gemini-2-5-flash-code-execution",
            "google-gemini-2-5-flash-code-execution-2",
            "google-gemini-2-5-flash-grounding",
            "google-gemini-3-5-flash-grounding",
            "google-gemini-3-flash-preview-code-execution",
            "google-gemini-3-flash-preview-code-execution-2",
        },
    ),
    "counts-are-kept": ({"usage", "totalTokens"}, {"google-gemini-3-flash-preview-grounding-2"}),
    "argument-updates-are-merged": (
        {"calls"},
        {
            "google-gemini-3-flash-preview-parallel-tools",
            "google-vertex-gemini-3-1-pro-preview-parallel-tools",
        },
    ),
    "unknown-finish-reason-is-stop": ({"stop"}, {"google-unknown-text", "google-vertex-unknown-text"}),
    "last-event-needs-no-empty-line": (
        {"stop", "usage", "totalTokens"},
        {"google-gemini-2-0-flash-preview-image-gen-text"},
    ),
}
PREFIXES = 16
"""How many places each recording is broken off at."""


@cache
def load(shared: Path) -> list[Recording]:
    if not (shared / "recordings").is_dir():
        pytest.skip(f"no recordings: {shared / 'recordings'}")
    return list(recordings(shared, "google-generative-ai", "google-generative-ai"))


@pytest.fixture(scope="module")
def decoded(shared: Path) -> dict[str, tuple[Recording, AssistantMessage]]:
    """All recordings with their final messages, checked whole and cut."""
    return {recording.name: (recording, check_whole_and_cut(recording)) for recording in load(shared)}


def test_recordings_decode_whole_and_cut(decoded: dict[str, Any]) -> None:
    assert len(decoded) >= 61


def test_messages_equal_the_forerunner_s_save_for_the_rules(decoded: dict[str, Any]) -> None:
    found: dict[str, set[str]] = {}
    for name, (recording, message) in decoded.items():
        if recording.forerunner is not None and (differing := set(differences(recording, message))):
            found[name] = differing
    covered = {name: aspects for aspects, names in RULES.values() for name in names}
    assert set(found) == set(covered)
    for name, aspects in found.items():
        assert aspects <= covered[name], name
    # Half of the differing cases are those with tool-use tokens, which the forerunner counts nowhere.
    compared = sum(recording.forerunner is not None for recording, _ in decoded.values())
    assert 1 - len(found) / compared >= 0.8


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_is_documented(rule: str) -> None:
    texts = [page.read_text(encoding="utf-8") for page in DOCS.glob("*.md")]
    assert any(f"`{rule}`" in text for text in texts)


def test_tool_use_tokens_make_the_sum_the_provider_s(decoded: dict[str, Any]) -> None:
    for name in RULES["tool-use-tokens-are-input"][1]:
        usage = decoded[name][1].usage
        assert usage.total_tokens == usage.provider_total_tokens, name


# --- broken off -------------------------------------------------------------------------------------------------------


def chunks_of(body: bytes) -> Iterator[tuple[int, Any]]:
    """The chunks of a body, each with the offset of its end."""
    position = 0
    for line in body.splitlines(keepends=True):
        if line.startswith(b"data:"):
            try:
                yield position + len(line.rstrip()), json.loads(line[5:])
            except ValueError:
                pass
        position += len(line)


def complete_at(body: bytes) -> int:
    """Where the stop reason has come: the end of the first chunk that holds one."""
    for end, chunk in chunks_of(body):
        if any(candidate.get("finishReason") for candidate in chunk.get("candidates", ())):
            return end
    return len(body) + 1


def test_every_prefix_before_the_stop_reason_is_an_error_that_keeps_its_content(shared: Path) -> None:
    for recording in load(shared):
        if recording.case["status"] != 200:
            continue
        borders = [0, *event_borders(recording.body)]
        chosen = borders[:: max(1, len(borders) // PREFIXES)]
        check_prefixes(recording, complete_at(recording.body), [*chosen, *(offset + 40 for offset in chosen)])


# --- nothing is lost --------------------------------------------------------------------------------------------------


def test_every_signature_and_every_other_part_survives(decoded: dict[str, Any]) -> None:
    for name, (recording, message) in decoded.items():
        parts = [
            part
            for _, chunk in chunks_of(recording.body)
            for candidate in chunk.get("candidates", ())
            for part in candidate.get("content", {}).get("parts", ())
        ]
        kept = [entry.data for entry in message.provider_data or ()]
        signatures = [data["thoughtSignature"] for data in kept if "thoughtSignature" in data]
        for block in message.content:
            signature = next(
                (
                    value
                    for field in ("text_signature", "thinking_signature", "thought_signature")
                    if (value := getattr(block, field, None))
                ),
                None,
            )
            signatures += [signature] if signature else []
        sent = [part["thoughtSignature"] for part in parts if part.get("thoughtSignature")]
        assert sorted(signatures) == sorted(sent), name
        others = [part for part in parts if not part.keys() & {"text", "functionCall"}]
        assert [data for data in kept if data in others] == others, name


def test_calls_and_their_ids(decoded: dict[str, Any]) -> None:
    """Ids of the provider are taken, others derive from the response id; no two calls share one."""
    for name, (_, message) in decoded.items():
        ids = [call.id for call in message.tool_calls]
        assert len(set(ids)) == len(ids) and all(ids), name
    given = decoded["google-gemini-3-5-flash-parallel-tools"][1].tool_calls
    assert [len(call.id) for call in given] == [8, 8]


def test_streamed_arguments_are_whole(decoded: dict[str, Any]) -> None:
    """Ten ingredients with amounts and names, and steps, sent in some sixty updates."""
    (call,) = decoded["google-vertex-gemini-3-1-pro-preview-parallel-tools"][1].tool_calls
    recipe = call.arguments["recipe"]
    assert [sorted(ingredient) for ingredient in recipe["ingredients"]] == [["amount", "name"]] * 10
    assert all(text and isinstance(text, str) for text in (recipe["name"], *recipe["steps"]))


def test_a_blocked_prompt_and_an_error_inside_the_stream(decoded: dict[str, Any]) -> None:
    blocked = decoded["google-unknown-prompt-blocked"][1]
    assert (blocked.error_message, blocked.raw_stop_reason) == ("The prompt was blocked: SAFETY", "SAFETY")
    broken = decoded["google-vertex-unknown-raw-error"][1]
    assert broken.text and broken.error_cause.provider_code == "CANCELLED"
