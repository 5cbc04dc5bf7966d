"""Providers: one small file of data per vendor, and what is needed to write your own.

``Provider`` describes a host of a known protocol, or carries an async generator that plays a model and yields
``text(...)``, ``thinking(...)``, ``tool_call(...)``, ``usage(...)`` and ``finish(...)``.
"""

from __future__ import annotations

from pi_stream.engine.generator import GeneratorRequest
from pi_stream.engine.parts import finish, text, thinking, tool_call, usage
from pi_stream.providers.base import Provider, Runtime
from pi_stream.providers.registry import Registry, register

__all__ = [
    "GeneratorRequest",
    "Provider",
    "Registry",
    "Runtime",
    "finish",
    "register",
    "text",
    "thinking",
    "tool_call",
    "usage",
]
