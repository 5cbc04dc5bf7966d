"""Requests of Converse: URL and headers, options, thinking by family, tools, caching, replay; botocore as the judge."""

from __future__ import annotations

import json
from importlib.util import find_spec
from typing import Any

import pytest

from pi_stream.apis.bedrock import api
from pi_stream.exceptions import ConfigError
from pi_stream.http import HttpRequest
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
    UnknownContent,
    UserMessage,
)
from pi_stream.models import Model
from pi_stream.options import StreamOptions

BASE = "https://bedrock-runtime.us-east-1.amazonaws.com"
CLAUDE = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
SCHEMA = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}
LOOK = Tool("look", "Looks.", SCHEMA)
PIXEL = ImageContent("AAAA", "image/png")


def model(id: str = CLAUDE, **more: Any) -> Model:
    fields: dict[str, Any] = {
        "api": api.id,
        "provider": "amazon-bedrock",
        "base_url": BASE,
        "reasoning": True,
        "input": ("text", "image"),
        **more,
    }
    return Model(id=id, **fields)


def build(*messages: Message, to: Model | None = None, **options: Any) -> HttpRequest:
    transcript: list[Message] = list(messages) or [UserMessage("hi")]
    return api.build_request(to or model(), transcript, StreamOptions(**options))


def body(*messages: Message, to: Model | None = None, **options: Any) -> dict[str, Any]:
    made = build(*messages, to=to, **options).body
    assert made is not None
    return made


def answered(*content: Any, **more: Any) -> AssistantMessage:
    fields: dict[str, Any] = {
        "api": api.id,
        "provider": "amazon-bedrock",
        "model": CLAUDE,
        "stop_reason": "stop",
        **more,
    }
    return AssistantMessage(list(content), **fields)


def tools(*declared: Tool) -> SystemMessage:
    return SystemMessage("", tools_added=list(declared))


# --- envelope ---------------------------------------------------------------------------------------------------------


def test_the_model_id_is_one_segment_of_the_path() -> None:
    arn = "arn:aws:bedrock:eu-west-1:123456789012:inference-profile/eu.amazon.nova-lite-v1:0"
    request = build(to=model(arn))
    assert request.url == (
        f"{BASE}/model/arn%3Aaws%3Abedrock%3Aeu-west-1%3A123456789012%3Ainference-profile%2F"
        "eu.amazon.nova-lite-v1%3A0/converse-stream"
    )
    assert request.headers == {
        "accept": "application/vnd.amazon.eventstream",
        "content-type": "application/json",
    }


def test_a_key_is_a_bearer_token_and_headers_of_the_caller_win() -> None:
    request = build(api_key="k", headers={"X-Test": "1", "Accept": None})
    assert request.headers["authorization"] == "Bearer k"
    assert request.headers["x-test"] == "1"
    assert "accept" not in request.headers


def test_nothing_is_sent_that_was_not_asked_for() -> None:
    assert body() == {"messages": [{"role": "user", "content": [{"text": "hi"}]}]}


def test_options_have_their_fields() -> None:
    made = body(
        temperature=0.5,
        top_p=0.9,
        max_tokens=7,
        stop="END",
        metadata={"team": "a"},
        service_tier="flex",
        extra_body={"guardrailConfig": {"guardrailIdentifier": "g", "guardrailVersion": "1"}},
    )
    assert made["inferenceConfig"] == {
        "temperature": 0.5,
        "topP": 0.9,
        "maxTokens": 7,
        "stopSequences": ["END"],
    }
    assert made["requestMetadata"] == {"team": "a"}
    assert made["serviceTier"] == {"type": "flex"}
    assert made["guardrailConfig"]["guardrailIdentifier"] == "g"


def test_metadata_must_be_strings() -> None:
    with pytest.raises(ConfigError, match="'count' is int"):
        body(metadata={"count": 3})


