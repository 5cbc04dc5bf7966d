"""Our requests beside those of the forerunner: equal, save for differences that are rules with a name and a reason.

The rules are explained in ``docs/reference``; a rule that no case needs any more fails here.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve, frozen

from pi_stream.apis.google.request import build_request
from pi_stream.http import HttpRequest
from pi_stream.messages import Context, convert_to_llm
from pi_stream.models import Model
from pi_stream.options import StreamOptions
from pi_stream.serialization import from_json

DOCS = Path(__file__).parents[3] / "docs" / "reference"


def target(model: str) -> Model:
    return Model(
        id=model,
        api="google-generative-ai",
        provider="google",
        base_url="https://generativelanguage.googleapis.com/v1beta",
        reasoning=True,
        input=("text", "image"),
        context_window=200_000,
        max_tokens=32_000,
    )


TARGETS = {
    "google-generative-ai": target("gemini-2.5-flash"),
    "google-generative-ai@3": target("gemini-3-pro-preview"),
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
# The forerunner's SDK sends it, and writes over the caller's user agent.
SDK_HEADERS = {"x-goog-api-client"}

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

    model: Model
    options: dict[str, Any]
    simple: bool
    context: Context


Body = dict[str, Any]
Rule = Callable[[Case, Body, Body], None]
"""Makes ``theirs`` what the rule says we send instead; ``ours`` is changed only where both sides are free."""


def no_default_max_tokens(case: Case, theirs: Body, ours: Body) -> None:
    if case.simple and "maxTokens" not in case.options:
        theirs["generationConfig"].pop("maxOutputTokens", None)


def max_tokens_as_given(case: Case, theirs: Body, ours: Body) -> None:
    if "maxTokens" in case.options:
        theirs["generationConfig"]["maxOutputTokens"] = case.options["maxTokens"]


def no_thinking_switch_unasked(case: Case, theirs: Body, ours: Body) -> None:
    if "reasoning" not in case.options:
        theirs["generationConfig"].pop("thinkingConfig", None)


def thinking_inside_max_tokens(case: Case, theirs: Body, ours: Body) -> None:
    budget = theirs["generationConfig"].get("thinkingConfig", {}).get("thinkingBudget")
    if budget is not None and "maxTokens" in case.options and budget > case.options["maxTokens"] - 1024:
        theirs["generationConfig"]["thinkingConfig"] = {"thinkingBudget": 0}


def no_empty_config(case: Case, theirs: Body, ours: Body) -> None:
    if not theirs["generationConfig"]:
        del theirs["generationConfig"]


def images_after_all_results(case: Case, theirs: Body, ours: Body) -> None:
    made: list[Body] = []
    results: Body | None = None
    images: Body | None = None
    for content in theirs["contents"]:
        parts = content["parts"]
        if results is not None and "functionResponse" in parts[0]:
            results["parts"] += parts
        elif images is not None and parts[0].get("text") == "Tool result image:":
            images["parts"] += parts
        else:
            made.append(content)
            if "functionResponse" in parts[0]:
                results = content
            elif parts[0].get("text") == "Tool result image:":
                images = content
            else:
                results = images = None
    theirs["contents"] = made


def unsigned_calls_are_marked(case: Case, theirs: Body, ours: Body) -> None:
    if case.model.id.startswith("gemini-3"):
        for content in theirs["contents"]:
            calls = [part for part in content["parts"] if "functionCall" in part]
            if calls:
                calls[0].setdefault("thoughtSignature", "skip_thought_signature_validator")


def redacted_thinking_is_dropped(case: Case, theirs: Body, ours: Body) -> None:
    for content in theirs["contents"]:
        content["parts"] = [part for part in content["parts"] if part.get("text") != "[Reasoning redacted]"]


def own_id_hash(case: Case, theirs: Body, ours: Body) -> None:
    def plain(id: str) -> str:
        return f"{id[:55]}<hash>" if len(id) == 64 else re.sub(r"[^A-Za-z0-9_-]", "_", id)

    for side in (theirs, ours):
        for part in all_parts(side):
            for name in ("functionCall", "functionResponse"):
                if "id" in part.get(name, {}):
                    part[name]["id"] = plain(part[name]["id"])


def all_parts(body: Body) -> Iterator[Body]:
    for content in body["contents"]:
        yield from content["parts"]


RULES: dict[str, Rule] = {
    "no-default-max-tokens": no_default_max_tokens,
    "max-tokens-as-given": max_tokens_as_given,
    "no-thinking-switch-unasked": no_thinking_switch_unasked,
    "thinking-inside-max-tokens": thinking_inside_max_tokens,
    "no-empty-config": no_empty_config,
    "images-after-all-results": images_after_all_results,
    "unsigned-calls-are-marked": unsigned_calls_are_marked,
    "redacted-thinking-is-dropped": redacted_thinking_is_dropped,
    "own-id-hash": own_id_hash,
}


# --- the material -----------------------------------------------------------------------------------------------------


def filled(value: Any, names: dict[str, str]) -> Any:
    """The context with its ``$`` placeholders filled in for a target."""
    if isinstance(value, str):
        return names.get(value, value)
    if isinstance(value, list):
        return [filled(item, names) for item in value]
    if isinstance(value, dict):
        return {key: filled(item, names) for key, item in value.items()}
    return value


def load(shared: Path, target_name: str, name: str) -> tuple[Case, dict[str, Any], HttpRequest]:
    """A case, the request the forerunner sent for it, and ours."""
    folder = shared / "payloads"
    if not folder.is_dir():
        pytest.skip(f"no stored requests: {folder}")
    given = json.loads((folder / "contexts" / f"{name}.json").read_text())
    wire: dict[str, Any] = json.loads((folder / target_name / f"{name}.json").read_text())["wire"]
    model = TARGETS[target_name]
    names = {"$api": model.api, "$provider": model.provider, "$model": model.id, "$sig": "U0lHTkFUVVJF"}
    overrides: dict[str, Any] = given.get("modelOverrides", {})
    if "input" in overrides:
        overrides["input"] = tuple(overrides["input"])
    model = evolve(model, **overrides)
    options = {OPTION_NAMES[key]: value for key, value in given["options"].items()}
    if options.get("tool_choice") == "any":
        options["tool_choice"] = "required"
    context = from_json(filled(given["context"], names), Context)
    request = build_request(model, convert_to_llm(context.transcript()), StreamOptions(**options))
    return Case(model, given["options"], given["call"] == "simple", context), wire, request


def body_of(request: HttpRequest) -> Body:
    assert request.body is not None
    return request.body


@pytest.mark.parametrize("name", CONTEXTS)
@pytest.mark.parametrize("target_name", TARGETS)
def test_request_equals_the_forerunner_s_save_for_the_rules(
    shared: Path, target_name: str, name: str
) -> None:
    case, wire, request = load(shared, target_name, name)
    theirs, ours = wire["body"], body_of(request)
    for rule in RULES.values():
        rule(case, theirs, ours)
    assert ours == theirs
    assert (request.method, request.url) == (wire["method"], wire["url"])
    notable = {
        header: value
        for header, value in wire["headers"].items()
        if value != "<default>" and header not in SDK_HEADERS
    }
    assert {header: request.headers.get(header) for header in notable} == notable


def test_every_stored_context_is_compared_or_left_to_the_hand_over(shared: Path) -> None:
    folder = shared / "payloads" / "contexts"
    if not folder.is_dir():
        pytest.skip(f"no stored requests: {folder}")
    assert {file.stem for file in folder.glob("*.json")} == {*CONTEXTS, *HANDED_OVER}


def test_the_caller_s_headers_are_sent_and_no_sdk_names_itself(shared: Path) -> None:
    """The rule ``own-headers``."""
    _, wire, request = load(shared, "google-generative-ai", "metadata-headers")
    assert wire["headers"].keys() >= SDK_HEADERS and wire["headers"]["user-agent"] == "<default>"
    assert not request.headers.keys() & SDK_HEADERS and request.headers["user-agent"] == "me"


@pytest.mark.parametrize("rule_name", RULES)
def test_every_rule_is_needed(shared: Path, rule_name: str) -> None:
    """A rule that changes no stored request explains nothing."""

    def needed(target_name: str, name: str) -> bool:
        case, wire, request = load(shared, target_name, name)
        theirs, ours = wire["body"], body_of(request)
        for rule in RULES:
            if rule == rule_name:
                break
            RULES[rule](case, theirs, ours)
        before = copy.deepcopy(theirs)
        RULES[rule_name](case, theirs, ours)
        return bool(theirs != before)

    assert any(needed(target_name, name) for target_name in TARGETS for name in CONTEXTS)


@pytest.mark.parametrize("rule_name", [*RULES, "own-headers"])
def test_every_rule_is_documented(rule_name: str) -> None:
    texts = [page.read_text(encoding="utf-8") for page in DOCS.glob("*.md")]
    assert any(f"`{rule_name}`" in text for text in texts)
