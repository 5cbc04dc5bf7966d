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

from pi_stream.apis.anthropic_messages.request import build_request
from pi_stream.http import HttpRequest
from pi_stream.messages import Context, convert_to_llm
from pi_stream.models import Model
from pi_stream.options import StreamOptions
from pi_stream.serialization import from_json

DOCS = Path(__file__).parents[3] / "docs" / "reference"

CLAUDE_X = Model(
    id="claude-x",
    api="anthropic-messages",
    provider="anthropic",
    base_url="https://api.anthropic.com",
    reasoning=True,
    input=("text", "image"),
    context_window=200_000,
    max_tokens=32_000,
)
TARGETS = {
    "anthropic-messages": CLAUDE_X,
    "anthropic-messages@adaptive": evolve(CLAUDE_X, id="claude-y", compat={"forceAdaptiveThinking": True}),
    "anthropic-messages@gateway": evolve(
        CLAUDE_X, provider="gateway", base_url="https://gateway.example/anthropic"
    ),
}
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


Wire = dict[str, Any]
Rule = Callable[[Case, Wire, Wire], None]
"""Makes ``theirs`` what the rule says we send instead; ``ours`` is changed only where both sides are free."""


def no_beta_query(case: Case, theirs: Wire, ours: Wire) -> None:
    theirs["url"] = theirs["url"].removesuffix("?beta=true")


def no_threads(case: Case, theirs: Wire, ours: Wire) -> None:
    theirs["body"].pop("thread", None)
    if theirs["headers"].get("anthropic-beta") == "message-threads-2026-08-12":
        del theirs["headers"]["anthropic-beta"]


def no_thinking_switch_unasked(case: Case, theirs: Wire, ours: Wire) -> None:
    if case.lacks("reasoning") and theirs["body"].get("thinking") == {"type": "disabled"}:
        del theirs["body"]["thinking"]


def no_caching_unasked(case: Case, theirs: Wire, ours: Wire) -> None:
    if not case.lacks("cacheRetention", "sessionId"):
        return
    body = theirs["body"]
    for part in (*body.get("system", ()), *body.get("tools", ())):
        part.pop("cache_control", None)
    for message, own in zip(body["messages"], ours["body"]["messages"], strict=False):
        parts = message["content"]
        marked = [part.pop("cache_control", None) for part in parts] if isinstance(parts, list) else []
        # A string was made a list only to carry the marker.
        if any(marked) and len(parts) == 1 and isinstance(own["content"], str):
            message["content"] = parts[0]["text"]


def max_tokens_as_given(case: Case, theirs: Wire, ours: Wire) -> None:
    if not case.lacks("maxTokens"):
        theirs["body"]["max_tokens"] = case.options["maxTokens"]


def budget_inside_max_tokens(case: Case, theirs: Wire, ours: Wire) -> None:
    """A cap of 500 tokens leaves no room for the least budget."""
    if case.name == "reasoning-high-max-small" and theirs["body"]["thinking"]["type"] == "enabled":
        del theirs["body"]["thinking"]
        del theirs["headers"]["anthropic-beta"]


def legal_ids(case: Case, theirs: Wire, ours: Wire) -> None:
    def plain(call_id: str) -> str:
        call_id = re.sub(r"[^A-Za-z0-9_-]", "_", call_id)
        return f"{call_id[:55]}..." if len(call_id) == 64 else call_id

    for body in (theirs["body"], ours["body"]):
        for message in body["messages"]:
            for part in message["content"] if isinstance(message["content"], list) else ():
                for key in ("id", "tool_use_id"):
                    if key in part:
                        part[key] = plain(part[key])


RULES: dict[str, Rule] = {
    "no-beta-query": no_beta_query,
    "no-threads": no_threads,
    "no-thinking-switch-unasked": no_thinking_switch_unasked,
    "no-caching-unasked": no_caching_unasked,
    "max-tokens-as-given": max_tokens_as_given,
    "budget-inside-max-tokens": budget_inside_max_tokens,
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


def load(shared: Path, target_name: str, name: str) -> tuple[Case, Wire, HttpRequest]:
    """A case, what the forerunner sent for it, and our request."""
    folder = shared / "payloads"
    given = json.loads((folder / "contexts" / f"{name}.json").read_text())
    theirs: Wire = json.loads((folder / target_name / f"{name}.json").read_text())["wire"]
    model = TARGETS[target_name]
    names = {"$api": model.api, "$provider": model.provider, "$model": model.id, "$sig": "SIG"}
    overrides: dict[str, Any] = given.get("modelOverrides", {})
    if "input" in overrides:
        overrides["input"] = tuple(overrides["input"])
    options = {OPTION_NAMES[key]: value for key, value in given["options"].items()}
    if options.get("tool_choice") == "any":
        options["tool_choice"] = "required"
    context = from_json(filled(given["context"], names), Context)
    messages = convert_to_llm(context.transcript())
    request = build_request(evolve(model, **overrides), messages, StreamOptions(**options))
    theirs["headers"] = {header: value for header, value in theirs["headers"].items() if value != "<default>"}
    return Case(name, given["options"]), theirs, request


def wire(request: HttpRequest) -> Wire:
    return {"method": request.method, "url": request.url, "headers": request.headers, "body": request.body}


@pytest.mark.parametrize("target_name", TARGETS)
def test_requests_equal_the_forerunner_s_save_for_the_rules(shared: Path, target_name: str) -> None:
    for name in contexts(shared):
        case, theirs, request = load(shared, target_name, name)
        ours = wire(request)
        for rule in RULES.values():
            rule(case, theirs, ours)
        assert ours["body"] == theirs["body"], name
        assert ours["url"] == theirs["url"]
        assert {header: ours["headers"].get(header) for header in theirs["headers"]} == theirs["headers"], (
            name
        )
        assert ours["headers"].get("anthropic-beta") == theirs["headers"].get("anthropic-beta"), name


def test_every_rule_is_needed(shared: Path) -> None:
    """A rule that changes no stored request explains nothing."""
    unneeded = set(RULES)
    for target_name in TARGETS:
        for name in contexts(shared):
            for rule_name in sorted(unneeded):
                case, theirs, request = load(shared, target_name, name)
                before = copy.deepcopy(theirs)
                RULES[rule_name](case, theirs, wire(request))
                if theirs != before:
                    unneeded.discard(rule_name)
    assert not unneeded


@pytest.mark.parametrize("rule_name", RULES)
def test_every_rule_is_documented(rule_name: str) -> None:
    texts = [page.read_text(encoding="utf-8") for page in DOCS.glob("*.md")]
    assert any(f"`{rule_name}`" in text for text in texts)
