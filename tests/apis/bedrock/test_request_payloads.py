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
from urllib.parse import urlsplit

import pytest
from attrs import evolve, frozen

from pi_stream.apis.bedrock.request import build_request
from pi_stream.http import HttpRequest
from pi_stream.messages import Context, convert_to_llm
from pi_stream.models import Model
from pi_stream.options import StreamOptions
from pi_stream.serialization import from_json

DOCS = Path(__file__).parents[3] / "docs" / "reference"
TARGET = "bedrock-converse-stream"
MODEL = Model(
    id="us.anthropic.claude-sonnet-4-5-20250929-v1:0",
    api=TARGET,
    provider="amazon-bedrock",
    base_url="https://bedrock-runtime.us-east-1.amazonaws.com",
    reasoning=True,
    input=("text", "image"),
    context_window=200_000,
    max_tokens=32_000,
)
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
    """A context as the forerunner got it: ``options`` have its names."""

    name: str
    options: dict[str, Any]

    def lacks(self, *names: str) -> bool:
        return not any(name in self.options for name in names)


Body = dict[str, Any]
Rule = Callable[[Case, Body, Body], None]
"""Makes ``theirs`` what the rule says we send instead; ``ours`` is changed only where both sides are free."""


def no_default_max_tokens(case: Case, theirs: Body, ours: Body) -> None:
    """A budget needs a limit that is larger."""
    if case.lacks("maxTokens") and "additionalModelRequestFields" not in theirs:
        theirs.pop("inferenceConfig", None)


def max_tokens_as_given(case: Case, theirs: Body, ours: Body) -> None:
    if not case.lacks("maxTokens"):
        theirs["inferenceConfig"]["maxTokens"] = case.options["maxTokens"]


def budget_inside_max_tokens(case: Case, theirs: Body, ours: Body) -> None:
    """A cap of 500 tokens leaves no room for the least budget."""
    if case.name == "reasoning-high-max-small":
        theirs.pop("additionalModelRequestFields", None)


def no_caching_unasked(case: Case, theirs: Body, ours: Body) -> None:
    if case.lacks("cacheRetention", "sessionId"):
        for blocks in (theirs.get("system", []), *(message["content"] for message in theirs["messages"])):
            blocks[:] = [block for block in blocks if "cachePoint" not in block]


def turns_alternate(case: Case, theirs: Body, ours: Body) -> None:
    merged: list[Body] = []
    for message in theirs["messages"]:
        if merged and merged[-1]["role"] == message["role"]:
            merged[-1]["content"] += message["content"]
        else:
            merged.append(message)
    for message in merged:
        said = [block for block in message["content"] if block != {"text": "<empty>"}]
        message["content"] = said or [{"text": "<empty>"}]
    theirs["messages"] = merged


def used_tools_stay_declared(case: Case, theirs: Body, ours: Body) -> None:
    if case.name == "tool-history-no-tools":
        theirs["toolConfig"] = ours.get("toolConfig")
        assert [tool["toolSpec"]["name"] for tool in ours["toolConfig"]["tools"]] == ["read"]


def metadata_is_sent(case: Case, theirs: Body, ours: Body) -> None:
    if not case.lacks("metadata"):
        theirs["requestMetadata"] = case.options["metadata"]


def legal_ids(case: Case, theirs: Body, ours: Body) -> None:
    def plain(call_id: str) -> str:
        call_id = re.sub(r"[^A-Za-z0-9_-]", "_", call_id)
        return f"{call_id[:55]}..." if len(call_id) == 64 else call_id

    for body in (theirs, ours):
        for message in body["messages"]:
            for block in message["content"]:
                for value in block.values():
                    if "toolUseId" in value:
                        value["toolUseId"] = plain(value["toolUseId"])


RULES: dict[str, Rule] = {
    "no-default-max-tokens": no_default_max_tokens,
    "max-tokens-as-given": max_tokens_as_given,
    "budget-inside-max-tokens": budget_inside_max_tokens,
    "no-caching-unasked": no_caching_unasked,
    "turns-alternate": turns_alternate,
    "used-tools-stay-declared": used_tools_stay_declared,
    "metadata-is-sent": metadata_is_sent,
    "legal-ids": legal_ids,
}


# --- the material -----------------------------------------------------------------------------------------------------


def contexts(shared: Path) -> list[str]:
    folder = shared / "payloads" / "contexts"
    if not folder.is_dir():
        pytest.skip(f"no stored requests: {folder}")
    return sorted({file.stem for file in folder.glob("*.json")} - HANDED_OVER)


def filled(value: Any, names: dict[str, str]) -> Any:
    """The context with its ``$`` placeholders filled in for a target."""
    if isinstance(value, str):
        return names.get(value, value)
    if isinstance(value, list):
        return [filled(item, names) for item in value]
    if isinstance(value, dict):
        return {key: filled(item, names) for key, item in value.items()}
    return value


def load(shared: Path, name: str) -> tuple[Case, dict[str, Any], HttpRequest]:
    """A case, what the forerunner sent for it, and our request."""
    folder = shared / "payloads"
    given = json.loads((folder / "contexts" / f"{name}.json").read_text())
    theirs = json.loads((folder / TARGET / f"{name}.json").read_text())["wire"]
    names = {"$api": MODEL.api, "$provider": MODEL.provider, "$model": MODEL.id, "$sig": "SIG"}
    overrides: dict[str, Any] = given.get("modelOverrides", {})
    if "input" in overrides:
        overrides["input"] = tuple(overrides["input"])
    options = {OPTION_NAMES[key]: value for key, value in given["options"].items()}
    if options.get("tool_choice") == "any":
        options["tool_choice"] = "required"
    messages = convert_to_llm(from_json(filled(given["context"], names), Context).transcript())
    request = build_request(evolve(MODEL, **overrides), messages, StreamOptions(**options))
    theirs["headers"] = {header: value for header, value in theirs["headers"].items() if value != "<default>"}
    return Case(name, given["options"]), theirs, request


def test_requests_equal_the_forerunner_s_save_for_the_rules(shared: Path) -> None:
    for name in contexts(shared):
        case, theirs, request = load(shared, name)
        assert request.body is not None
        for rule in RULES.values():
            rule(case, theirs["body"], request.body)
        assert request.body == theirs["body"], name
        assert (request.method, urlsplit(request.url).path) == (theirs["method"], theirs["url"])
        assert {header: request.headers.get(header) for header in theirs["headers"]} == theirs["headers"]


def test_every_rule_is_needed(shared: Path) -> None:
    """A rule that changes no stored request explains nothing."""
    unneeded = set(RULES)
    for name in contexts(shared):
        for rule_name in sorted(unneeded):
            case, theirs, request = load(shared, name)
            before = copy.deepcopy(theirs)
            RULES[rule_name](case, theirs["body"], request.body or {})
            if theirs != before:
                unneeded.discard(rule_name)
    assert not unneeded


@pytest.mark.parametrize("rule_name", RULES)
def test_every_rule_is_documented(rule_name: str) -> None:
    texts = [page.read_text(encoding="utf-8") for page in DOCS.glob("*.md")]
    assert any(f"`{rule_name}`" in text for text in texts)
