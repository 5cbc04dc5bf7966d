"""The message model: what goes to a model and what comes back.

Names, values and meanings are those of the TypeScript package pi-ai, so that JSON sessions are interchangeable: an
attribute ``tool_call_id`` here is the key ``toolCallId`` there. :mod:`pi_stream.serialization` does the conversion.

Every class keeps keys it does not know in ``extra`` and writes them back. Times are Unix milliseconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Literal, TypeAlias

from attrs import define, field

from pi_stream.usage import Usage

__all__ = [
    "AgentMessage",
    "AssistantContent",
    "AssistantMessage",
    "Content",
    "Context",
    "CustomMessage",
    "DeferredHandle",
    "Diagnostic",
    "ErrorCause",
    "ErrorKind",
    "ErrorOrigin",
    "ErrorPhase",
    "ImageContent",
    "JsonObject",
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
    "UserContent",
    "UserMessage",
    "convert_to_llm",
    "now_ms",
    "register_role",
]

JsonObject: TypeAlias = dict[str, Any]
"""A JSON object: string keys, JSON values."""

StopReason = Literal["pending", "stop", "length", "toolUse", "error", "aborted", "deferred"]
"""Why an answer ended; ``pending`` until it did."""

ErrorKind = Literal[
    "connect",
    "tls",
    "timeout_connect",
    "timeout_head",
    "timeout_first",
    "timeout_idle",
    "timeout_content",
    "timeout_total",
    "truncated",
    "transport",
    "http_status",
    "provider_error",
    "overloaded",
    "rate_limit",
    "overflow",
    "refusal",
    "filtered",
    "malformed",
    "too_large",
    "protocol",
    "auth",
    "config",
    "cancelled",
]
"""What went wrong: a closed list."""

ErrorPhase = Literal["connect", "head", "body", "done"]
ErrorOrigin = Literal["caller", "provider", "network", "limit", "engine"]


def now_ms() -> int:
    """The wall clock as Unix milliseconds."""
    return time.time_ns() // 1_000_000


def _extra() -> Any:
    return field(factory=dict, repr=False, kw_only=True)


def _absent() -> Any:
    # Names of attributes whose keys were absent on load, so that saving leaves them out again.
    return field(factory=set, init=False, repr=False, eq=False)


# --- content blocks ---------------------------------------------------------------------------------------------------


@define
class TextContent:
    """A piece of text. ``text_signature`` is opaque replay data of the provider."""

    type: Literal["text"] = field(default="text", init=False)
    text: str = ""
    text_signature: str | None = field(default=None, kw_only=True)
    extra: JsonObject = _extra()
    _absent: set[str] = _absent()


@define
class ThinkingContent:
    """What the model thought. With ``redacted`` the signature is the payload and ``thinking`` a placeholder."""

    type: Literal["thinking"] = field(default="thinking", init=False)
    thinking: str = ""
    thinking_signature: str | None = field(default=None, kw_only=True)
    redacted: bool | None = field(default=None, kw_only=True)
    extra: JsonObject = _extra()
    _absent: set[str] = _absent()


@define
class ImageContent:
    """An image: ``data`` is base64 without a data URL prefix."""

    type: Literal["image"] = field(default="image", init=False)
    data: str
    mime_type: str
    extra: JsonObject = _extra()
    _absent: set[str] = _absent()


@define
class ToolCall:
    """A call the model wants made.

    ``arguments`` is always an object. When the finished text was not one, it is empty and ``arguments_error`` holds
    the parser's message, a blank line and the text received. Blank text is not an error: it means no arguments.
    """

    type: Literal["toolCall"] = field(default="toolCall", init=False)
    id: str
    name: str
    arguments: JsonObject = field(factory=dict)
    thought_signature: str | None = field(default=None, kw_only=True)
    namespace: str | None = field(default=None, kw_only=True)
    arguments_error: str | None = field(default=None, kw_only=True)
    extra: JsonObject = _extra()
    _absent: set[str] = _absent()


@define
class UnknownContent:
    """A block of a type this version does not know, kept whole: ``data`` is the JSON object as it was read."""

    type: str
    data: JsonObject = field(factory=dict)


UserContent: TypeAlias = TextContent | ImageContent | UnknownContent
AssistantContent: TypeAlias = TextContent | ThinkingContent | ToolCall | UnknownContent
Content: TypeAlias = TextContent | ThinkingContent | ImageContent | ToolCall | UnknownContent


# --- tools ------------------------------------------------------------------------------------------------------------


@define
class Tool:
    """A function the model may call. ``parameters`` is a JSON Schema object.

    ``constrained_sampling`` is False, ``{"type": "json_schema", "strict": "prefer" | "require"}`` or
    ``{"type": "grammar", "variants": {...}}``.
    """

    name: str
    description: str = ""
    parameters: JsonObject = field(factory=lambda: {"type": "object", "properties": {}})
    constrained_sampling: JsonObject | Literal[False] | None = field(default=None, kw_only=True)
    extra: JsonObject = _extra()
    _absent: set[str] = _absent()


# --- what an answer carries besides content -------------------------------------------------------------------------


@define(kw_only=True)
class Diagnostic:
    """Something worth knowing that changed nothing: ``type`` names it, ``details`` and ``error`` say more."""

    type: str
    timestamp: int = 0
    error: JsonObject | None = None
    details: JsonObject | None = None
    extra: JsonObject = _extra()
    _absent: set[str] = _absent()


@define(kw_only=True)
class ErrorCause:
    """Why an answer ended badly, as fields instead of text.

    Attributes:
        kind: What went wrong.
        phase: How far the exchange had come: connecting, waiting for the head, reading the body, after the end.
        origin: Who caused it.
        retryable: Whether the same request may work later.
        status: HTTP status.
        provider_code: The provider's own code or type of the error.
        retry_after_ms: How long the provider asks to wait, in ms.
        request_id: The provider's id of the exchange.
        overflow: The prompt did not fit the context window.
        bytes: Body bytes received.
        chunks: Provider chunks received.
        last_byte_age_ms: How long ago the last byte came when the failure was noticed, in ms.
    """

    kind: ErrorKind
    phase: ErrorPhase = "body"
    origin: ErrorOrigin = "provider"
    retryable: bool = False
    status: int | None = None
    provider_code: str | None = None
    retry_after_ms: int | None = None
    request_id: str | None = None
    overflow: bool | None = None
    bytes: int = 0
    chunks: int = 0
    last_byte_age_ms: int | None = None
    extra: JsonObject = _extra()
    _absent: set[str] = _absent()


@define(kw_only=True)
class ProviderData:
    """Provider content without a block of ours, kept for replay to the same provider, api and model.

    ``after`` is the number of content blocks before it; ``data`` is the provider's JSON.
    """

    after: int
    api: str
    provider: str
    model: str
    data: Any
    extra: JsonObject = _extra()
    _absent: set[str] = _absent()


@define(kw_only=True)
class DeferredHandle:
    """A ticket for an answer the provider will have later. Times are ms; ``data`` is the provider's own."""

    provider: str
    model_id: str
    api: str
    id: str
    expires_at: int | None = None
    poll_after_ms: int | None = None
    data: Any = None
    extra: JsonObject = _extra()
    _absent: set[str] = _absent()


