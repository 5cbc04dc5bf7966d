"""Our requests beside those of the forerunner: equal, save for differences that are rules with a name and a reason.

The rules are explained in ``docs/reference``; a rule that no case needs any more fails here.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve, frozen

from pi_stream.apis.mistral.request import build_request
from pi_stream.messages import Context, convert_to_llm
from pi_stream.models import Model
from pi_stream.options import StreamOptions
from pi_stream.serialization import from_json

DOCS = Path(__file__).parents[3] / "docs" / "reference"
TARGET = "mistral-conversations"
MODEL = Model(
    id="magistral-x",
    api=TARGET,
    provider="mistral",
    base_url="https://api.mistral.ai",
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

Body = dict[str, Any]


@frozen
class Case:
    """A context as the forerunner got it: ``options`` have its names; ``simple`` calls have defaults of their own."""

    options: dict[str, Any]
    simple: bool

    def lacks(self, *names: str) -> bool:
        return not any(name in self.options for name in names)


Rule = Callable[[Case, Body, Body], None]
"""Makes ``theirs`` what the rule says we send instead; ``ours`` is changed only where both sides are free."""


def no_default_max_tokens(case: Case, theirs: Body, ours: Body) -> None:
    if case.simple and case.lacks("maxTokens"):
        theirs.pop("max_tokens", None)


def max_tokens_as_given(case: Case, theirs: Body, ours: Body) -> None:
    if "max_tokens" in theirs and not case.lacks("maxTokens"):
        theirs["max_tokens"] = case.options["maxTokens"]


def no_defaults_spelt_out(case: Case, theirs: Body, ours: Body) -> None:
    for message in theirs["messages"]:
        if message.get("prefix") is False:
            del message["prefix"]
        for call in message.get("tool_calls", ()):
            if call.get("index") == 0:
                del call["index"]
    for tool in theirs.get("tools", ()):
        if tool["function"].get("strict") is False:
            del tool["function"]["strict"]


def ids_of_every_call(case: Case, theirs: Body, ours: Body) -> None:
    for side in (theirs, ours):
        numbers: dict[str, str] = {}
        for message in side["messages"]:
            for call in message.get("tool_calls", ()):
                call["id"] = numbers.setdefault(call["id"], f"<{len(numbers)}>")
            if "tool_call_id" in message:
                message["tool_call_id"] = numbers.get(message["tool_call_id"], message["tool_call_id"])


def empty_user_parts_left_out(case: Case, theirs: Body, ours: Body) -> None:
    for message in theirs["messages"]:
        if message["role"] == "user" and isinstance(message["content"], list):
            message["content"] = [part for part in message["content"] if part.get("text") != ""]
    theirs["messages"] = [message for message in theirs["messages"] if message.get("content") != []]


def thinking_parts(body: Body) -> list[Body]:
    contents = [message.get("content") for message in body["messages"]]
    parts = [part for content in contents if isinstance(content, list) for part in content]
    return [part for part in parts if part["type"] == "thinking"]


def signatures_are_replayed(case: Case, theirs: Body, ours: Body) -> None:
    for their, our in zip(thinking_parts(theirs), thinking_parts(ours), strict=False):
        if "signature" in our:
            their["signature"] = "SIG"


def redacted_thinking_is_dropped(case: Case, theirs: Body, ours: Body) -> None:
    for message in theirs["messages"]:
        if isinstance(message.get("content"), list):
            message["content"] = [
                part
                for part in message["content"]
                if part["type"] != "thinking" or part["thinking"][0]["text"] != "[Reasoning redacted]"
            ]


def own_tool_choice(case: Case, theirs: Body, ours: Body) -> None:
    if theirs.get("tool_choice") == "any":
        theirs["tool_choice"] = "required"


def metadata_is_sent(case: Case, theirs: Body, ours: Body) -> None:
    if not case.lacks("metadata"):
        theirs["metadata"] = case.options["metadata"]


RULES: dict[str, Rule] = {
    "no-default-max-tokens": no_default_max_tokens,
    "max-tokens-as-given": max_tokens_as_given,
    "no-defaults-spelt-out": no_defaults_spelt_out,
    "ids-of-every-call": ids_of_every_call,
    "empty-user-parts-left-out": empty_user_parts_left_out,
    "redacted-thinking-is-dropped": redacted_thinking_is_dropped,
    "signatures-are-replayed": signatures_are_replayed,
    "own-tool-choice": own_tool_choice,
    "metadata-is-sent": metadata_is_sent,
}


# --- the material -----------------------------------------------------------------------------------------------------


def filled(value: Any, names: dict[str, str]) -> Any:
    """The context with its ``$`` placeholders filled in for the target."""
    if isinstance(value, str):
        return names.get(value, value)
    if isinstance(value, list):
        return [filled(item, names) for item in value]
    if isinstance(value, dict):
        return {key: filled(item, names) for key, item in value.items()}
    return value


def load(shared: Path, name: str) -> tuple[Case, Body, dict[str, str], Any]:
    """A case, what the forerunner sent for it (body and headers), and our request."""
    folder = shared / "payloads"
    given = json.loads((folder / "contexts" / f"{name}.json").read_text())
    wire = json.loads((folder / TARGET / f"{name}.json").read_text())["wire"]
    names = {"$api": MODEL.api, "$provider": MODEL.provider, "$model": MODEL.id, "$sig": "SIG"}
    overrides: dict[str, Any] = given.get("modelOverrides", {})
    if "input" in overrides:
        overrides["input"] = tuple(overrides["input"])
    options = {OPTION_NAMES[key]: value for key, value in given["options"].items()}
    if options.get("tool_choice") == "any":
        options["tool_choice"] = "required"
    context = from_json(filled(given["context"], names), Context)
    model = evolve(MODEL, **overrides)
    request = build_request(model, convert_to_llm(context.transcript()), StreamOptions(**options))
    return Case(given["options"], given["call"] == "simple"), wire["body"], wire["headers"], request


@pytest.fixture(scope="module")
def names(shared: Path) -> list[str]:
    folder = shared / "payloads" / "contexts"
    if not folder.is_dir():
        pytest.skip(f"no stored requests: {folder}")
    return sorted({file.stem for file in folder.glob("*.json")} - HANDED_OVER)


def test_requests_equal_the_forerunner_s_save_for_the_rules(shared: Path, names: list[str]) -> None:
    assert len(names) == 39
    for name in names:
        case, theirs, headers, request = load(shared, name)
        ours = request.body
        for rule in RULES.values():
            rule(case, theirs, ours)
        assert ours == theirs, name
        notable = {header: value for header, value in headers.items() if value != "<default>"}
        assert {header: request.headers.get(header) for header in notable} == notable, name


@pytest.mark.parametrize("rule_name", RULES)
def test_every_rule_is_needed(shared: Path, names: list[str], rule_name: str) -> None:
    """A rule that changes no stored request explains nothing."""

    def needed(name: str) -> bool:
        case, theirs, _, request = load(shared, name)
        before = copy.deepcopy(theirs)
        RULES[rule_name](case, theirs, request.body)
        return theirs != before

    assert any(map(needed, names))


@pytest.mark.parametrize("rule_name", RULES)
def test_every_rule_is_documented(rule_name: str) -> None:
    texts = [page.read_text(encoding="utf-8") for page in DOCS.glob("*.md")]
    assert any(f"`{rule_name}`" in text for text in texts)
