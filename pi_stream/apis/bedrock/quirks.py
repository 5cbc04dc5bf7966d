"""What models on Bedrock take and need, as flags: ``compat`` of a model, over defaults of its family.

The family shows in the model's id, or in its name where the id is an ARN that tells nothing.
"""

from __future__ import annotations

import re
from typing import Any, Literal, TypeAlias

from attrs import frozen

from pi_stream.apis._flags import choice, flag, read_flags
from pi_stream.models import Model

__all__ = ["Family", "Quirks"]

Family: TypeAlias = Literal["other", "claude", "nova-2", "nova", "gpt-oss", "gpt"]

_FAMILIES: tuple[tuple[Family, str], ...] = (
    ("claude", "claude|anthropic"),
    ("nova-2", "nova[- ]2"),
    ("nova", "nova"),
    ("gpt-oss", "gpt-oss"),
    ("gpt", r"gpt-\d"),
)
_CLAUDE_VERSION = re.compile(r"claude[- ](?:[a-z]+[- ])?(\d+)(?:[-. ](\d{1,2})(?!\d))?")


@frozen(kw_only=True)
class Quirks:
    """What a model on Bedrock takes and needs. The names in ``compat`` may be camelCase or snake_case.

    Attributes:
        family: Who makes it, which decides how it is told to think: ``claude``, ``nova``, ``nova-2``, ``gpt``,
            ``gpt-oss`` or ``other``.
        supports_prompt_caching: Takes cache points.
        supports_long_cache_retention: Takes cache points of one hour.
        supports_strict_mode: Takes ``strict`` on tools.
        supports_temperature: Takes ``temperature``.
        force_adaptive_thinking: Decides itself how much to think and takes an effort; other models of Claude take a budget
            of tokens.
        interleaved_thinking: Thinks between tool calls when asked by a beta; only models with a budget need to be asked.
        supports_thinking_display: Takes ``display``, which GovCloud does not.
    """

    family: Family = choice("other", "claude", "nova-2", "nova", "gpt-oss", "gpt")
    supports_prompt_caching: bool = flag()
    supports_long_cache_retention: bool = flag()
    supports_strict_mode: bool = flag()
    supports_temperature: bool = flag(True)
    force_adaptive_thinking: bool = flag()
    interleaved_thinking: bool = flag()
    supports_thinking_display: bool = flag(True)

    @classmethod
    def of(cls, model: Model) -> Quirks:
        """The quirks of a model.

        Caching as in https://docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching.html.

        Raises:
            ConfigError: ``compat`` has an unknown flag, or a value of the wrong kind.
        """
        text = f"{model.id} {model.name}".lower()
        family = next((family for family, names in _FAMILIES if re.search(names, text)), "other")
        defaults: dict[str, Any] = {
            "family": family,
            "supports_thinking_display": "us-gov" not in model.base_url + text,
        }
        if family == "claude":
            version = _version(text)
            defaults |= {
                "supports_prompt_caching": version >= (3, 7) or bool(re.search("3[-.]5[- ]haiku", text)),
                "supports_long_cache_retention": version >= (4, 5),
                "force_adaptive_thinking": version >= (4, 6),
                "interleaved_thinking": version >= (4, 0),  # requests to older ones fail with the beta
            }
        elif family in ("nova", "nova-2"):
            defaults["supports_prompt_caching"] = True
        return read_flags(cls, model.compat, defaults)


def _version(text: str) -> tuple[int, int]:
    """Version of a model of Claude: ``claude-sonnet-4-5-20250929`` is (4, 5)."""
    found = _CLAUDE_VERSION.search(text)
    return (int(found[1]), int(found[2] or 0)) if found else (0, 0)
