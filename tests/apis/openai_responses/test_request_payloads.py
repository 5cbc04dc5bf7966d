"""Our requests beside those of the forerunner: equal, save for differences that are rules with a name and a reason.

The rules are explained in ``docs/reference``; a rule that no case needs any more fails here.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve, frozen

from pi_stream.apis._schema import strict_schema
from pi_stream.apis.openai_responses.request import build_request
from pi_stream.http import HttpRequest
from pi_stream.messages import Context, convert_to_llm
from pi_stream.models import Model
from pi_stream.options import StreamOptions
from pi_stream.serialization import from_json

DOCS = Path(__file__).parents[3] / "docs" / "reference"
TARGET = Model(
    id="gpt-x",
    api="openai-responses",
    provider="openai",
    base_url="https://api.openai.com/v1",
    reasoning=True,
    input=("text", "image"),
    context_window=200_000,
    max_tokens=32_000,
)
SIGNATURE = {
    "type": "reasoning",
    "id": "rs_9",
    "summary": [{"type": "summary_text", "text": "let me think"}],
    "encrypted_content": "ENC",
}
_NAMES = """
argument-error-call cache-long cache-short empty-blocks ids-other-provider length-and-pending
max-tokens-over-window metadata-headers mid-system plain-string raw-stream-no-options raw-stream-tool-choice
reasoning-high reasoning-high-max-small reasoning-low reasoning-medium reasoning-minimal
reasoning-on-nonreasoning reasoning-xhigh session-id-long starts-with-assistant system-prompt
thinking-other-provider thinking-redacted thinking-same-provider-other-model thinking-tools-same-model
thinking-unsigned-same-model tool-choice-none tool-history-no-tools tool-result-empty tool-result-image
tool-results-error tool-round tools tools-strict two-users-in-a-row user-array-image user-image-nonvision
user-image-only
"""
CONTEXTS = _NAMES.split()
# Dropped turns and missing results are the business of the hand-over, which comes before a request is built.
HANDED_OVER = {"aborted-and-error", "error-with-result", "orphan-calls"}

OPTION_NAMES = {
    "cacheRetention": "cache_retention",
    "headers": "headers",
    "maxTokens": "max_tokens",
    "metadata": "metadata",
    "reasoning": "reasoning",
    "sessionId": "session_id",
    "toolChoice": "tool_choice",
}


@frozen
class Case:
    """A context as the forerunner got it: ``options`` have its names; ``simple`` calls have defaults of their own."""

    name: str
    options: dict[str, Any]
    simple: bool
    tools: list[dict[str, Any]]

    def lacks(self, *names: str) -> bool:
        return not any(name in self.options for name in names)


Body = dict[str, Any]
Rule = Callable[[Case, Body, Body], None]
"""Makes ``theirs`` what the rule says we send instead; ``ours`` is changed only where both sides are free."""


def no_default_max_tokens(case: Case, theirs: Body, ours: Body) -> None:
    if case.simple and case.lacks("maxTokens"):
        theirs.pop("max_output_tokens", None)


def max_tokens_as_given(case: Case, theirs: Body, ours: Body) -> None:
    if not case.lacks("maxTokens") and "max_output_tokens" in theirs:
        theirs["max_output_tokens"] = case.options["maxTokens"]


def no_thinking_switch_unasked(case: Case, theirs: Body, ours: Body) -> None:
    if case.lacks("reasoning") and theirs.get("reasoning") == {"effort": "none"}:
        del theirs["reasoning"]


def reasoning_comes_encrypted(case: Case, theirs: Body, ours: Body) -> None:
    if case.name != "reasoning-on-nonreasoning":
        theirs["include"] = ["reasoning.encrypted_content"]


def strict_is_said(case: Case, theirs: Body, ours: Body) -> None:
    wanted = {tool["name"]: tool.get("constrainedSampling") for tool in case.tools}
    for tool in theirs.get("tools", ()):
        tool["strict"] = bool(wanted.get(tool["name"]))
        if tool["strict"]:
            tool["parameters"] = strict_schema(tool["parameters"])


def own_tool_choice(case: Case, theirs: Body, ours: Body) -> None:
    if theirs.get("tool_choice") == "any":
        theirs["tool_choice"] = "required"


def metadata_is_sent(case: Case, theirs: Body, ours: Body) -> None:
    if not case.lacks("metadata"):
        theirs["metadata"] = case.options["metadata"]


def no_made_up_item_ids(case: Case, theirs: Body, ours: Body) -> None:
    if case.name == "ids-other-provider":
        for item in theirs["input"]:
            if item.get("type") == "function_call":
                item.pop("id", None)


def own_id_hash(case: Case, theirs: Body, ours: Body) -> None:
    for item in ours["input"]:
        if "call_id" in item:
            item["call_id"] = re.sub(r"(?<=.)_[a-z2-7]{8}$", "", item["call_id"])


RULES: dict[str, Rule] = {
    "no-default-max-tokens": no_default_max_tokens,
    "max-tokens-as-given": max_tokens_as_given,
    "no-thinking-switch-unasked": no_thinking_switch_unasked,
    "reasoning-comes-encrypted": reasoning_comes_encrypted,
    "strict-is-said": strict_is_said,
    "own-tool-choice": own_tool_choice,
    "metadata-is-sent": metadata_is_sent,
    "no-made-up-item-ids": no_made_up_item_ids,
    "own-id-hash": own_id_hash,
}


# --- the material -----------------------------------------------------------------------------------------------------


def filled(value: Any, names: dict[str, str]) -> Any:
    """The context with its ``$`` placeholders filled in."""
    if isinstance(value, str):
        return names.get(value, value)
    if isinstance(value, list):
        return [filled(item, names) for item in value]
    if isinstance(value, dict):
        return {key: filled(item, names) for key, item in value.items()}
    return value


def load(shared: Path, name: str) -> tuple[Case, dict[str, Any] | None, HttpRequest]:
    """A case, what the forerunner sent for it (None where it failed), and our request."""
    folder = shared / "payloads"
    if not folder.is_dir():
        pytest.skip(f"no stored requests: {folder}")
    given = json.loads((folder / "contexts" / f"{name}.json").read_text())
    wire = json.loads((folder / "openai-responses" / f"{name}.json").read_text()).get("wire")
    names = {
        "$api": TARGET.api,
        "$provider": TARGET.provider,
        "$model": TARGET.id,
        "$sig": json.dumps(SIGNATURE),
    }
    overrides: dict[str, Any] = given.get("modelOverrides", {})
    if "input" in overrides:
        overrides["input"] = tuple(overrides["input"])
    options = {OPTION_NAMES[key]: value for key, value in given["options"].items()}
    if options.get("tool_choice") == "any":
        options["tool_choice"] = "required"
    context = from_json(filled(given["context"], names), Context)
    messages = convert_to_llm(context.transcript())
    request = build_request(evolve(TARGET, **overrides), messages, StreamOptions(**options))
    case = Case(name, given["options"], given["call"] == "simple", given["context"].get("tools", []))
    return case, wire, request


@pytest.mark.parametrize("name", [name for name in CONTEXTS if name != "thinking-redacted"])
def test_request_equals_the_forerunner_s_save_for_the_rules(shared: Path, name: str) -> None:
    case, wire, request = load(shared, name)
    assert wire is not None
    assert request.body is not None
    theirs, ours = wire["body"], request.body
    for rule in RULES.values():
        rule(case, theirs, ours)
    assert ours == theirs
    assert (request.method, request.url) == (wire["method"], wire["url"])
    notable = {header: value for header, value in wire["headers"].items() if value != "<default>"}
    assert {header: request.headers.get(header) for header in notable} == notable


def test_an_unreadable_signature_is_left_out(shared: Path) -> None:
    """Rule ``unreadable-signature-is-left-out``: the forerunner failed here."""
    _, wire, request = load(shared, "thinking-redacted")
    assert wire is None
    assert request.body is not None
    assert [item.get("type", item["role"]) for item in request.body["input"]] == ["user", "message", "user"]


def test_every_stored_context_is_compared_or_left_to_the_hand_over(shared: Path) -> None:
    folder = shared / "payloads" / "contexts"
    if not folder.is_dir():
        pytest.skip(f"no stored requests: {folder}")
    assert {file.stem for file in folder.glob("*.json")} == {*CONTEXTS, *HANDED_OVER}


@pytest.mark.parametrize("rule_name", RULES)
def test_every_rule_is_needed(shared: Path, rule_name: str) -> None:
    """A rule that changes no stored request explains nothing."""

    def needed(name: str) -> bool:
        case, wire, request = load(shared, name)
        if wire is None:
            return False
        before = copy.deepcopy((wire["body"], request.body))
        RULES[rule_name](case, wire["body"], request.body or {})
        return (wire["body"], request.body) != before

    assert any(needed(name) for name in CONTEXTS)


@pytest.mark.parametrize("rule_name", [*RULES, "unreadable-signature-is-left-out"])
def test_every_rule_is_documented(rule_name: str) -> None:
    texts = [page.read_text(encoding="utf-8") for page in DOCS.glob("*.md")]
    assert any(f"`{rule_name}`" in text for text in texts)
