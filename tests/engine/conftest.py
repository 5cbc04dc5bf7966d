"""Clients that answer from memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from chat_bodies import SSE

from pi_stream import Client, Provider
from pi_stream.transport.memory import MemoryResponse, MemoryTransport


@pytest.fixture
def memory() -> Callable[[Iterable[Any]], Client]:
    """A client whose every request is answered with these pieces: bytes, pauses in seconds, exceptions."""

    def make(pieces: Iterable[Any], status: int = 200, **options: Any) -> Client:
        kept = list(pieces)
        transport = MemoryTransport(
            lambda request: MemoryResponse(status=status, headers=SSE, chunks=list(kept))
        )
        provider = Provider("mem", base_url="http://memory.test/v1")
        return Client(providers=[provider], transport=transport, **options)

    return make
