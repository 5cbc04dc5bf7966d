"""How Gemini models differ: defaults by the generation in the model's id, and flags for models whose id tells nothing.

Source: https://ai.google.dev/gemini-api/docs/thinking, .../function-calling and .../thought-signatures
"""

from __future__ import annotations

import re
from typing import Any, Literal

from attrs import frozen

from pi_stream.apis._flags import choice, flag, read_flags
from pi_stream.models import Model

__all__ = ["Quirks", "family"]

_GENERATION = re.compile(r"gemini-(\d+)")
_NEWEST = ("gemini-flash-latest", "gemini-flash-lite-latest")
_OWN_IDS = ("claude-", "gpt-oss-")


@frozen(kw_only=True)
class Quirks:
    """What a model takes and needs. The names in ``compat`` may be camelCase or snake_case.

    Attributes:
        thinking: How it is told to think: by ``level`` or by a ``budget`` of tokens.
        tool_schema: How tools describe their parameters: as JSON Schema (``parametersJsonSchema``), or as the subset of
            OpenAPI that all models know (``parameters``).
        supports_strict_tools: Takes the mode ``VALIDATED``.
        supports_tool_call_ids: Takes ids of function calls. Only the Gemini api does, Vertex AI has no field for them.
        supports_images_in_tool_results: Takes images inside a function response; others get them in a user message.
        requires_signed_calls: Refuses function calls without a thought signature.
    """

    thinking: Literal["level", "budget"] = choice("budget", "level")
    tool_schema: Literal["json-schema", "openapi"] = choice("json-schema", "openapi")
    supports_strict_tools: bool = flag()
    supports_tool_call_ids: bool = flag()
    supports_images_in_tool_results: bool = flag()
    requires_signed_calls: bool = flag()

    @classmethod
    def of(cls, model: Model) -> Quirks:
        """The quirks of a model: what its ``compat`` says, else what its id tells.

        Raises:
            ConfigError: ``compat`` has an unknown flag, or a value of the wrong kind.
        """
        name = family(model.id)
        generation = _generation(name)
        modern = generation is not None and generation >= 3
        defaults: dict[str, Any] = {
            "thinking": "level" if modern or name.startswith("gemma-4") else "budget",
            "supports_strict_tools": modern,
            "supports_tool_call_ids": model.api != "google-vertex" and (modern or name.startswith(_OWN_IDS)),
            "supports_images_in_tool_results": modern or not name.startswith("gemini"),
            "requires_signed_calls": modern,
        }
        return read_flags(cls, model.compat, defaults)


def family(model_id: str) -> str:
    """The model's own name, without what stands before it, such as ``models/`` or ``publishers/google/models/``."""
    return model_id.rsplit("/", 1)[-1].lower()


def _generation(name: str) -> int | None:
    if name in _NEWEST:
        return 3
    match = _GENERATION.match(name)
    return int(match[1]) if match else None