# --- messages ---------------------------------------------------------------------------------------------------------


@define
class SystemMessage:
    """Instructions, and tools that come and go. A first one is the system prompt; later ones apply from there on.

    ``sections`` are named parts of the prompt rendered after ``content``; a None value removes one.
    """

    role: Literal["system"] = field(default="system", init=False)
    content: str | list[TextContent | UnknownContent] = ""
    sections: dict[str, str | None] | None = field(default=None, kw_only=True)
    tools_added: list[Tool] | None = field(default=None, kw_only=True)
    tools_removed: list[JsonObject] | None = field(default=None, kw_only=True)
    timestamp: int = field(factory=now_ms, kw_only=True)
    extra: JsonObject = _extra()
    _absent: set[str] = _absent()


@define
class UserMessage:
    """What the user says: a string, or text and images."""

    role: Literal["user"] = field(default="user", init=False)
    content: str | list[UserContent] = ""
    timestamp: int = field(factory=now_ms, kw_only=True)
    extra: JsonObject = _extra()
    _absent: set[str] = _absent()


@define
class AssistantMessage:
    """What the model answered. ``stop_reason`` is ``pending`` until it is final.

    Attributes:
        content: Blocks in the order they first appeared in the stream.
        api: Wire protocol that produced it, such as ``anthropic-messages``.
        provider: Vendor id.
        model: The model id asked for; ``response_model`` is another one the provider named.
        usage: Token counts, zero until known.
        raw_stop_reason: The provider's own word for why it stopped.
        error_message: Text for humans when ``stop_reason`` is ``error`` or ``aborted``; ``error_cause`` is for code.
        timestamp: When the request started, Unix ms; ``duration_ms`` runs from there to the terminal event.
    """

    role: Literal["assistant"] = field(default="assistant", init=False)
    content: list[AssistantContent] = field(factory=list)
    api: str = field(default="", kw_only=True)
    provider: str = field(default="", kw_only=True)
    model: str = field(default="", kw_only=True)
    response_model: str | None = field(default=None, kw_only=True)
    response_id: str | None = field(default=None, kw_only=True)
    provider_thinking_level: str | None = field(default=None, kw_only=True)
    thinking_level: str | None = field(default=None, kw_only=True)
    diagnostics: list[Diagnostic] | None = field(default=None, kw_only=True)
    usage: Usage = field(factory=Usage, kw_only=True)
    stop_reason: StopReason = field(default="pending", kw_only=True)
    deferred: DeferredHandle | None = field(default=None, kw_only=True)
    error_message: str | None = field(default=None, kw_only=True)
    error_cause: ErrorCause | None = field(default=None, kw_only=True)
    provider_data: list[ProviderData] | None = field(default=None, kw_only=True)
    raw_stop_reason: str | None = field(default=None, kw_only=True)
    end_turn: bool | None = field(default=None, kw_only=True)
    timestamp: int = field(factory=now_ms, kw_only=True)
    duration_ms: int | None = field(default=None, kw_only=True)
    extra: JsonObject = _extra()
    _absent: set[str] = _absent()

    @property
    def text(self) -> str:
        """The answer's text: all text blocks joined."""
        return "".join(block.text for block in self.content if isinstance(block, TextContent))

    @property
    def thinking(self) -> str:
        """The model's thinking: all thinking blocks joined."""
        return "".join(block.thinking for block in self.content if isinstance(block, ThinkingContent))

    @property
    def tool_calls(self) -> list[ToolCall]:
        """The calls the model wants made, in order."""
        return [block for block in self.content if isinstance(block, ToolCall)]


