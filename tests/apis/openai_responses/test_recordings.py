"""Recorded answers of Responses: whole and cut, up to every event, and beside what the forerunner made of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from attrs import frozen
from recording_checks import (
    Recording,
    check_prefixes,
    check_whole_and_cut,
    differences,
    event_borders,
    recordings,
)

from pi_stream import AssistantMessage

API = "openai-responses"
DOCS = Path(__file__).parents[3] / "docs" / "reference"


@frozen
class Rule:
    """Why we differ from the forerunner, in which cases, and in what of the message."""

    cases: tuple[str, ...]
    aspects: frozenset[str]


RULES = {
    "one-answer-a-body": Rule(
        ("azure-openai-gpt-5-1-codex-max-parallel-tools",),
        frozenset({"text", "calls", "usage", "totalTokens"}),
    ),
    "incomplete-without-reason": Rule(("live-aimock-length",), frozenset({"stop"})),
    "items-by-id-without-index": Rule(("live-llamacpp-tool-call-unforced",), frozenset({"calls", "stop"})),
    "streamed-text-stands": Rule(("openai-gpt-5-2-text",), frozenset({"text"})),
}

# Text, number of calls, output tokens and kept items as a person reads them in the body.
READ = {
    "openai-gpt-4o-tool": ("", 1, 38, []),
    "openai-gpt-5-4-tool": ("", 1, 47, ["tool_search_call", "tool_search_output"]),
    "openai-gpt-5-6-sol-tool": ("", 1, 87, ["program", "function_call"]),
    "openai-gpt-5-codex-reasoning": ("", 0, 151, ["local_shell_call"]),
    "openai-gpt-5-1-text": ("", 0, 0, ["apply_patch_call"]),
    "openrouter-gpt-oss-20b-reasoning": ("4", 0, 37, []),
    "azure-openai-gpt-5-nano-encrypted-reasoning": ("2", 0, 135, []),
    "xai-grok-4-3-parallel-tools": ("", 2, 364, []),
    "live-llamacpp-tool-call-cut": ("", 1, 14, []),
}


@pytest.fixture(scope="module")
def cases(shared: Path) -> list[Recording]:
    return list(recordings(shared, API, API))


@pytest.fixture(scope="module")
def messages(cases: list[Recording]) -> dict[str, AssistantMessage]:
    """Each recording decoded whole and cut, to the same events, keeping the guarantees."""
    return {recording.name: check_whole_and_cut(recording) for recording in cases}


def test_every_recording_keeps_the_guarantees_whole_and_cut(messages: dict[str, AssistantMessage]) -> None:
    assert len(messages) >= 52


def test_messages_equal_the_forerunner_s_save_for_the_rules(
    cases: list[Recording], messages: dict[str, AssistantMessage]
) -> None:
    found = {
        recording.name: frozenset(differences(recording, messages[recording.name]))
        for recording in cases
        if recording.forerunner is not None
    }
    expected = {case: rule.aspects for rule in RULES.values() for case in rule.cases}
    assert {name: aspects for name, aspects in found.items() if aspects} == expected
    assert len(expected) <= 0.15 * len(found), "at least 85 % are equal outright"


def test_signatures_equal_the_forerunner_s(
    cases: list[Recording], messages: dict[str, AssistantMessage]
) -> None:
    """What is replayed is the same: reasoning items as JSON, ids and phases of texts, and both ids of calls."""
    different = {case for rule in RULES.values() for case in rule.cases}
    for recording in cases:
        if recording.forerunner is None or recording.name in different:
            continue
        ours = messages[recording.name].content
        # A text block opens with its first piece: one that stayed empty is none.
        theirs = [block for block in recording.forerunner["content"] if block.get("text") != ""]
        assert [block.type for block in ours] == [block["type"] for block in theirs], recording.name
        for block, other in zip(ours, theirs, strict=True):
            for ours_name, theirs_name in (
                ("text_signature", "textSignature"),
                ("thinking_signature", "thinkingSignature"),
            ):
                signature, expected = getattr(block, ours_name, None), other.get(theirs_name)
                assert (signature is None) == (expected is None), recording.name
                if signature is not None:
                    assert json.loads(signature) == json.loads(expected), recording.name
            if block.type == "toolCall":
                assert block.id == other["id"], recording.name


@pytest.mark.parametrize("name", READ)
def test_messages_are_what_a_person_reads_in_the_body(
    messages: dict[str, AssistantMessage], name: str
) -> None:
    given = messages[name]
    kept = [
        entry.data.get("type") for entry in given.provider_data or () if entry.data.get("type") != "message"
    ]
    found = given.text, len(given.tool_calls), given.usage.output, [type for type in kept if type]
    assert found == READ[name]


def test_built_in_items_and_citations_of_every_recording_are_kept(
    cases: list[Recording], messages: dict[str, AssistantMessage]
) -> None:
    """Nothing in a final output is dropped: it is a block, or kept."""
    in_blocks = {"message", "reasoning", "function_call", "custom_tool_call"}
    for recording in cases:
        output = final_output(recording.body)
        wanted = [item for item in output if item.get("type") not in in_blocks]
        kept = [entry.data for entry in messages[recording.name].provider_data or ()]
        assert [item["id"] for item in wanted if "id" in item] == [
            data["id"] for data in kept if data.get("type") not in (*in_blocks, None)
        ], recording.name
        cited = [part for item in output for part in item.get("content") or () if part.get("annotations")]
        held = [part for data in kept if data.get("type") == "message" for part in data["content"]]
        assert [part["annotations"] for part in cited] == [
            part["annotations"] for part in held if "annotations" in part
        ], recording.name


def final_output(body: bytes) -> list[dict[str, object]]:
    for line in body.decode("utf-8", "replace").splitlines():
        if line.startswith("data: {") and '"response.completed"' in line:
            chunk = json.loads(line[6:])
            if chunk.get("type") == "response.completed":
                return list(chunk["response"]["output"])
    return []


def test_every_prefix_before_the_final_response_is_an_error_that_keeps_its_content(
    cases: list[Recording],
) -> None:
    for recording in cases:
        if recording.arguments["status"] != 200 or not recording.body.strip():
            continue
        borders = event_borders(recording.body)
        final = max(
            (
                recording.body.find(b'"' + name + b'"')
                for name in (b"response.completed", b"response.incomplete")
            ),
            default=-1,
        )
        complete_at = final if final >= 0 else len(recording.body)
        check_prefixes(recording, complete_at, borders[:: max(1, len(borders) // 12)])


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_is_documented(rule: str) -> None:
    texts = [page.read_text(encoding="utf-8") for page in DOCS.glob("*.md")]
    assert any(f"`{rule}`" in text for text in texts)
