"""Our requests against OpenAI's own description of its api, strictly: no unknown field, no wrong type."""

from __future__ import annotations

import json
from typing import Any

import pytest
from attrs import evolve
from openai_spec import validator

from pi_stream.apis.openai_responses.request import build_request
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

MODEL = Model(
    id="gpt-x",
    api="openai-responses",
    provider="openai",
    base_url="https://api.openai.com/v1",
    reasoning=True,
    input=("text", "image"),
)
SOURCE = {"api": MODEL.api, "provider": MODEL.provider, "model": MODEL.id}
READ = Tool("read", "Read a file", {"type": "object", "properties": {"path": {"type": "string"}}})
STRICT = evolve(READ, name="strict", constrained_sampling={"type": "json_schema", "strict": "require"})
GRAMMAR = Tool(
    "grammar",
    "Text",
    {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    constrained_sampling={"type": "grammar", "variants": {"openai_lark": 'start: "a"'}},
)
PNG = ImageContent("iVBORw0KGgo=", "image/png")
ITEM = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "ENC"}
SEARCH = {
    "type": "web_search_call",
    "id": "ws_1",
    "status": "completed",
    "action": {"type": "search", "query": "q"},
}
ROUND: list[Message] = [
    SystemMessage("sys", tools_added=[READ, STRICT, GRAMMAR]),
    UserMessage([TextContent("what"), PNG]),
    AssistantMessage(
        [
            ThinkingContent("plan", thinking_signature=json.dumps(ITEM)),
            TextContent("look", text_signature='{"v":1,"id":"msg_1","phase":"commentary"}'),
            ToolCall("call_1|fc_1", "read", {"path": "/"}),
            ToolCall("call_2|ctc_1", "grammar", {"text": "a"}),
        ],
        provider_data=[ProviderData(after=1, data=SEARCH, **SOURCE)],
        **SOURCE,
    ),
    ToolResultMessage("call_1|fc_1", "read", [TextContent("x"), PNG]),
    ToolResultMessage("call_2|ctc_1", "grammar", [], is_error=True),
    AssistantMessage([TextContent("foreign"), ToolCall("toolu_1", "read", {})], api="x", model="y"),
    ToolResultMessage("toolu_1", "read", [TextContent("x")]),
    UserMessage("go on"),
]
SCHEMA_FORMAT = {"type": "json_schema", "schema": {"type": "object"}, "strict": True}


@pytest.fixture(scope="module")
def specification() -> Any:
    return validator("CreateResponse", optional={"OutputTextContent": "logprobs"})


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
            {"temperature": 0.5, "top_p": 0.5, "max_tokens": 99, "seed": 1, "service_tier": "flex"}
            | {"metadata": {"a": "b"}, "response_format": SCHEMA_FORMAT},
        ),
    ],
)
def test_request_follows_the_specification(
    specification: Any, messages: list[Message], options: dict[str, Any]
) -> None:
    body = build_request(MODEL, messages, StreamOptions(**options)).body
    assert [
        (list(error.instance_path), error.message[:300]) for error in specification.iter_errors(body)
    ] == []


@pytest.mark.parametrize(
    "extra",
    [{"invented": 1}, {"temperature": "hot"}, {"input": [{"role": "user", "content": "x", "odd": 1}]}],
)
def test_the_validator_finds_what_is_wrong(specification: Any, extra: dict[str, Any]) -> None:
    """Else the test above would prove nothing."""
    body = build_request(MODEL, ROUND, StreamOptions(extra_body=extra)).body
    assert not specification.is_valid(body)