def test_a_response_format_is_a_schema_as_text() -> None:
    made = body(response_format={"type": "json_schema", "name": "answer", "schema": SCHEMA})
    described = made["outputConfig"]["textFormat"]
    assert described["type"] == "json_schema"
    assert described["structure"]["jsonSchema"]["name"] == "answer"
    assert json.loads(described["structure"]["jsonSchema"]["schema"]) == SCHEMA
    with pytest.raises(ConfigError, match="json_object"):
        body(response_format={"type": "json_object"})


def test_unknown_compat_flags_name_near_ones() -> None:
    with pytest.raises(ConfigError, match="supportsStrictMode"):
        body(to=model(compat={"supportStrictMode": True}))


def test_lone_surrogates_cannot_break_the_body() -> None:
    made = body(UserMessage("a\ud800"), answered(ToolCall("c", "look", {"q": "\udfff"})))
    assert made["messages"][0]["content"] == [{"text": "a\ufffd"}]
    assert made["messages"][1]["content"][0]["toolUse"]["input"] == {"q": "\ufffd"}


# --- thinking ---------------------------------------------------------------------------------------------------------

BETA = {"anthropic_beta": ["interleaved-thinking-2025-05-14"]}


def extra(id: str, level: str, **more: Any) -> Any:
    made = body(to=model(id, **more.pop("fields", {})), reasoning=level, **more)
    return made.get("additionalModelRequestFields")


def test_claude_with_a_budget() -> None:
    thinking = {"type": "enabled", "budget_tokens": 8192, "display": "summarized"}
    made = body(reasoning="medium", temperature=1)
    assert made["additionalModelRequestFields"] == {"thinking": thinking} | BETA
    # The limit must be above the budget, and Claude refuses a temperature while it thinks.
    assert made["inferenceConfig"] == {"maxTokens": 8192 + 8192}


def test_the_budget_stays_inside_the_limit() -> None:
    made = body(reasoning="high", max_tokens=4000)
    assert made["additionalModelRequestFields"]["thinking"]["budget_tokens"] == 4000 - 1024
    assert made["inferenceConfig"]["maxTokens"] == 4000
    assert "additionalModelRequestFields" not in body(reasoning="high", max_tokens=2000)


@pytest.mark.parametrize(
    ("id", "expected"),
    [
        ("anthropic.claude-opus-4-6-v1", "medium"),
        ("global.anthropic.claude-sonnet-5", "medium"),
        ("us.anthropic.claude-fable-5-1", "medium"),
    ],
)
def test_newer_claude_takes_an_effort(id: str, expected: str) -> None:
    assert extra(id, "medium") == {
        "thinking": {"type": "adaptive", "display": "summarized"},
        "output_config": {"effort": expected},
    }


def test_older_claude_is_not_asked_to_think_between_calls() -> None:
    assert "anthropic_beta" not in extra("us.anthropic.claude-3-7-sonnet-20250219-v1:0", "low")


def test_govcloud_shows_no_thinking() -> None:
    made = extra("us-gov.anthropic.claude-sonnet-4-5-20250929-v1:0", "low")
    assert made["thinking"] == {"type": "enabled", "budget_tokens": 2048}


