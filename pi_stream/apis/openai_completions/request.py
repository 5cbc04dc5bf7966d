"""A transcript as a request of Chat Completions. Nothing is sent that was not asked for.

Source: https://platform.openai.com/docs/api-reference/chat/create; servers that differ are told apart by
:mod:`~pi_stream.apis.openai_completions.quirks`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pi_stream.apis._history import (
    collapse,
    copilot_headers,
    current_tools,
    has_tool_history,
    named_tool,
    sees_images,
    tool_additions,
    without_images,
)
from pi_stream.apis._reasoning import clamp_level
from pi_stream.apis._request import cache_retention, clean_json, endpoint, merge_deep, merge_headers
from pi_stream.apis._schema import Grammar, grammar_of, strict_parameters
from pi_stream.apis.openai_completions.conversation import Conversation
from pi_stream.apis.openai_completions.quirks import Quirks, is_host
from pi_stream.apis.openai_completions.thinking import thinking_fields
from pi_stream.exceptions import ConfigError
from pi_stream.http import HttpRequest
from pi_stream.messages import JsonObject, Message, Tool
from pi_stream.models import Model
from pi_stream.options import StreamOptions

__all__ = ["build_request", "chat_body"]

_CACHE_KEY_LENGTH = 64


def build_request(model: Model, messages: list[Message], options: StreamOptions) -> HttpRequest:
    """Write the request of Chat Completions for a transcript.

    Args:
        model: With the provider's base URL, headers and quirks merged in.
        messages: Plain messages; system prompt and tools are in system messages.
        options: With the key resolved; without one there is no authorization header.

    Returns:
        A streaming request. Its body shares nothing with the arguments and is clean JSON.

    Raises:
        ConfigError: The request cannot be written: a bad URL or header, an unknown quirk, a tool whose strict schema
            is required and impossible, a tool choice without its tool, or an option that is not JSON.
    """
    quirks = Quirks.of(model)
    url = endpoint(model.base_url, "chat/completions")
    if not sees_images(model):
        messages = without_images(messages)
    headers = _headers(model, messages, options, quirks)
    try:
        body = chat_body(model, messages, options, quirks)
        if quirks.cache_control_format == "anthropic" and cache_retention(options) != "none":
            _mark_for_cache(body, _wants_long_cache(options, quirks))
        body = clean_json(merge_deep(body, options.extra_body or {}))
    except RecursionError:
        raise ConfigError("the request is nested too deeply to be written") from None
    return HttpRequest(method="POST", url=url, headers=headers, body=body)


# --- body -------------------------------------------------------------------------------------------------------------


def chat_body(
    model: Model,
    messages: Sequence[Message],
    options: StreamOptions,
    quirks: Quirks,
    conversation: type[Conversation] = Conversation,
) -> JsonObject:
    """The body of a request, without cache markers and the caller's ``extra_body``, and not yet clean JSON.

    Args:
        model: With the provider's base URL, headers and quirks merged in.
        messages: Plain messages, without images if the model cannot see them.
        options: What the caller wants.
        quirks: Those of the server.
        conversation: What writes the messages.

    Raises:
        ConfigError: As :func:`build_request`.
    """
    transcript, tools, additions = _placed_tools(messages, quirks)
    grammars = {tool.name: grammar for tool in current_tools(messages) if (grammar := _grammar(tool, quirks))}
    writer = conversation(model=model, quirks=quirks, grammars=grammars, additions=additions)
    body: JsonObject = {"model": model.id, "messages": writer.messages(transcript), "stream": True}
    if quirks.supports_usage_in_streaming:
        body["stream_options"] = {"include_usage": True}
    if quirks.supports_store:
        body["store"] = False
    body |= _tool_fields(tools, messages, options, quirks)
    body |= _caching_fields(model, options, quirks)
    body |= _routing_fields(quirks)
    body |= thinking_fields(model, options, quirks)
    body |= _model_defaults(model, options)
    body |= _option_fields(options, quirks)
    return body


def _option_fields(options: StreamOptions, quirks: Quirks) -> JsonObject:
    """The caller's options that are fields of the same meaning."""
    fields: JsonObject = {
        quirks.max_tokens_field: options.max_tokens,
        "temperature": options.temperature,
        "top_p": options.top_p,
        "stop": list(options.stop) if options.stop else None,
        "seed": options.seed,
        "response_format": _response_format(options.response_format),
        "service_tier": options.service_tier,
        "metadata": options.metadata,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _response_format(wanted: JsonObject | None) -> JsonObject | None:
    """The format with a JSON schema nested under ``json_schema``, as this api wants it, and named."""
    if wanted is None or wanted.get("type") != "json_schema" or "json_schema" in wanted:
        return wanted
    schema = {name: value for name, value in wanted.items() if name != "type"}
    return {"type": "json_schema", "json_schema": {"name": "answer", **schema}}


def _model_defaults(model: Model, options: StreamOptions) -> JsonObject:
    """Sampling that the model's record gives, over it that of the reasoning level; the caller's options win."""
    by_level: Any = None
    if options.reasoning is not None:
        level = clamp_level(model, options.reasoning)
        by_level = (model.sampling_params_by_thinking_level or {}).get(level)
    return {**(model.sampling_params or {}), **(by_level or {})}


def _routing_fields(quirks: Quirks) -> JsonObject:
    fields: JsonObject = {}
    if quirks.vllm_priority is not None:
        fields["priority"] = quirks.vllm_priority
    if quirks.open_router_routing is not None:
        fields["provider"] = quirks.open_router_routing
    gateway = {
        name: value
        for name, value in (quirks.vercel_gateway_routing or {}).items()
        if name in ("only", "order")
    }
    if gateway:
        fields["providerOptions"] = {"gateway": gateway}
    return fields


# --- tools ------------------------------------------------------------------------------------------------------------


def _placed_tools(
    messages: Sequence[Message], quirks: Quirks
) -> tuple[Sequence[Message], list[Tool], dict[int, list[JsonObject]]]:
    """The transcript to write, its tools at the top, and those that later system messages add in place."""
    if not quirks.supports_mid_convo_system_messages:
        return collapse(messages), current_tools(messages), {}
    if not quirks.supports_mid_convo_tool_additions:
        return messages, current_tools(messages), {}
    top, later = tool_additions(messages)
    return messages, top, {index: [_tool(tool, quirks) for tool in tools] for index, tools in later.items()}


def _tool_fields(
    tools: Sequence[Tool], messages: Sequence[Message], options: StreamOptions, quirks: Quirks
) -> JsonObject:
    every_tool = current_tools(messages)
    chosen = named_tool(options.tool_choice, every_tool)
    fields: JsonObject = {}
    if tools or (quirks.requires_tools_with_tool_history and has_tool_history(messages)):
        fields["tools"] = [_tool(tool, quirks) for tool in tools]
    if tools and quirks.zai_tool_stream:
        fields["tool_stream"] = True
    if chosen:
        kind = "custom" if _grammar(chosen, quirks) else "function"
        fields["tool_choice"] = {"type": kind, kind: {"name": chosen.name}}
    elif isinstance(options.tool_choice, dict) or (options.tool_choice and every_tool):
        fields["tool_choice"] = options.tool_choice
    if every_tool and options.parallel_tool_calls is not None:
        # Without tools OpenAI refuses the switch, and it would say nothing.
        fields["parallel_tool_calls"] = options.parallel_tool_calls
    return fields


def _grammar(tool: Tool, quirks: Quirks) -> Grammar | None:
    return grammar_of(tool) if quirks.supports_openai_grammar_tools else None


def _tool(tool: Tool, quirks: Quirks) -> JsonObject:
    grammar = _grammar(tool, quirks)
    if grammar:
        text_format = {
            "type": "grammar",
            "grammar": {"syntax": grammar.syntax, "definition": grammar.definition},
        }
        custom = {"name": tool.name, "description": tool.description, "format": text_format}
        return {"type": "custom", "custom": custom}
    function: JsonObject = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    strict = strict_parameters(tool, supported=quirks.supports_strict_mode)
    if strict is not None:
        function["parameters"] = strict
    if quirks.supports_strict_mode:
        function["strict"] = strict is not None
    return {"type": "function", "function": function}


# --- caching ----------------------------------------------------------------------------------------------------------


def _wants_long_cache(options: StreamOptions, quirks: Quirks) -> bool:
    return cache_retention(options) == "long" and quirks.supports_long_cache_retention


def _caching_fields(model: Model, options: StreamOptions, quirks: Quirks) -> JsonObject:
    if cache_retention(options) == "none":
        return {}
    long = _wants_long_cache(options, quirks)
    by_itself = quirks.prompt_cache_key_mode == "auto" and (long or is_host(model.base_url, "api.openai.com"))
    fields: JsonObject = {}
    if options.session_id and (by_itself or quirks.prompt_cache_key_mode == "enabled"):
        fields["prompt_cache_key"] = options.session_id[:_CACHE_KEY_LENGTH]
    if long:
        fields["prompt_cache_retention"] = "24h"
    return fields


def _mark_for_cache(body: JsonObject, long: bool) -> None:
    """Mark what is worth caching the way Anthropic does: system prompt, last tool, last message with text."""
    marker = {"type": "ephemeral", "ttl": "1h"} if long else {"type": "ephemeral"}
    messages: list[JsonObject] = body["messages"]
    for message in messages:
        if message["role"] in ("system", "developer") and _mark_text(message, marker):
            break
    if body.get("tools"):
        body["tools"][-1]["cache_control"] = marker
    for message in reversed(messages):
        if message["role"] in ("user", "assistant", "tool") and _mark_text(message, marker):
            break


def _mark_text(message: JsonObject, marker: JsonObject) -> bool:
    """Mark the last text of a message; whether there was one."""
    content = message.get("content")
    if isinstance(content, str) and content:
        message["content"] = [{"type": "text", "text": content, "cache_control": marker}]
        return True
    parts: list[JsonObject] = content if isinstance(content, list) else []
    for part in reversed(parts):
        if part["type"] == "text":
            part["cache_control"] = marker
            return True
    return False


# --- headers ----------------------------------------------------------------------------------------------------------


def _headers(
    model: Model, messages: Sequence[Message], options: StreamOptions, quirks: Quirks
) -> dict[str, str]:
    return merge_headers(
        {"accept": "application/json", "content-type": "application/json"},
        {"authorization": f"Bearer {options.api_key}"} if options.api_key else None,
        model.headers,
        copilot_headers(messages) if quirks.copilot_headers else None,
        _affinity_headers(options, quirks),
        options.headers,
    )


_AFFINITY_HEADERS = {
    "openai": ("session_id", "x-client-request-id", "x-session-affinity"),
    "openai-nosession": ("x-client-request-id", "x-session-affinity"),
    "openrouter": ("x-session-id",),
    "opencode": ("x-opencode-session",),
}


def _affinity_headers(options: StreamOptions, quirks: Quirks) -> dict[str, str]:
    """Headers that bring the requests of a session to the same machine, where its cache is."""
    session = options.session_id
    if not quirks.send_session_affinity_headers or not session or cache_retention(options) == "none":
        return {}
    return dict.fromkeys(_AFFINITY_HEADERS[quirks.session_affinity_format], session)
