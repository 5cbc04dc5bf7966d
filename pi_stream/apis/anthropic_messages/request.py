"""A transcript as a request of the Messages api. Nothing is sent that was not asked for.

The api runs on three platforms that differ in the envelope only: URL, version, and how the key is sent. The compat flag
``platform`` tells them apart.

=============  ============================================================  ==========================  ================
platform       URL, below the base URL                                       version                     key
=============  ============================================================  ==========================  ================
``anthropic``  ``/v1/messages``                                              a header                    ``x-api-key``
``vertex``     ``/publishers/anthropic/models/{model}:streamRawPredict``     in the body, without model  bearer token
``bedrock``    ``/model/{model}/invoke-with-response-stream``                in the body, without model  bearer token
                                                                             and ``stream``
=============  ============================================================  ==========================  ================

The base URL of Vertex AI ends with the location: ``https://.../v1/projects/{project}/locations/{location}``. On Bedrock a
request without a key is to be signed by the provider's credential.

Source: https://platform.claude.com/docs/en/api/messages; the platforms as in Anthropic's Python SDK (``lib/vertex``,
``lib/bedrock``).
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from pi_stream.apis._history import collapse, current_tools, sees_images, without_images
from pi_stream.apis._ids import legal_ids
from pi_stream.apis._request import cache_retention, clean_json, endpoint, merge_deep, merge_headers
from pi_stream.apis.anthropic_messages.conversation import Conversation
from pi_stream.apis.anthropic_messages.quirks import Platform, Quirks
from pi_stream.apis.anthropic_messages.thinking import max_tokens, thinking_fields
from pi_stream.apis.anthropic_messages.tools import tool_fields
from pi_stream.exceptions import ConfigError
from pi_stream.http import HttpRequest
from pi_stream.messages import JsonObject, Message
from pi_stream.models import Model
from pi_stream.options import StreamOptions

__all__ = ["build_request"]

_VERSION_HEADER = {"anthropic-version": "2023-06-01"}
_VERSION_FIELD = {"vertex": "vertex-2023-10-16", "bedrock": "bedrock-2023-05-31"}
_OAUTH_TOKEN = "sk-ant-oat"
_BETAS = {
    "oauth": "oauth-2025-04-20",
    "tool-streaming": "fine-grained-tool-streaming-2025-05-14",
    "interleaved": "interleaved-thinking-2025-05-14",
}
_AFFINITY_HEADER = {
    "openai": "x-session-affinity",
    "openai-nosession": "x-session-affinity",
    "openrouter": "x-session-id",
    "opencode": "x-opencode-session",
}


def build_request(
    model: Model, messages: list[Message], options: StreamOptions, *, platform: Platform | None = None
) -> HttpRequest:
    """Write the request of the Messages api for a transcript.

    Args:
        model: With the provider's base URL, headers and quirks merged in.
        messages: Plain messages; system prompt and tools are in system messages.
        options: With the key resolved; without one there is no header for it.
        platform: Where Claude runs, unless the model's compat flags say it.

    Returns:
        A streaming request. Its body shares nothing with the arguments and is clean JSON.

    Raises:
        ConfigError: The request cannot be written: a bad URL or header, an unknown quirk, a tool whose strict schema
            is required and impossible, a tool choice without its tool, a response format the api does not have, or an
            option that is not JSON.
    """
    quirks = Quirks.of(model, platform)
    if not sees_images(model):
        messages = without_images(messages)
    try:
        body = _body(model, messages, options, quirks)
        headers = _headers(model, body, options, quirks)
        if cache_retention(options) != "none":
            _mark_for_cache(body, options, quirks)
        if quirks.platform != "anthropic":
            body = _enveloped(body, headers, quirks)
        body = clean_json(merge_deep(body, options.extra_body or {}))
    except RecursionError:
        raise ConfigError("the request is nested too deeply to be written") from None
    return HttpRequest(method="POST", url=_url(model, quirks), headers=headers, body=body)


# --- body -------------------------------------------------------------------------------------------------------------


def _body(model: Model, messages: Sequence[Message], options: StreamOptions, quirks: Quirks) -> JsonObject:
    tools = current_tools(messages)
    if not quirks.supports_mid_convo_system_messages:
        messages = collapse(messages)
    conversation = Conversation(
        model=model, api=model.api or "anthropic-messages", quirks=quirks, ids=legal_ids(messages)
    )
    body: JsonObject = {
        "model": model.id,
        "messages": conversation.messages(messages),
        "max_tokens": max_tokens(model, options),
        "stream": True,
    }
    system, container = conversation.system(messages), conversation.container(messages)
    if system:
        body["system"] = [{"type": "text", "text": system}]
    if container:
        body["container"] = container
    body |= tool_fields(tools, options, quirks)
    body |= thinking_fields(model, options, quirks)
    output = _response_format(options.response_format)
    if output:
        body["output_config"] = {**body.get("output_config", {}), "format": output}
    thinks = body.get("thinking", {}).get("type", "disabled") != "disabled"
    return body | _option_fields(options, quirks, thinks=thinks)


def _option_fields(options: StreamOptions, quirks: Quirks, *, thinks: bool) -> JsonObject:
    """The caller's options that are fields of the same meaning. There is no field for a seed."""
    user = (options.metadata or {}).get("user_id")
    fields: JsonObject = {
        # A model that thinks refuses it.
        "temperature": options.temperature if quirks.supports_temperature and not thinks else None,
        "top_p": options.top_p,
        "stop_sequences": list(options.stop) if options.stop else None,
        "service_tier": options.service_tier,
        "metadata": {"user_id": user} if isinstance(user, str) else None,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _response_format(wanted: JsonObject | None) -> JsonObject | None:
    """The format as ``output_config`` has it: a schema, and nothing else about it."""
    if wanted is None or wanted.get("type") == "text":
        return None
    nested = wanted.get("json_schema")
    schema = (nested if isinstance(nested, dict) else wanted).get("schema")
    if wanted.get("type") != "json_schema" or not isinstance(schema, dict):
        raise ConfigError(
            'response_format must be {"type": "json_schema", "schema": {...}}: the Messages api has no other, '
            f"not {wanted.get('type')!r}"
        )
    return {"type": "json_schema", "schema": schema}


# --- caching ----------------------------------------------------------------------------------------------------------


def _mark_for_cache(body: JsonObject, options: StreamOptions, quirks: Quirks) -> None:
    """Mark the ends of what stays the same: system prompt, tools, and the transcript so far."""
    long = cache_retention(options) == "long" and quirks.supports_long_cache_retention
    marker = {"type": "ephemeral", "ttl": "1h"} if long else {"type": "ephemeral"}
    if "system" in body:
        body["system"][-1]["cache_control"] = marker
    if "tools" in body and quirks.supports_cache_control_on_tools:
        body["tools"][-1]["cache_control"] = marker
    if not body["messages"]:
        return
    last: JsonObject = body["messages"][-1]
    if isinstance(last["content"], str):
        last["content"] = [{"type": "text", "text": last["content"]}]
    content: list[JsonObject] = last["content"]
    for place in range(len(content) - 1, -1, -1):
        if content[place]["type"] not in ("thinking", "redacted_thinking"):
            content[place] = {**content[place], "cache_control": marker}
            break


# --- envelope ---------------------------------------------------------------------------------------------------------


def _url(model: Model, quirks: Quirks) -> str:
    name = quote(model.id, safe=":@" if quirks.platform == "vertex" else ":")
    match quirks.platform:
        case "vertex":
            return endpoint(model.base_url, f"publishers/anthropic/models/{name}:streamRawPredict")
        case "bedrock":
            return endpoint(model.base_url, f"model/{name}/invoke-with-response-stream")
        case "anthropic":
            # The base URL may end with the version, as those of other protocols do.
            versioned = model.base_url.partition("?")[0].rstrip("/").endswith("/v1")
            return endpoint(model.base_url, "messages" if versioned else "v1/messages")


def _headers(model: Model, body: JsonObject, options: StreamOptions, quirks: Quirks) -> dict[str, str]:
    accept = "application/vnd.amazon.eventstream" if quirks.platform == "bedrock" else "application/json"
    betas = _betas(body, options, quirks)
    return merge_headers(
        {"accept": accept, "content-type": "application/json"},
        _VERSION_HEADER if quirks.platform == "anthropic" else None,
        _key(options, quirks),
        {"anthropic-beta": ",".join(betas)} if betas else None,
        model.headers,
        _affinity_headers(options, quirks),
        options.headers,
    )


def _key(options: StreamOptions, quirks: Quirks) -> dict[str, str]:
    key = options.api_key
    if not key:
        return {}
    bearer = quirks.platform != "anthropic" or quirks.auth == "bearer" or key.startswith(_OAUTH_TOKEN)
    return {"authorization": f"Bearer {key}"} if bearer else {"x-api-key": key}


def _betas(body: JsonObject, options: StreamOptions, quirks: Quirks) -> list[str]:
    """Beta features to ask for. A header ``anthropic-beta`` of the caller replaces them all."""
    asked = {
        "oauth": quirks.platform == "anthropic" and (options.api_key or "").startswith(_OAUTH_TOKEN),
        "tool-streaming": "tools" in body and quirks.supports_eager_tool_input_streaming is False,
        "interleaved": quirks.interleaved_thinking and body.get("thinking", {}).get("type") == "enabled",
    }
    return [_BETAS[name] for name, wanted in asked.items() if wanted]


def _affinity_headers(options: StreamOptions, quirks: Quirks) -> dict[str, str]:
    """The header that brings the requests of a session to the same machine, where its cache is."""
    session = options.session_id
    if not quirks.send_session_affinity_headers or not session or cache_retention(options) == "none":
        return {}
    return {_AFFINITY_HEADER[quirks.session_affinity_format]: session}


def _enveloped(body: JsonObject, headers: dict[str, str], quirks: Quirks) -> JsonObject:
    """The body as the clouds want it: with the version, without what stands in the URL."""
    left_out = ("model", "stream") if quirks.platform == "bedrock" else ("model",)
    body = {name: value for name, value in body.items() if name not in left_out}
    body["anthropic_version"] = _VERSION_FIELD[quirks.platform]
    if quirks.platform == "bedrock" and "anthropic-beta" in headers:
        body["anthropic_beta"] = headers.pop("anthropic-beta").split(",")
    return body