@pytest.mark.parametrize(
    ("id", "level", "expected"),
    [
        ("openai.gpt-oss-120b-1:0", "minimal", {"reasoning_effort": "low"}),
        ("openai.gpt-oss-120b-1:0", "max", {"reasoning_effort": "high"}),
        ("openai.gpt-5.4", "minimal", {"reasoning": {"effort": "low"}}),
        ("openai.gpt-5.4", "high", {"reasoning": {"effort": "high"}}),
        (
            "us.amazon.nova-2-lite-v1:0",
            "xhigh",
            {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": "high"}},
        ),
        ("amazon.nova-lite-v1:0", "high", None),
        ("deepseek.v3.2", "high", None),
        (CLAUDE, "off", None),
    ],
)
def test_each_family_has_its_own_fields(id: str, level: str, expected: Any) -> None:
    assert extra(id, level) == expected


def test_the_name_tells_the_family_where_the_id_does_not() -> None:
    arn = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc"
    assert "thinking" in extra(arn, "low", fields={"name": "Claude Sonnet 4.5"})
    assert extra(arn, "low") is None
    assert "thinking" in extra(arn, "low", fields={"compat": {"family": "claude"}})


def test_models_that_cannot_think_are_not_told_to() -> None:
    assert extra(CLAUDE, "high", fields={"reasoning": False}) is None


# --- tools ------------------------------------------------------------------------------------------------------------


def test_tools_and_the_choice_between_them() -> None:
    spec = {"toolSpec": {"name": "look", "description": "Looks.", "inputSchema": {"json": SCHEMA}}}
    assert body(tools(LOOK), UserMessage("hi"))["toolConfig"] == {"tools": [spec]}

    def choice(wanted: Any) -> Any:
        return body(tools(LOOK), UserMessage("hi"), tool_choice=wanted)["toolConfig"].get("toolChoice")

    assert choice("auto") == {"auto": {}}
    assert choice("required") == {"any": {}}
    assert choice({"name": "look"}) == {"tool": {"name": "look"}}
    assert choice({"any": {}}) == {"any": {}}
    with pytest.raises(ConfigError, match="'find'"):
        choice({"name": "find"})


def test_no_tools_may_be_used_without_a_history_of_them() -> None:
    assert "toolConfig" not in body(tools(LOOK), UserMessage("hi"), tool_choice="none")


def test_tools_stay_when_the_transcript_holds_calls() -> None:
    """Bedrock refuses calls and results without tools, and has no choice `none`."""
    called = [answered(ToolCall("c", "look", {})), ToolResultMessage("c", "look", [TextContent("x")])]
    kept = body(tools(LOOK), UserMessage("hi"), *called, tool_choice="none")["toolConfig"]
    assert [tool["toolSpec"]["name"] for tool in kept["tools"]] == ["look"]
    assert "toolChoice" not in kept
    gone = body(UserMessage("hi"), *called, tool_choice="auto")["toolConfig"]
    assert [tool["toolSpec"]["name"] for tool in gone["tools"]] == ["look"]
    assert "toolChoice" not in gone


def test_strict_tools_need_a_model_that_takes_them() -> None:
    strict = Tool("look", "", SCHEMA, constrained_sampling={"type": "json_schema", "strict": "require"})
    with pytest.raises(ConfigError, match="supports_strict_mode"):
        body(tools(strict), UserMessage("hi"))
    made = body(tools(strict), UserMessage("hi"), to=model(compat={"supportsStrictMode": True}))
    (tool,) = made["toolConfig"]["tools"]
    assert tool["toolSpec"]["strict"] is True
    assert tool["toolSpec"]["inputSchema"]["json"]["additionalProperties"] is False
    assert "description" not in tool["toolSpec"]


# --- caching ----------------------------------------------------------------------------------------------------------


def points(made: dict[str, Any]) -> list[Any]:
    blocks = [*made.get("system", []), *(block for turn in made["messages"] for block in turn["content"])]
    return [block["cachePoint"] for block in blocks if "cachePoint" in block]


@pytest.mark.parametrize(
    ("id", "retention", "expected"),
    [
        (CLAUDE, "short", [{"type": "default"}] * 2),
        (CLAUDE, "long", [{"type": "default", "ttl": "1h"}] * 2),
        ("us.anthropic.claude-3-7-sonnet-20250219-v1:0", "long", [{"type": "default"}] * 2),
        ("amazon.nova-pro-v1:0", "short", [{"type": "default"}] * 2),
        ("anthropic.claude-3-haiku-20240307-v1:0", "short", []),
        ("openai.gpt-oss-20b-1:0", "short", []),
        (CLAUDE, "none", []),
    ],
)
def test_cache_points_for_models_that_take_them(id: str, retention: Any, expected: Any) -> None:
    made = body(SystemMessage("sys"), UserMessage("hi"), to=model(id), cache_retention=retention)
    assert points(made) == expected


def test_an_answer_at_the_end_gets_no_cache_point() -> None:
    made = body(UserMessage("hi"), answered(TextContent("x")), session_id="s")
    assert points(made) == []


# --- transcript -------------------------------------------------------------------------------------------------------


def test_turns_alternate() -> None:
    made = body(
        UserMessage("a"),
        UserMessage([TextContent("b"), TextContent("  ")]),
        answered(TextContent("c")),
        answered(TextContent("d")),
        ToolResultMessage("x", "look", []),
        UserMessage(""),
    )
    result = {"toolUseId": "x", "content": [{"text": "<empty>"}], "status": "success"}
    assert made["messages"] == [
        {"role": "user", "content": [{"text": "a"}, {"text": "b"}]},
        {"role": "assistant", "content": [{"text": "c"}, {"text": "d"}]},
        {"role": "user", "content": [{"toolResult": result}]},
    ]


def test_a_user_who_says_nothing_is_said_to_say_nothing() -> None:
    assert body(UserMessage(" "))["messages"] == [{"role": "user", "content": [{"text": "<empty>"}]}]


def test_images_of_known_types_only() -> None:
    made = body(UserMessage([ImageContent("AAAA", "image/jpg")]))
    assert made["messages"][0]["content"] == [{"image": {"format": "jpeg", "source": {"bytes": "AAAA"}}}]
    with pytest.raises(ConfigError, match="image/bmp"):
        body(UserMessage([ImageContent("AAAA", "image/bmp")]))
    blind = body(UserMessage([PIXEL]), to=model(input=("text",)))
    assert "image" not in blind["messages"][0]["content"][0]


def test_documents_are_sent_as_they_stand() -> None:
    document = {"format": "txt", "name": "facts", "source": {"text": "x"}}
    block = UnknownContent("document", {"type": "document", "document": document})
    made = body(UserMessage([TextContent("read"), block]))
    assert made["messages"][0]["content"][1] == {"document": document}


def test_images_of_failed_results_stand_behind_them_for_claude() -> None:
    failed = ToolResultMessage("a", "look", [TextContent("no"), PIXEL], is_error=True)
    image = {"image": {"format": "png", "source": {"bytes": "AAAA"}}}
    content = body(failed, ToolResultMessage("b", "look", [PIXEL]))["messages"][0]["content"]
    assert content[0]["toolResult"] == {"toolUseId": "a", "content": [{"text": "no"}], "status": "error"}
    assert content[1]["toolResult"]["content"] == [image]
    assert content[2] == image
    (only,) = body(failed, to=model("amazon.nova-pro-v1:0"))["messages"][0]["content"]
    assert only["toolResult"]["content"] == [{"text": "no"}, image]


def test_arguments_lose_members_without_a_name() -> None:
    made = body(answered(ToolCall("c", "look", {"": 1, "q": [{"": 2, "a": 3}]})))
    assert made["messages"][0]["content"][0]["toolUse"]["input"] == {"q": [{"a": 3}]}


def test_ids_are_made_legal_for_calls_and_results_alike() -> None:
    made = body(answered(ToolCall("c|1", "look", {})), ToolResultMessage("c|1", "look", [TextContent("x")]))
    assert made["messages"][0]["content"][0]["toolUse"]["toolUseId"] == "c_1"
    assert made["messages"][1]["content"][0]["toolResult"]["toolUseId"] == "c_1"


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (
            ThinkingContent("t", thinking_signature="S"),
            {"reasoningContent": {"reasoningText": {"text": "t", "signature": "S"}}},
        ),
        (
            ThinkingContent("", thinking_signature="S"),
            {"reasoningContent": {"reasoningText": {"text": "", "signature": "S"}}},
        ),
        (ThinkingContent("t"), {"text": "t"}),
        (
            ThinkingContent("[x]", thinking_signature="AAAA", redacted=True),
            {"reasoningContent": {"redactedContent": "AAAA"}},
        ),
    ],
)
def test_claude_gets_its_thinking_back(block: ThinkingContent, expected: Any) -> None:
    assert body(UserMessage("a"), answered(block))["messages"][1]["content"] == [expected]


