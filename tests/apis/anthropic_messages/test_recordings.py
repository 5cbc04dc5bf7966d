"""Recorded answers of the Messages api: whole, cut, broken off, and beside what the forerunner made of them.

The rules are explained in ``docs/reference``; a rule that no case needs any more fails here.
"""

from __future__ import annotations

import json
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
    "whole-answer-is-read": (
        {"text", "stop", "usage", "totalTokens", "cacheWrite1h"},
        {"live-litellm-mock", "live-llamacpp-not-stream"},
    ),
    "one-answer-a-body": (
        {"text", "calls", "stop", "usage", "totalTokens"},
        {"anthropic-claude-sonnet-4-5-parallel-tools", "anthropic-claude-sonnet-4-5-tool-2"},
    ),
}
PREFIXES = 24
"""How many places each recording is broken off at."""


@cache
def load(shared: Path) -> list[Recording]:
    if not (shared / "recordings").is_dir():
        pytest.skip(f"no recordings: {shared / 'recordings'}")
    return list(recordings(shared, "anthropic-messages", "anthropic-messages"))


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
    compared = sum(recording.forerunner is not None for recording, _ in decoded.values())
    assert 1 - len(found) / compared >= 0.85


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_is_documented(rule: str) -> None:
    texts = [page.read_text(encoding="utf-8") for page in DOCS.glob("*.md")]
    assert any(f"`{rule}`" in text for text in texts)


def complete_at(body: bytes) -> int:
    """Where the stop reason has come: the end of the first data line that holds one."""
    position = 0
    for line in body.splitlines(keepends=True):
        if line.startswith(b"data:"):
            try:
                event = json.loads(line[5:])
            except ValueError:
                event = None
            if isinstance(event, dict) and event.get("type") == "message_delta":
                if event["delta"].get("stop_reason"):
                    return position + len(line.rstrip())
        position += len(line)
    return len(body) + 1


def test_every_prefix_before_the_stop_reason_is_an_error_that_keeps_its_content(shared: Path) -> None:
    for recording in load(shared):
        if recording.case["status"] != 200 or recording.body[:1] == b"{":
            continue
        borders = [0, *event_borders(recording.body)]
        chosen = borders[:: max(1, len(borders) // PREFIXES)]
        check_prefixes(recording, complete_at(recording.body), [*chosen, *(offset + 40 for offset in chosen)])


def test_content_without_a_block_of_ours_is_kept(decoded: dict[str, Any]) -> None:
    """Every block of the recordings is content or provider data."""
    for name, (recording, message) in decoded.items():
        types = {
            event["content_block"]["type"]
            for line in recording.body.splitlines()
            if line.startswith(b'data: {"type":"content_block_start"') and (event := json.loads(line[5:]))
        }
        kept = {entry.data["type"] for entry in message.provider_data or ()}
        if message.stop_reason != "error" and name not in RULES["one-answer-a-body"][1]:
            assert types - {"text", "thinking", "redacted_thinking", "tool_use"} <= kept, name
