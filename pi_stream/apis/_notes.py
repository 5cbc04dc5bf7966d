"""What a translator says beside blocks: diagnostics, and provider content that has no block of ours."""

from __future__ import annotations

from typing import Any

from pi_stream.apis.base import TranslatorSetup
from pi_stream.events import Metadata
from pi_stream.messages import Diagnostic, ProviderData

__all__ = ["diagnostic", "kept"]


def diagnostic(setup: TranslatorSetup, kind: str, details: dict[str, Any]) -> Metadata:
    """A note that something odd happened which changed nothing."""
    return Metadata(diagnostic=Diagnostic(type=kind, timestamp=setup.timestamp, details=details))


def kept(setup: TranslatorSetup, after: int, data: Any) -> Metadata:
    """The provider's JSON, kept in the message.

    Args:
        setup: What the translator was told.
        after: Number of blocks before it.
        data: The provider's JSON.
    """
    model = setup.model
    return Metadata(
        provider_data=ProviderData(
            after=after, api=model.api, provider=model.provider, model=model.id, data=data
        )
    )