def test_thinking_that_cannot_go_back_is_left_out() -> None:
    for block in (ThinkingContent("[x]", thinking_signature="?!", redacted=True), ThinkingContent(" ")):
        assert len(body(UserMessage("a"), answered(block))["messages"]) == 1
    foreign = answered(ThinkingContent("t", thinking_signature="S"), model="other")
    assert len(body(UserMessage("a"), foreign)["messages"]) == 1


def test_other_models_get_their_thinking_without_a_signature() -> None:
    id = "openai.gpt-oss-120b-1:0"
    made = body(answered(ThinkingContent("t"), model=id), to=model(id))
    assert made["messages"][0]["content"] == [{"reasoningContent": {"reasoningText": {"text": "t"}}}]


def test_tools_of_the_provider_go_back_in_their_place() -> None:
    def entry(after: int, data: Any, **more: Any) -> ProviderData:
        fields = {"api": api.id, "provider": "amazon-bedrock", "model": CLAUDE, **more}
        return ProviderData(after=after, data=data, **fields)

    use = {"toolUse": {"toolUseId": "s", "name": "search", "type": "server_tool_use", "input": {}}}
    entries = [
        entry(1, use),
        entry(1, {"citationsContent": {"citations": []}}),
        entry(2, {"toolResult": {"toolUseId": "s", "content": []}}, model="other"),
    ]
    texts = [TextContent("a"), TextContent("b")]
    made = body(answered(*texts, provider_data=entries))
    assert made["messages"][0]["content"] == [{"text": "a"}, use, {"text": "b"}]
    broken = body(answered(*texts, provider_data=entries, stop_reason="error"))
    assert broken["messages"][0]["content"] == [{"text": "a"}, {"text": "b"}]


