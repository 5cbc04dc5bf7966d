"""Recorded answers of the Converse stream: whole, cut, broken off, and beside what the forerunner made of them.

The rules are explained in ``docs/reference``; a rule that no case needs any more fails here.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from recording_checks import Recording, check_prefixes, check_whole_and_cut, differences, recordings

from pi_stream.messages import AssistantMessage
from pi_stream.wire.eventstream import EventStreamDecoder

DOCS = Path(__file__).parents[3] / "docs" / "reference"

# Differences from the forerunner's message: the aspects that differ, and in which cases.
RULES: dict[str, tuple[set[str], set[str]]] = {
    "provider-tools-are-kept": (
        {"calls"},
        {"amazon-bedrock-nova-2-lite-parallel-tools", "amazon-bedrock-nova-2-lite-v1-tool"},
    ),
}


@cache
def load(shared: Path) -> list[Recording]:
    if not (shared / "recordings").is_dir():
        pytest.skip(f"no recordings: {shared / 'recordings'}")
    return list(recordings(shared, "bedrock-converse-stream", "bedrock-converse-stream"))


@pytest.fixture(scope="module")
def decoded(shared: Path) -> dict[str, tuple[Recording, AssistantMessage]]:
    """All recordings with their final messages, checked whole and cut."""
    return {recording.name: (recording, check_whole_and_cut(recording)) for recording in load(shared)}


def test_recordings_decode_whole_and_cut(decoded: dict[str, Any]) -> None:
    assert len(decoded) >= 16


def test_messages_equal_the_forerunner_s_save_for_the_rules(decoded: dict[str, Any]) -> None:
    found = {
        name: set(differing)
        for name, (recording, message) in decoded.items()
        if (differing := differences(recording, message))
    }
    covered = {name: aspects for aspects, names in RULES.values() for name in names}
    assert set(found) == set(covered)
    for name, aspects in found.items():
        assert aspects <= covered[name], name
    assert 1 - len(found) / len(decoded) >= 0.85


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_is_documented(rule: str) -> None:
    texts = [page.read_text(encoding="utf-8") for page in DOCS.glob("*.md")]
    assert any(f"`{rule}`" in text for text in texts)


def frame_borders(body: bytes) -> list[tuple[int, str]]:
    """The offset behind each frame, and what it was."""
    borders, position = [], 0
    while position < len(body):
        size = int.from_bytes(body[position : position + 4], "big")
        (frame,) = EventStreamDecoder().feed(body[position : position + size])
        position += size
        borders.append((position, str(frame.headers.get(":event-type"))))
    return borders


def test_every_prefix_before_the_stop_reason_is_an_error_that_keeps_its_content(shared: Path) -> None:
    for recording in load(shared):
        if recording.case["status"] != 200:
            continue
        borders = frame_borders(recording.body)
        complete_at = next(offset for offset, kind in borders if kind == "messageStop")
        offsets = [0, *(offset for offset, _ in borders)][:: max(1, len(borders) // 24)]
        check_prefixes(recording, complete_at, [*offsets, *(offset + 9 for offset in offsets)])


def test_whole_frames_after_the_stop_reason_may_be_missing(shared: Path) -> None:
    """Complete is complete, even if the usage never came."""
    for recording in load(shared):
        if recording.case["status"] == 200:
            complete_at = next(at for at, kind in frame_borders(recording.body) if kind == "messageStop")
            last = recording.decode(recording.body[:complete_at])[-1]
            assert last.type == recording.decode()[-1].type, recording.name


def test_content_without_a_block_of_ours_is_kept(decoded: dict[str, Any]) -> None:
    """Tools that ran at the provider, and citations, are in the message."""
    _, message = decoded["amazon-bedrock-nova-2-lite-v1-tool"]
    assert [next(iter(entry.data)) for entry in message.provider_data] == [
        "toolUse",
        "toolResult",
        "citationsContent",
        "citationsContent",
    ]
    _, message = decoded["amazon-bedrock-claude-haiku-4-5-v1-document"]
    assert message.provider_data[0].data["citationsContent"]["citations"][0]["title"] == "facts"


def test_the_invoke_stream_reaches_the_translator_of_messages(shared: Path) -> None:
    """Frames around events of the Messages api: the same decoder, another translator."""
    if not (shared / "recordings").is_dir():
        pytest.skip(f"no recordings: {shared / 'recordings'}")
    found = {recording.name: recording for recording in recordings(shared, "other", "bedrock-invoke")}
    message = check_whole_and_cut(found["amazon-bedrock-claude-sonnet-4-5-v1-after-tool"])
    assert (message.text, message.stop_reason, message.usage.total_tokens) == ("umbrella", "stop", 796)
