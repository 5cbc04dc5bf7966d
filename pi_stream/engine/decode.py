"""A recorded answer through the same decoder, translator, guard and reducer as a live one."""

from __future__ import annotations

from pi_stream.apis import get_api
from pi_stream.apis.base import TranslatorSetup
from pi_stream.engine.pipeline import Pipeline
from pi_stream.events import Event
from pi_stream.exceptions import ConfigError
from pi_stream.guard import Guard
from pi_stream.http import ResponseHead
from pi_stream.messages import AssistantMessage
from pi_stream.models import Model

__all__ = ["decode"]


def decode(
    body: bytes,
    *,
    api: str,
    provider: str = "",
    model: str = "",
    status: int = 200,
    content_type: str | None = None,
    cut: int | None = None,
) -> list[Event]:
    """Turn a recorded body into events.

    Times are left out, so the same bytes give the same events every time.

    Args:
        body: The body as it was received.
        api: Wire protocol, such as ``openai-completions``.
        provider: Vendor id, for the message.
        model: Model id that was asked for, for the message.
        status: HTTP status; 400 and above give a lone ``error``.
        content_type: As the server sent it. Where it contradicts the first bytes of the body, the body wins.
        cut: Feed this many bytes at a time; None feeds all at once. The events are the same.

    Returns:
        All events, the terminal one last.

    Raises:
        ConfigError: The api is unknown, or ``cut`` is below 1.
    """
    if cut is not None and cut < 1:
        raise ConfigError(f"cut must be 1 or more, not {cut}")
    protocol = get_api(api)
    setup = TranslatorSetup(model=Model(id=model, api=api, provider=provider))
    head = ResponseHead(status=status, headers={"content-type": content_type} if content_type else {})
    guard = Guard(
        AssistantMessage(api=api, provider=provider, model=model, timestamp=0),
        max_blocks=setup.options.limits.blocks,
        max_argument_bytes=setup.options.limits.argument_bytes,
    )
    pipeline = Pipeline(protocol, setup, head, guard)
    events: list[Event] = []
    step = cut or len(body) or 1
    for start in range(0, len(body), step):
        events += pipeline.feed(body[start : start + step])
        if pipeline.finished:
            return events
    return events + pipeline.end()
