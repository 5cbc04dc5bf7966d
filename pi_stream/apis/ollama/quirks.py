"""How servers that speak Ollama's protocol differ, as flags: ``compat`` of a model."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from pi_stream.apis._flags import flag, read_flags
from pi_stream.exceptions import ConfigError
from pi_stream.models import Model

__all__ = ["Quirks"]


def _optional_count(instance: Any, attribute: Any, value: Any) -> None:
    if value is not None and (type(value) is not int or value < 1):
        raise ConfigError(f"compat flag `num_ctx` must be a whole number above 0, not {value!r}")


@frozen(kw_only=True)
class Quirks:
    """What a server of Ollama's protocol takes. The names in ``compat`` may be camelCase or snake_case.

    Attributes:
        supports_think_levels: Takes words in ``think``; without, only true and false (versions before 0.12).
        supports_mid_convo_system_messages: Takes system messages in the middle of a conversation.
        num_ctx: Tokens of the context window to load the model with. Ollama's own default is small, and what does not fit
            is cut off without a word.
        tool_error_prefix: Put before the text of failed tool results, such as ``"[tool error] "``.
    """

    supports_think_levels: bool = flag(True)
    supports_mid_convo_system_messages: bool = flag()
    num_ctx: int | None = field(default=None, validator=_optional_count)
    tool_error_prefix: str = field(default="")

    @classmethod
    def of(cls, model: Model) -> Quirks:
        """The quirks of a model's server.

        Raises:
            ConfigError: ``compat`` has an unknown flag, or a value of the wrong kind.
        """
        return read_flags(cls, model.compat)
