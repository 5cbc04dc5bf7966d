"""A transcript as a request of Converse. Nothing is sent that was not asked for.

Without a key the request has no ``authorization``: the provider's credential signs it.

Source: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from pi_stream.apis._history import (
    current_prompt,
    current_tools,
    has_tool_history,
    named_tool,
    sees_images,
    without_images,
)
from pi_stream.apis._ids import legal_ids
from pi_stream.apis._request import cache_retention, clean_json, endpoint, merge_deep, merge_headers
from pi_stream.apis._schema import strict_parameters
from pi_stream.apis.bedrock.conversation import Conversation
from pi_stream.apis.bedrock.quirks import Quirks
from pi_stream.apis.bedrock.thinking import DEFAULT_ANSWER, thinking_fields
from pi_stream.exceptions import ConfigError
from pi_stream.http import HttpRequest
from pi_stream.messages import AssistantMessage, JsonObject, Message, Tool, ToolResultMessage
from pi_stream.models import Model
from pi_stream.options import StreamOptions
from pi_stream.wire import json

__all__ = ["build_request"]

_CHOICES: dict[str, JsonObject] = {"auto": {"auto": {}}, "required": {"any": {}}}
_GONE = "This tool is no longer available."


def build_request(model: Model, messages: list[Message], options: StreamOptions) -> HttpRequest:
    """Write the request of Converse for a transcript.

    Args:
        model: With the provider's base URL, headers and quirks merged in.
        messages: Plain messages; system prompt and tools are in system messages.
        options: With the key resolved, which is a bearer token of Bedrock.

    Returns:
        A streaming request. Its body shares nothing with the arguments and is clean JSON.

    Raises:
        ConfigError: The request cannot be written: a bad URL or header, an unknown quirk, an image of a type that is not
            taken, a tool whose strict schema is required and impossible, a tool choice without its tool, a response
            format the api does not have, or an option that is not JSON.
    """
    quirks = Quirks.of(model)
    url = endpoint(model.base_url, f"model/{quote(model.id, safe='')}/converse-stream")
    if not sees_images(model):
        messages = without_images(messages)
    headers = merge_headers(
        {"accept": "application/vnd.amazon.eventstream", "content-type": "application/json"},
        {"authorization": f"Bearer {options.api_key}"} if options.api_key else None,
        model.headers,
        options.headers,
    )
    try:
        body = _body(model, messages, options, quirks)
        if cache_retention(options) != "none" and quirks.supports_prompt_caching:
            _mark_for_cache(body, options, quirks)
        body = clean_json(merge_deep(body, options.extra_body or {}))
    except RecursionError:
        raise ConfigError("the request is nested too deeply to be written") from None
    return HttpRequest(method="POST", url=url, headers=headers, body=body)


# --- body -------------------------------------------------------------------------------------------------------------


def _body(model: Model, messages: Sequence[Message], options: StreamOptions, quirks: Quirks) -> JsonObject:
    conversation = Conversation(model=model, quirks=quirks, ids=legal_ids(messages))
    thinking = thinking_fields(model, options, quirks)
    prompt = current_prompt(messages)
    parts: JsonObject = {
        "messages": conversation.messages(messages),
        "system": [{"text": prompt}] if prompt.strip() else None,
        "inferenceConfig": _inference(model, options, quirks, thinking),
        "toolConfig": _tool_config(messages, options, quirks),
        "additionalModelRequestFields": thinking,
        "outputConfig": _output_config(options.response_format),
        "requestMetadata": _metadata(options.metadata),
        "serviceTier": {"type": options.service_tier} if options.service_tier else None,
    }
    return {name: value for name, value in parts.items() if value or name == "messages"}


def _inference(model: Model, options: StreamOptions, quirks: Quirks, thinking: JsonObject) -> JsonObject:
    """The caller's options that are fields of the same meaning. There is no field for a seed."""
    most = options.max_tokens
    if most is None and "budget_tokens" in thinking.get("thinking", {}):
        # A budget must be below the limit, and the limit that applies by itself is not known to be large enough.
        most = model.max_tokens or thinking["thinking"]["budget_tokens"] + DEFAULT_ANSWER
    # Claude refuses a temperature while it thinks.
    thinks = "thinking" in thinking
    fields: JsonObject = {
        "maxTokens": most,
        "temperature": options.temperature if quirks.supports_temperature and not thinks else None,
        "topP": options.top_p,
        "stopSequences": list(options.stop) if options.stop else None,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _output_config(wanted: JsonObject | None) -> JsonObject | None:
    """The response format as Converse has it: a schema as text."""
    if wanted is None or wanted.get("type") == "text":
        return None
    nested = wanted.get("json_schema")
    given = nested if isinstance(nested, dict) else wanted
    if wanted.get("type") != "json_schema" or not isinstance(given.get("schema"), dict):
        raise ConfigError(
            'response_format must be {"type": "json_schema", "schema": {...}}: Converse has no other, '
            f"not {wanted.get('type')!r}"
        )
    schema: JsonObject = {"schema": json.dumps(clean_json(given["schema"])).decode()}
    schema |= {name: given[name] for name in ("name", "description") if isinstance(given.get(name), str)}
    return {"textFormat": {"type": "json_schema", "structure": {"jsonSchema": schema}}}


def _metadata(metadata: JsonObject | None) -> JsonObject | None:
    for name, value in (metadata or {}).items():
        if not isinstance(value, str):
            raise ConfigError(f"metadata of Bedrock holds strings only: {name!r} is {type(value).__name__}")
    return metadata


# --- tools ------------------------------------------------------------------------------------------------------------


def _tool_config(messages: Sequence[Message], options: StreamOptions, quirks: Quirks) -> JsonObject | None:
    """Tools and the choice between them.

    A request whose transcript holds tool calls must have tools, and there is no choice ``none``: then they stay, and the
    tools of the transcript are declared again where none are left.
    """
    tools, used = current_tools(messages), has_tool_history(messages)
    chosen, choice = named_tool(options.tool_choice, tools), options.tool_choice
    if not used and (choice == "none" or not tools):
        return None
    config: JsonObject = {"tools": [_tool(tool, quirks) for tool in tools] or _gone(messages)}
    if chosen is not None:
        config["toolChoice"] = {"tool": {"name": chosen.name}}
    elif isinstance(choice, dict):
        config["toolChoice"] = choice
    elif tools and choice in _CHOICES:
        config["toolChoice"] = _CHOICES[choice]
    return config


def _gone(messages: Sequence[Message]) -> list[JsonObject]:
    """The tools that the transcript speaks of and that are declared no more."""
    names: dict[str, Any] = {}
    for message in messages:
        if isinstance(message, AssistantMessage):
            names |= dict.fromkeys(call.name for call in message.tool_calls)
        elif isinstance(message, ToolResultMessage):
            names[message.tool_name] = None
    schema = {"json": {"type": "object", "properties": {}}}
    return [
        {"toolSpec": {"name": name, "description": _GONE, "inputSchema": schema}} for name in names if name
    ]


def _tool(tool: Tool, quirks: Quirks) -> JsonObject:
    strict = strict_parameters(tool, supported=quirks.supports_strict_mode)
    spec: JsonObject = {"name": tool.name}
    if tool.description:
        spec["description"] = tool.description
    spec["inputSchema"] = {"json": tool.parameters if strict is None else strict}
    if strict is not None:
        spec["strict"] = True
    return {"toolSpec": spec}


# --- caching ----------------------------------------------------------------------------------------------------------


def _mark_for_cache(body: JsonObject, options: StreamOptions, quirks: Quirks) -> None:
    """Mark the ends of what stays the same: the system prompt, with the tools before it, and the transcript so far."""
    long = cache_retention(options) == "long" and quirks.supports_long_cache_retention
    point = {"cachePoint": {"type": "default", "ttl": "1h"} if long else {"type": "default"}}
    if "system" in body:
        body["system"].append(point)
    if body["messages"] and body["messages"][-1]["role"] == "user":
        body["messages"][-1]["content"].append(point)
