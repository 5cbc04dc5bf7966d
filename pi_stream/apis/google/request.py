"""A transcript as a request of ``streamGenerateContent``. Nothing is sent that was not asked for.

Source: https://ai.google.dev/api/generate-content; what Vertex AI calls otherwise:
https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/inference
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import parse_qsl, quote, urlsplit, urlunsplit

from pi_stream.apis._history import current_prompt, current_tools, sees_images, without_images
from pi_stream.apis._request import clean_json, endpoint, merge_deep, merge_headers
from pi_stream.apis.google.conversation import Conversation
from pi_stream.apis.google.quirks import Quirks
from pi_stream.apis.google.thinking import thinking_config
from pi_stream.apis.google.tools import gemini_schema, tool_fields
from pi_stream.exceptions import ConfigError
from pi_stream.http import HttpRequest
from pi_stream.messages import JsonObject, Message
from pi_stream.models import Model
from pi_stream.options import StreamOptions

__all__ = ["build_request", "build_vertex_request"]

_METHOD = "streamGenerateContent"
_VERSION = re.compile(r"/v\d+((alpha|beta)\d*)?(/|$)")
_MIME_TYPES = {"text": "text/plain", "json_object": "application/json", "json_schema": "application/json"}


def build_request(model: Model, messages: list[Message], options: StreamOptions) -> HttpRequest:
    """Write the request of the Gemini api for a transcript.

    Args:
        model: With the provider's base URL, headers and quirks merged in. A base URL without a version gets ``v1beta``.
        messages: Plain messages; system prompt and tools are in system messages.
        options: With the key resolved; it is sent as a header and never in the URL.

    Returns:
        A streaming request. Its body shares nothing with the arguments and is clean JSON.

    Raises:
        ConfigError: The request cannot be written: a bad URL, header or model id, an unknown quirk, a tool whose strict
            schema is required and impossible, a tool choice without its tool, or an option that is not JSON.
    """
    named = model.id.startswith(("models/", "tunedModels/"))
    url = _url(model, "v1beta", model.id if named else f"models/{model.id}")
    key = {"x-goog-api-key": options.api_key} if options.api_key else None
    extra = {"serviceTier": options.service_tier} if options.service_tier else {}
    return _request(model, messages, options, url, key, extra)


def build_vertex_request(model: Model, messages: list[Message], options: StreamOptions) -> HttpRequest:
    """Write the request of Vertex AI for a transcript: as :func:`build_request`, with these differences.

    The base URL ends with the version (``v1`` is added), or with project and location; a model is one of the publisher
    ``google`` unless its id names another one (``publisher/model``) or is a resource (``publishers/``, ``endpoints/``,
    ``projects/``). The key may also be an access token (``ya29...``), which is sent as bearer. ``metadata`` is sent as
    ``labels``.

    Raises:
        ConfigError: As :func:`build_request`; or a label is no string.
    """
    url = _url(model, "v1", _vertex_resource(model.id))
    key = None
    if options.api_key and options.api_key.startswith("ya29."):
        key = {"authorization": f"Bearer {options.api_key}"}
    elif options.api_key:
        key = {"x-goog-api-key": options.api_key}
    extra: JsonObject = {}
    if options.metadata:
        if not all(isinstance(value, str) for value in options.metadata.values()):
            raise ConfigError("Vertex AI takes metadata as labels: every value must be a string")
        extra["labels"] = options.metadata
    return _request(model, messages, options, url, key, extra)


def _request(
    model: Model,
    messages: list[Message],
    options: StreamOptions,
    url: str,
    key: dict[str, str] | None,
    extra: JsonObject,
) -> HttpRequest:
    headers = merge_headers(
        {"accept": "application/json", "content-type": "application/json"},
        key,
        model.headers,
        options.headers,
    )
    try:
        body = _body(model, messages, options) | extra
        body = clean_json(merge_deep(body, options.extra_body or {}))
    except RecursionError:
        raise ConfigError("the request is nested too deeply to be written") from None
    return HttpRequest(method="POST", url=url, headers=headers, body=body)


# --- where it goes ----------------------------------------------------------------------------------------------------


def _url(model: Model, version: str, resource: str) -> str:
    """The URL of the operation, with ``alt=sse``: without it the answer is one JSON array."""
    base = model.base_url
    if resource.startswith("projects/"):
        base = base.split("/projects/")[0]
    if not model.id or ".." in resource.split("/"):
        raise ConfigError(f"{model.id!r} is no model id")
    path = f"{quote(resource, safe='/@:')}:{_METHOD}"
    split = urlsplit(base)
    if not _VERSION.search(split.path) and not split.path.endswith(path):
        base = urlunsplit(split._replace(path=f"{split.path.rstrip('/')}/{version}"))
    split = urlsplit(endpoint(base, path))
    if "alt" not in dict(parse_qsl(split.query)):
        split = split._replace(query="&".join(filter(None, (split.query, "alt=sse"))))
    return urlunsplit(split)


def _vertex_resource(id: str) -> str:
    if id.startswith(("projects/", "publishers/", "endpoints/")):
        return id
    publisher, slash, name = id.partition("/")
    return f"publishers/{publisher}/models/{name}" if slash else f"publishers/google/models/{id}"


# --- body -------------------------------------------------------------------------------------------------------------


def _body(model: Model, messages: Sequence[Message], options: StreamOptions) -> JsonObject:
    quirks = Quirks.of(model)
    if not sees_images(model):
        messages = without_images(messages)
    body: JsonObject = {"contents": Conversation(model=model, quirks=quirks).contents(messages)}
    # System messages have one place only: later ones are added to the first.
    prompt = current_prompt(messages)
    if prompt:
        body["systemInstruction"] = {"role": "user", "parts": [{"text": prompt}]}
    body |= tool_fields(current_tools(messages), options.tool_choice, quirks)
    config = _generation_config(model, options, quirks)
    if config:
        body["generationConfig"] = config
    return body


def _generation_config(model: Model, options: StreamOptions, quirks: Quirks) -> JsonObject:
    fields: JsonObject = {
        "maxOutputTokens": options.max_tokens,
        "temperature": options.temperature,
        "topP": options.top_p,
        "stopSequences": list(options.stop) if options.stop else None,
        "seed": options.seed,
        **_response_format(options.response_format),
        "thinkingConfig": thinking_config(model, options, quirks),
    }
    return {name: value for name, value in fields.items() if value is not None}


def _response_format(wanted: JsonObject | None) -> JsonObject:
    """The format as MIME type and schema; fields of the provider's own are taken as they are."""
    kind = (wanted or {}).get("type")
    if wanted is None or kind not in _MIME_TYPES:
        return wanted or {}
    fields: JsonObject = {"responseMimeType": _MIME_TYPES[kind]}
    if kind == "json_schema":
        nested = wanted.get("json_schema")
        schema = (nested if isinstance(nested, dict) else wanted).get("schema")
        fields["responseJsonSchema"] = gemini_schema(schema) if schema is not None else None
    return fields
