"""How servers of the Messages api differ, as flags: ``compat`` of a model, over defaults of the platform and the host."""

from __future__ import annotations

from typing import Any, Literal
from urllib.parse import urlsplit

from attrs import frozen

from pi_stream.apis._flags import anything, choice, flag, optional_flag, read_flags
from pi_stream.models import Model

__all__ = ["Platform", "Quirks"]

Platform = Literal["anthropic", "vertex", "bedrock"]
"""Where Claude runs: Anthropic's own api and those that copy it, Google Vertex AI, or Amazon Bedrock's invoke stream."""

# What the clouds are known to take less of. Interleaved thinking needs a beta that they refuse for older models.
_ON_CLOUDS: dict[str, Any] = {"supports_eager_tool_input_streaming": None, "interleaved_thinking": False}
_OPENROUTER: dict[str, Any] = {"send_session_affinity_headers": True, "session_affinity_format": "openrouter"}


@frozen(kw_only=True)
class Quirks:
    """What a server of the Messages api takes and needs. The names in ``compat`` may be camelCase or snake_case.

    Attributes:
        platform: Where it runs, which decides URL, version field and how the key is sent.
        auth: How the key is sent to an api of the platform ``anthropic``: ``x-api-key`` or ``bearer``. OAuth tokens
            (``sk-ant-oat...``) always go as bearer.
        supports_eager_tool_input_streaming: Takes ``eager_input_streaming`` on tools; false asks for the same by beta header,
            null for nothing.
        supports_long_cache_retention: Takes cache markers of one hour.
        supports_cache_control_on_tools: Takes cache markers on tools.
        supports_temperature: Takes ``temperature``.
        supports_strict_tools: Takes ``strict`` on tools.
        supports_mid_convo_system_messages: Takes messages with the role ``system``.
        force_adaptive_thinking: Decides itself how much to think and takes an effort; others take a budget of tokens.
        supports_mid_convo_effort: Likewise.
        interleaved_thinking: Thinks between tool calls when asked by beta header; only models with a budget need to be asked.
        allow_empty_signature: Takes thinking back without a signature.
        send_session_affinity_headers: Routes by session headers.
        session_affinity_format: Which: ``openai`` and ``openai-nosession`` (``x-session-affinity``), ``openrouter``
            (``x-session-id``), ``opencode`` (``x-opencode-session``).
        supports_mid_convo_tool_changes, supports_message_threads, allowed_fallback_models: Betas of pi-ai's catalog that
            are not used here; ``extra_body`` and ``headers`` can ask for them.
    """

    platform: Platform = choice("anthropic", "vertex", "bedrock")
    auth: Literal["x-api-key", "bearer"] = choice("x-api-key", "bearer")
    supports_eager_tool_input_streaming: bool | None = optional_flag()
    supports_long_cache_retention: bool = flag(True)
    supports_cache_control_on_tools: bool = flag(True)
    supports_temperature: bool = flag(True)
    supports_strict_tools: bool = flag()
    supports_mid_convo_system_messages: bool = flag()
    force_adaptive_thinking: bool = flag()
    supports_mid_convo_effort: bool = flag()
    interleaved_thinking: bool = flag(True)
    allow_empty_signature: bool = flag()
    send_session_affinity_headers: bool = flag()
    session_affinity_format: Literal["openai", "openai-nosession", "openrouter", "opencode"] = choice(
        "openai", "openai-nosession", "openrouter", "opencode"
    )
    supports_mid_convo_tool_changes: Any = anything()
    supports_message_threads: Any = anything()
    allowed_fallback_models: Any = anything()

    @classmethod
    def of(cls, model: Model, platform: Platform | None = None) -> Quirks:
        """The quirks of a model's server.

        Args:
            model: With its provider's quirks merged into ``compat``.
            platform: What holds where ``compat`` does not name one.

        Raises:
            ConfigError: ``compat`` has an unknown flag, or a value of the wrong kind.
        """
        first = read_flags(cls, model.compat, {"platform": platform} if platform else None)
        defaults: dict[str, Any] = {"platform": first.platform}
        if first.platform != "anthropic":
            defaults |= _ON_CLOUDS
        else:
            defaults["supports_eager_tool_input_streaming"] = True
            if _host(model.base_url).endswith(".openrouter.ai"):
                defaults |= _OPENROUTER
        return read_flags(cls, model.compat, defaults)

    @property
    def adaptive(self) -> bool:
        """Whether the model takes an effort rather than a budget."""
        return self.force_adaptive_thinking or self.supports_mid_convo_effort


def _host(url: str) -> str:
    try:
        return f".{urlsplit(url).hostname or ''}"
    except ValueError:
        return ""
