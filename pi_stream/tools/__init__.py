"""Tools of the caller: made of functions, and the calls that a model makes of them checked."""

from __future__ import annotations

from pi_stream.tools.function import FunctionTool, tool, tool_result
from pi_stream.tools.signature import schema_of
from pi_stream.tools.validation import validate_tool_call

__all__ = ["FunctionTool", "schema_of", "tool", "tool_result", "validate_tool_call"]