# --- botocore as the judge --------------------------------------------------------------------------------------------


@pytest.mark.skipif(find_spec("botocore") is None, reason="botocore is not installed: no second opinion")
def test_botocore_finds_nothing_wrong_with_our_bodies() -> None:
    """Everything a request can have, against the model of the service that AWS publishes."""
    from botocore.session import Session
    from botocore.validate import ParamValidator

    service = Session().get_service_model("bedrock-runtime")
    shape = service.operation_model("ConverseStream").input_shape
    document = {"format": "txt", "name": "facts", "source": {"text": "x"}}
    transcript = [
        SystemMessage("sys", tools_added=[LOOK, Tool("plain", "", {"type": "object"})]),
        UserMessage(
            [TextContent("a"), PIXEL, UnknownContent("document", {"type": "document", "document": document})]
        ),
        answered(
            ThinkingContent("t", thinking_signature="S"),
            ThinkingContent("[x]", thinking_signature="AAAA", redacted=True),
            TextContent("b"),
            ToolCall("c|1", "look", {"q": "x"}),
        ),
        ToolResultMessage("c|1", "look", [TextContent("no"), PIXEL], is_error=True),
        UserMessage("go on"),
    ]
    for id in (
        CLAUDE,
        "anthropic.claude-opus-4-6-v1",
        "us.amazon.nova-2-lite-v1:0",
        "openai.gpt-oss-20b-1:0",
    ):
        made = body(
            *transcript,
            to=model(id),
            reasoning="high",
            cache_retention="long",
            max_tokens=20_000,
            temperature=0.5,
            top_p=0.5,
            stop=["x"],
            tool_choice={"name": "look"},
            response_format={"type": "json_schema", "schema": SCHEMA},
            metadata={"a": "b"},
            service_tier="default",
        )
        problems = ParamValidator().validate({"modelId": id, **made}, shape)
        assert not problems.has_errors(), problems.generate_report()
