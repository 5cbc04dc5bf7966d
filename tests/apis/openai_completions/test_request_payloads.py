"""Our requests beside those of the forerunner: equal, save for differences that are rules with a name and a reason.

The rules are explained in ``docs/reference``; a rule that no case needs any more fails here.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve, frozen

from pi_stream.apis.openai_completions.request import build_request
from pi_stream.handover import hand_over
from pi_stream.messages import Context, convert_to_llm
from pi_stream.models import Model
from pi_stream.options import StreamOptions
from pi_stream.serialization import from_json

DOCS = Path(__file__).parents[3] / "docs" / "reference"


def target(provider: str, model: str, base_url: str) -> Model:
    return Model(
        id=model,
        api="openai-completions",
        provider=provider,
        base_url=base_url,
        reasoning=True,
        input=("text", "image"),
        context_window=200_000,
        max_tokens=32_000,
    )


TARGETS = {
    "openai-completions": target("openai", "gpt-x", "https://api.openai.com/v1"),
    "openai-completions@deepseek": target("deepseek", "deepseek-x", "https://api.deepseek.com"),
    "openai-completions@local": target("llama.cpp", "local", "http://localhost:8080/v1"),
    "openai-completions@openrouter": target(
        "openrouter", "anthropic/claude-x", "https://openrouter.ai/api/v1"
    ),
}
_NAMES = """
aborted-and-error argument-error-call cache-long cache-short empty-blocks error-with-result ids-other-provider
length-and-pending max-tokens-over-window metadata-headers mid-system orphan-calls plain-string raw-stream-no-options raw-stream-tool-choice
reasoning-high reasoning-high-max-small reasoning-low reasoning-medium reasoning-minimal
reasoning-on-nonreasoning reasoning-xhigh session-id-long starts-with-assistant system-prompt
thinking-other-provider thinking-redacted thinking-same-provider-other-model thinking-tools-same-model
thinking-unsigned-same-model tool-choice-none tool-history-no-tools tool-result-empty tool-result-image
tool-results-error tool-round tools tools-strict two-users-in-a-row user-array-image user-image-nonvision
user-image-only
"""
CONTEXTS = _NAMES.split()

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

    options: dict[str, Any]
    simple: bool
    messages: list[dict[str, Any]]

    def lacks(self, *names: str) -> bool:
        return not any(name in self.options for name in names)


Body = dict[str, Any]
Rule = Callable[[Case, Body, Body], None]
"""Makes ``theirs`` what the rule says we send instead; ``ours`` is changed only where both sides are free."""


def broken_turns_are_kept(case: Case, theirs: Body, ours: Body) -> None:
    answered = {message.get("toolCallId") for message in case.messages}
    rest = iter(theirs["messages"])
    made: list[dict[str, Any]] = []
    for message in case.messages:
        if message.get("stopReason") not in ("aborted", "error"):
            made += [each for each in (next(rest, None),) if each is not None]
            continue
        texts = [block["text"] for block in message["content"] if block["type"] == "text"]
        calls = [block for block in message["content"] if block["type"] == "toolCall"]
        made.append({"role": "assistant", "content": "".join(texts) or None})
        if calls:
            made[-1]["tool_calls"] = [wire_call(block) for block in calls]
        if any("reasoning_content" in own for own in ours["messages"]):
            made[-1]["reasoning_content"] = ""
        text = "No result: the call was interrupted, since the answer was aborted."
        made += [
            {"role": "tool", "tool_call_id": block["id"], "content": text}
            for block in calls
            if block["id"] not in answered
        ]
    theirs["messages"] = [*made, *rest]


def wire_call(block: dict[str, Any]) -> dict[str, Any]:
    arguments = json.dumps(block["arguments"], separators=(",", ":"))
    return {
        "id": block["id"],
        "type": "function",
        "function": {"name": block["name"], "arguments": arguments},
    }


def results_in_call_order(case: Case, theirs: Body, ours: Body) -> None:
    order = [call["id"] for message in theirs["messages"] for call in message.get("tool_calls", ())]
    runs = groupby(
        theirs["messages"], lambda message: message["role"] == "tool" and message["tool_call_id"] in order
    )
    theirs["messages"] = [
        message
        for are_results, run in runs
        for message in (
            sorted(run, key=lambda each: order.index(each["tool_call_id"])) if are_results else run
        )
    ]


def missing_results_say_why(case: Case, theirs: Body, ours: Body) -> None:
    for message in theirs["messages"]:
        if message.get("content") == "No result provided":
            message["content"] = "No result: the call was interrupted."


def joined_ids_become_one(case: Case, theirs: Body, ours: Body) -> None:
    for message in theirs["messages"]:
        for holder, key in (
            (message, "tool_call_id"),
            *((call, "id") for call in message.get("tool_calls", ())),
        ):
            if key in holder:
                holder[key] = holder[key].replace("|", "_")


def no_default_max_tokens(case: Case, theirs: Body, ours: Body) -> None:
    if case.simple and case.lacks("maxTokens"):
        theirs.pop("max_tokens", None)
        theirs.pop("max_completion_tokens", None)


def max_tokens_as_given(case: Case, theirs: Body, ours: Body) -> None:
    for name in ("max_tokens", "max_completion_tokens"):
        if name in theirs and not case.lacks("maxTokens"):
            theirs[name] = case.options["maxTokens"]


def no_thinking_switch_unasked(case: Case, theirs: Body, ours: Body) -> None:
    if case.lacks("reasoning"):
        if theirs.get("thinking") == {"type": "disabled"}:
            del theirs["thinking"]
        if theirs.get("reasoning") == {"effort": "none"}:
            del theirs["reasoning"]


def no_caching_unasked(case: Case, theirs: Body, ours: Body) -> None:
    if not case.lacks("cacheRetention", "sessionId"):
        return
    for message, own in zip(theirs["messages"], ours["messages"], strict=False):
        parts = message.get("content")
        marked = [part.pop("cache_control", None) for part in parts] if isinstance(parts, list) else []
        # A string was made a list only to carry the marker.
        if any(marked) and len(parts) == 1 and isinstance(own.get("content"), str):
            message["content"] = parts[0]["text"]
    for tool in theirs.get("tools", ()):
        tool.pop("cache_control", None)


def own_tool_choice(case: Case, theirs: Body, ours: Body) -> None:
    if theirs.get("tool_choice") == "any":
        theirs["tool_choice"] = "required"


def metadata_is_sent(case: Case, theirs: Body, ours: Body) -> None:
    if not case.lacks("metadata"):
        theirs["metadata"] = case.options["metadata"]


def own_id_hash(case: Case, theirs: Body, ours: Body) -> None:
    def plain(call_id: str) -> str:
        return re.sub(r"_[a-z0-9]{8}$", "_<hash>", call_id) if len(call_id) == 40 else call_id

    for message in (*theirs["messages"], *ours["messages"]):
        if "tool_call_id" in message:
            message["tool_call_id"] = plain(message["tool_call_id"])
        for call in message.get("tool_calls", ()):
            call["id"] = plain(call["id"])


RULES: dict[str, Rule] = {
    "broken-turns-are-kept": broken_turns_are_kept,
    "results-in-call-order": results_in_call_order,
    "joined-ids-become-one": joined_ids_become_one,
    "no-default-max-tokens": no_default_max_tokens,
    "max-tokens-as-given": max_tokens_as_given,
    "no-thinking-switch-unasked": no_thinking_switch_unasked,
    "no-caching-unasked": no_caching_unasked,
    "missing-results-say-why": missing_results_say_why,
    "own-tool-choice": own_tool_choice,
    "metadata-is-sent": metadata_is_sent,
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


def signature(model: Model) -> str:
    if model.provider != "openrouter":
        return "reasoning_content"
    return json.dumps([{"type": "reasoning.text", "text": "let me think", "signature": "SIG"}])


def load(shared: Path, target_name: str, name: str) -> tuple[Case, Body, dict[str, str], Any]:
    """A case, what the forerunner sent for it (body and headers), and our request."""
    folder = shared / "payloads"
    if not folder.is_dir():
        pytest.skip(f"no stored requests: {folder}")
    given = json.loads((folder / "contexts" / f"{name}.json").read_text())
    wire = json.loads((folder / target_name / f"{name}.json").read_text())["wire"]
    model = TARGETS[target_name]
    names = {"$api": model.api, "$provider": model.provider, "$model": model.id, "$sig": signature(model)}
    overrides: dict[str, Any] = given.get("modelOverrides", {})
    if "input" in overrides:
        overrides["input"] = tuple(overrides["input"])
    model = evolve(model, **overrides)
    options = {OPTION_NAMES[key]: value for key, value in given["options"].items()}
    if options.get("tool_choice") == "any":
        options["tool_choice"] = "required"
    context = from_json(filled(given["context"], names), Context)
    messages = hand_over(convert_to_llm(context.transcript()), model).messages
    request = build_request(model, messages, StreamOptions(**options))
    case = Case(given["options"], given["call"] == "simple", given["context"]["messages"])
    return case, wire["body"], wire["headers"], request


@pytest.mark.parametrize("name", CONTEXTS)
@pytest.mark.parametrize("target_name", TARGETS)
def test_request_equals_the_forerunner_s_save_for_the_rules(
    shared: Path, target_name: str, name: str
) -> None:
    case, theirs, headers, request = load(shared, target_name, name)
    ours = request.body
    for rule in RULES.values():
        rule(case, theirs, ours)
    assert ours == theirs
    notable = {header: value for header, value in headers.items() if value != "<default>"}
    assert {header: request.headers.get(header) for header in notable} == notable


def test_every_stored_context_is_compared(shared: Path) -> None:
    folder = shared / "payloads" / "contexts"
    if not folder.is_dir():
        pytest.skip(f"no stored requests: {folder}")
    assert {file.stem for file in folder.glob("*.json")} == set(CONTEXTS)


@pytest.mark.parametrize("rule_name", RULES)
def test_every_rule_is_needed(shared: Path, rule_name: str) -> None:
    """A rule that changes no stored request explains nothing."""

    def needed(target_name: str, name: str) -> bool:
        case, theirs, _, request = load(shared, target_name, name)
        before = copy.deepcopy(theirs)
        RULES[rule_name](case, theirs, request.body)
        return theirs != before

    assert any(needed(target_name, name) for target_name in TARGETS for name in CONTEXTS)


@pytest.mark.parametrize("rule_name", RULES)
def test_every_rule_is_documented(rule_name: str) -> None:
    texts = [page.read_text(encoding="utf-8") for page in DOCS.glob("*.md")]
    assert any(f"`{rule_name}`" in text for text in texts)
