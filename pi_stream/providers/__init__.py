"""Providers: one small file of data per vendor, and what is needed to write your own.

``Provider`` describes a host of a known protocol, or carries an async generator that plays a model and yields
``text(...)``, ``thinking(...)``, ``tool_call(...)``, ``usage(...)`` and ``finish(...)``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pi_stream.engine.generator import GeneratorRequest
    from pi_stream.engine.parts import finish, text, thinking, tool_call, usage
    from pi_stream.providers.base import Credential, Provider, Runtime
    from pi_stream.providers.registry import Registry, register

__all__ = [
    "Credential",
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

# Loaded on first use: a list of vendors needs no engine.
_HOME = {
    "Credential": "providers.base",
    "GeneratorRequest": "engine.generator",
    "Provider": "providers.base",
    "Registry": "providers.registry",
    "Runtime": "providers.base",
    "register": "providers.registry",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"pi_stream.{_HOME.get(name, 'engine.parts')}"), name)
    globals()[name] = value
    return value