@define
class ToolResultMessage:
    """The result of a tool call. ``details`` is for the application: it is never sent to a model."""

    role: Literal["toolResult"] = field(default="toolResult", init=False)
    tool_call_id: str
    tool_name: str
    content: list[UserContent] = field(factory=list)
    is_error: bool = field(default=False, kw_only=True)
    details: Any = field(default=None, kw_only=True)
    usage: Usage | None = field(default=None, kw_only=True)
    nested_calls: JsonObject | None = field(default=None, kw_only=True)
    timestamp: int = field(factory=now_ms, kw_only=True)
    duration_ms: int | None = field(default=None, kw_only=True)
    extra: JsonObject = _extra()
    _absent: set[str] = _absent()


Message: TypeAlias = SystemMessage | UserMessage | AssistantMessage | ToolResultMessage


@define
class CustomMessage:
    """A message of an application role nobody registered a class for: ``data`` is the JSON object as it was read."""

    role: str
    data: JsonObject = field(factory=dict)


AgentMessage: TypeAlias = Any
"""A :data:`Message`, a :class:`CustomMessage`, or an instance of a class given to :func:`register_role`."""

_CORE_ROLES: dict[str, type] = {
    "system": SystemMessage,
    "user": UserMessage,
    "assistant": AssistantMessage,
    "toolResult": ToolResultMessage,
}
_custom_roles: dict[str, type] = {}


def register_role(cls: type) -> type:
    """Register a message class of the application; usable as a decorator.

    The class is an attrs class with a ``role`` attribute: ``role: Literal["note"] = field(default="note", init=False)``.
    Its messages stand in a transcript beside the others and survive JSON round trips.

    Args:
        cls: The attrs class.

    Returns:
        The class itself.

    Raises:
        ConfigError: The class is not an attrs class, names no role, or takes a role that exists.
    """
    from pi_stream.exceptions import ConfigError

    attributes = {attribute.name: attribute for attribute in getattr(cls, "__attrs_attrs__", ())}
    if "role" not in attributes:
        raise ConfigError(f"{cls.__name__} must be an attrs class with a `role` attribute to be registered")
    role = attributes["role"].default
    if not isinstance(role, str) or not role:
        raise ConfigError(f"{cls.__name__}.role needs its role name as default value")
    if role in _CORE_ROLES or _custom_roles.get(role, cls) is not cls:
        raise ConfigError(f"the role {role!r} of {cls.__name__} is taken already")
    _custom_roles[role] = cls
    return cls


def role_class(role: str) -> type | None:
    """The class of a role, built in or registered; None if nobody knows it."""
    return _CORE_ROLES.get(role) or _custom_roles.get(role)


def convert_to_llm(
    messages: Iterable[AgentMessage],
    convert: Callable[[AgentMessage], Message | Sequence[Message] | None] | None = None,
) -> list[Message]:
    """Turn a transcript of an application into plain messages for a model.

    Args:
        messages: The transcript: plain messages and messages of custom roles.
        convert: What to make of a message of a custom role: one message, several, or None to leave it out. Without it
            custom roles are left out.

    Returns:
        Plain messages, in order.
    """
    plain: list[Message] = []
    for message in messages:
        if isinstance(message, Message):
            plain.append(message)
        elif convert is not None:
            made = convert(message)
            if isinstance(made, Message):
                plain.append(made)
            else:
                plain.extend(made or ())
    return plain


@define
class Context:
    """What a request is about: system prompt, messages and tools.

    ``system_prompt`` and ``tools`` are short for a leading :class:`SystemMessage`.
    """

    messages: list[AgentMessage] = field(factory=list)
    system_prompt: str | None = field(default=None, kw_only=True)
    tools: list[Tool] | None = field(default=None, kw_only=True)
    extra: JsonObject = _extra()
    _absent: set[str] = _absent()

    #: Timestamp of the system message that ``system_prompt`` and ``tools`` are folded into.
    FOLDED_TIMESTAMP: ClassVar[int] = 0

    def transcript(self) -> list[AgentMessage]:
        """The messages with ``system_prompt`` and ``tools`` folded into a leading system message."""
        if not self.system_prompt and not self.tools:
            return list(self.messages)
        head = SystemMessage(
            self.system_prompt or "", tools_added=self.tools or None, timestamp=self.FOLDED_TIMESTAMP
        )
        return [head, *self.messages]
