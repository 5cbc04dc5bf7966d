"""Recorded Chat Completions answers: whole, cut, broken off, and beside what the forerunner made of them.

The rules are explained in ``docs/reference``; a rule or a case that is not needed any more fails here.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from recording_checks import (
    CUTS,
    Recording,
    check_whole_and_cut,
    differences,
    event_borders,
    recordings,
)

from pi_stream import decode
from pi_stream.events import Event
from pi_stream.messages import AssistantMessage
from pi_stream.reducer import fold
from pi_stream.serialization import from_json, to_json
from pi_stream.testing import check_events

DOCS = Path(__file__).parents[2] / "docs" / "reference"
HEADING = "## Answers: openai-completions\n"

# Differences from the forerunner's message: the aspects that differ, and the cases in which they do.
RULES: dict[str, tuple[set[str], set[str]]] = {
    "first-choice-only": (
        {"text", "calls"},
        {
            "litellm-proxy-gpt-3-5-turbo-choices",
            "live-llamacpp-two-choices",
            "live-vllm-two-choices",
            "openai-gpt-3-5-turbo-0125-tool-2",
        },
    ),
    "complete-calls-are-tool-use": ({"stop"}, {"openai-gpt-4-0125-preview-tool"}),
    "refusal-is-an-error": ({"text", "stop"}, {"openai-gpt-4o-refusal", "openrouter-gpt-4o-refusal"}),
    "done-without-reason": (
        {"stop"},
        {"openrouter-kimi-k2-tool-no-args-2", "snowflake-claude-sonnet-4-6-text"},
    ),
    "usage-in-x-groq": ({"usage", "reasoning", "totalTokens"}, {"groq-compound-reasoning"}),
    "reasoning-is-output": (
        {"usage", "totalTokens"},
        {"xai-grok-4-fast-reasoning-tool", "xai-grok-code-fast-1-reasoning"},
    ),
}


@cache
def load(shared: Path) -> list[Recording]:
    if not (shared / "recordings").is_dir():
        pytest.skip(f"no recordings: {shared / 'recordings'}")
    return list(recordings(shared, "openai-completions", "openai-completions"))


@pytest.fixture(scope="module")
def decoded(shared: Path) -> dict[str, tuple[Recording, AssistantMessage]]:
    """All recordings with their final messages: the guarantees are kept, and no cut changes an event."""
    return {recording.name: (recording, check_whole_and_cut(recording)) for recording in load(shared)}


def test_recordings_decode_whole_and_cut(decoded: dict[str, Any]) -> None:
    assert len(decoded) >= 98


def test_messages_equal_the_forerunner_s_save_for_the_rules(decoded: dict[str, Any]) -> None:
    """Text, thinking, calls, stop reason and counts: what differs is covered by a rule, and nothing else is."""
    found: dict[str, set[str]] = {}
    for name, (recording, message) in decoded.items():
        assert recording.forerunner is not None, name
        if differing := set(differences(recording, message)):
            found[name] = differing
    covered = {name: aspects for aspects, names in RULES.values() for name in names}
    assert sum(len(names) for _, names in RULES.values()) == len(covered), "a case is in two rules"
    assert set(found) == set(covered)
    for name, differing in found.items():
        assert differing <= covered[name], name
    assert 1 - len(found) / len(decoded) >= 0.85


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_is_documented_with_its_cases(rule: str) -> None:
    """In the table of answers: the rule, what we do, why, and the recordings it covers."""
    pages = [DOCS / "differences.md", DOCS / "_answers-openai-completions.md"]
    texts = [page.read_text(encoding="utf-8") for page in pages if page.exists()]
    section = next(text.partition(HEADING)[2] for text in texts if HEADING in text)
    rows = [line for line in section.partition("\n## ")[0].splitlines() if line.startswith(f"| `{rule}` |")]
    assert len(rows) == 1
    cells = [cell.strip() for cell in rows[0].strip("|").split("|")]
    assert all(cells)
    assert set(re.findall(r"`([^`]+)`", cells[-1])) == RULES[rule][1]


def test_messages_can_be_saved(decoded: dict[str, Any]) -> None:
    for name, (_, message) in decoded.items():
        assert from_json(json.loads(json.dumps(to_json(message))), AssistantMessage) == message, name


def complete_at(body: bytes) -> int:
    """Where the stop reason, or the end mark that stands for it, has come."""
    position = 0
    for line in body.splitlines(keepends=True):
        data = line.removeprefix(b"data:").strip() if line.startswith(b"data:") else b""
        if data == b"[DONE]" or (data.startswith(b"{") and _has_reason(json.loads(data))):
            return position + len(line.rstrip())
        position += len(line)
    return len(body) + 1


def _has_reason(chunk: dict[str, Any]) -> bool:
    choices = chunk.get("choices") or ()
    return any(choice.get("finish_reason") and not choice.get("index") for choice in choices)


def offsets(body: bytes) -> list[int]:
    """Every end of an event, and some places inside each event."""
    borders = [0, *event_borders(body)]
    return [at + step for at in borders for step in (0, 40) if at + step < len(body)]


def streamed(events: list[Event]) -> list[Event]:
    return [event for event in events if event.type.endswith("_delta")]


def test_every_prefix_is_an_error_that_keeps_its_content_or_the_whole_answer(shared: Path) -> None:
    """Before the stop reason it is an error, and worth a retry unless the provider says otherwise; after it, a success."""
    for recording in load(shared):
        if recording.case["status"] != 200 or not recording.body.startswith((b"data:", b":", b"event:")):
            continue
        whole = recording.decode()
        message = fold(whole)
        complete = complete_at(recording.body)
        for offset in offsets(recording.body):
            events = recording.decode(recording.body[:offset])
            where = f"{recording.name} broken off at {offset}"
            assert streamed(events) == streamed(whole)[: len(streamed(events))], where
            last = fold(events)
            if offset < complete:
                assert last.stop_reason == "error", where
                assert last.error_cause is not None
                assert last.error_cause.kind == "truncated" or last == message, where
            else:
                assert (last.stop_reason, last.content) == (message.stop_reason, message.content), where


def test_a_prefix_keeps_the_guarantees_however_it_is_cut(shared: Path) -> None:
    """The check of all guarantees is linear in the events, so a few prefixes of each recording are enough."""
    for recording in load(shared):
        for part in (3, 2):
            prefix = recording.body[: len(recording.body) // part]
            events = recording.decode(prefix)
            check_events(events)
            assert all(recording.decode(prefix, cut=cut) == events for cut in CUTS), recording.name


@pytest.mark.parametrize("folder", ["mistral", "other", "cohere", "google-generative-ai", "ollama-native"])
def test_answers_of_other_protocols_are_no_surprise(shared: Path, folder: str) -> None:
    """Whatever a server sends instead, it becomes a stream that keeps the guarantees."""
    bodies = [path.read_bytes() for path in sorted((shared / "recordings" / folder).glob("*/body.*"))]
    assert bodies
    for body in bodies:
        events = decode(body, api="openai-completions")
        check_events(events)
        assert decode(body, api="openai-completions", cut=64) == events
