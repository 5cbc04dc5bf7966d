"""Tools of the caller: checking the calls that a model makes of them."""

from __future__ import annotations

from pi_stream.tools.validation import validate_tool_call

__all__ = ["validate_tool_call"]
