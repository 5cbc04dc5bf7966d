"""pi_stream: one typed event stream from any LLM provider.

::

    async with pi_stream.stream("local", "Say hello") as stream:
        async for event in stream:
            if event.type == "text_delta":
                print(event.delta, end="")
    print(stream.message.stop_reason)

``bytes → decoder → chunks → translator → events → reducer → AssistantMessage``

Names are loaded on first use: importing the package loads neither aiohttp nor cattrs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pi_stream.version import __version__ as __version__

if TYPE_CHECKING:
    from pi_stream.apis import api_ids as api_ids
    from pi_stream.apis import register_api as register_api
    from pi_stream.apis.base import Api as Api
    from pi_stream.catalog import Catalog as Catalog
    from pi_stream.catalog import CatalogEntry as CatalogEntry
    from pi_stream.check import ConnectionCheck as ConnectionCheck
    from pi_stream.client import Client as Client
    from pi_stream.client import build_request as build_request
    from pi_stream.client import complete as complete
    from pi_stream.client import stream as stream
    from pi_stream.context_size import ContextSize as ContextSize
    from pi_stream.context_size import context_tokens as context_tokens
    from pi_stream.engine.decode import decode as decode
    from pi_stream.engine.generator import GeneratorRequest as GeneratorRequest
    from pi_stream.engine.stream import AssistantStream as AssistantStream
    from pi_stream.events import *  # noqa: F403
    from pi_stream.exceptions import *  # noqa: F403
    from pi_stream.handover import Change as Change
    from pi_stream.handover import Handover as Handover
    from pi_stream.handover import HandoverPolicy as HandoverPolicy
    from pi_stream.handover import IdRule as IdRule
    from pi_stream.handover import hand_over as hand_over
    from pi_stream.http import HttpRequest as HttpRequest
    from pi_stream.http import ResponseHead as ResponseHead
    from pi_stream.messages import *  # noqa: F403
    from pi_stream.models import Model as Model
    from pi_stream.models import ReasoningLevel as ReasoningLevel
    from pi_stream.options import Limits as Limits
    from pi_stream.options import RetryPolicy as RetryPolicy
    from pi_stream.options import StreamOptions as StreamOptions
    from pi_stream.overflow import is_context_overflow as is_context_overflow
    from pi_stream.providers.base import Credential as Credential
    from pi_stream.providers.base import Provider as Provider
    from pi_stream.providers.registry import register as register
    from pi_stream.reducer import Reducer as Reducer
    from pi_stream.reducer import fold as fold
    from pi_stream.reducer import unfold as unfold
    from pi_stream.serialization import dumps as dumps
    from pi_stream.serialization import from_json as from_json
    from pi_stream.serialization import loads as loads
    from pi_stream.serialization import to_json as to_json
    from pi_stream.structured import OutputFormat as OutputFormat
    from pi_stream.tools import FunctionTool as FunctionTool
    from pi_stream.tools import tool as tool
    from pi_stream.tools import tool_result as tool_result
    from pi_stream.tools import validate_tool_call as validate_tool_call
    from pi_stream.usage import Cost as Cost
    from pi_stream.usage import CostTier as CostTier
    from pi_stream.usage import ModelCost as ModelCost
    from pi_stream.usage import Usage as Usage
    from pi_stream.usage import price as price


_NAMES = {
    "apis": ("api_ids", "register_api"),
    "apis.base": ("Api",),
    "catalog": ("Catalog", "CatalogEntry"),
    "check": ("ConnectionCheck",),
    "client": ("Client", "build_request", "complete", "stream"),
    "context_size": ("ContextSize", "context_tokens"),
    "engine.decode": ("decode",),
    "engine.generator": ("GeneratorRequest",),
    "engine.stream": ("AssistantStream",),
    "events": (
        "Done",
        "Error",
        "Event",
        "Fallback",
        "Metadata",
        "Restart",
        "Retry",
        "Start",
        "TextDelta",
        "TextEnd",
        "TextStart",
        "ThinkingDelta",
        "ThinkingEnd",
        "ThinkingStart",
        "ToolCallDelta",
        "ToolCallEnd",
        "ToolCallStart",
    ),
    "exceptions": (
        "ConfigError",
        "ContextOverflowError",
        "DecodeError",
        "InvalidOutputError",
        "InvalidToolCallError",
        "MissingExtraError",
        "MissingKeyError",
        "PiStreamError",
        "ProtocolViolation",
        "SerializationError",
        "StreamError",
        "TransportError",
    ),
    "handover": ("Change", "Handover", "HandoverPolicy", "IdRule", "hand_over"),
    "http": ("HttpRequest", "ResponseHead"),
    "messages": (
        "AgentMessage",
        "AssistantMessage",
        "Content",
        "Context",
        "CustomMessage",
        "DeferredHandle",
        "Diagnostic",
        "ErrorCause",
        "ImageContent",
        "Message",
        "ProviderData",
        "StopReason",
        "SystemMessage",
        "TextContent",
        "ThinkingContent",
        "Tool",
        "ToolCall",
        "ToolResultMessage",
        "UnknownContent",
        "UserMessage",
        "convert_to_llm",
        "register_role",
    ),
    "models": ("Model", "ReasoningLevel"),
    "options": ("Limits", "RetryPolicy", "StreamOptions"),
    "overflow": ("is_context_overflow",),
    "providers.base": ("Credential", "Provider"),
    "providers.registry": ("register",),
    "reducer": ("Reducer", "fold", "unfold"),
    "serialization": ("dumps", "from_json", "loads", "to_json"),
    "structured": ("OutputFormat",),
    "tools": ("FunctionTool", "tool", "tool_result", "validate_tool_call"),
    "usage": ("Cost", "CostTier", "ModelCost", "Usage", "price"),
}
_HOME = {name: module for module, names in _NAMES.items() for name in names}

__all__ = ["__version__", *sorted(_HOME)]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
