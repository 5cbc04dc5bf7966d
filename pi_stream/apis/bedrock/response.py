"""Converse: the events of the wire to ours.

The delta of the open text block is one short path (:meth:`ConverseTranslator.translate`); everything else takes the long
one. A chunk is ``{"<type of the event>": {...}}``, see :class:`pi_stream.wire.eventstream.EventStreamChunks`; the key
``p`` in an event is padding of random length.

Source: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html
"""

from __future__ import annotations

from typing import Any

from pi_stream.apis._errors import error_object, excerpt, provider_error
from pi_stream.apis._notes import kept
from pi_stream.apis._stop import StopWords
from pi_stream.apis._usage import count, first_count, make_usage, merge_usage
from pi_stream.apis.base import TranslatorSetup
from pi_stream.apis.bedrock.content import Content
from pi_stream.events import Draft, Metadata, TextDelta
from pi_stream.usage import Usage

__all__ = ["ConverseTranslator"]

_STOP = StopWords(
    "stopReason",
    {
        "end_turn": "stop",
        "stop_sequence": "stop",
        "max_tokens": "length",
        "model_context_window_exceeded": "length",
        "tool_use": "toolUse",
    },
    {
        "content_filtered": ("filtered", False),
        "guardrail_intervened": ("filtered", False),
        "refusal": ("refusal", False),
        "malformed_model_output": ("provider_error", True),
        "malformed_tool_use": ("provider_error", True),
    },
)


class ConverseTranslator:
    """Translates one answer of the Converse stream."""

    def __init__(self, setup: TranslatorSetup) -> None:
        self.complete = False
        self.ended = False
        self._setup = setup
        self._content = Content(setup)
        self._started = False
        self._stop_reason: str | None = None
        self._usage_seen: dict[str, Any] = {}
        self._usage: Usage | None = None

    # --- the fast path ------------------------------------------------------------------------------------------------

    def translate(self, chunks: list[Any], out: list[Draft]) -> int:
        """Append what the chunks say to ``out``; returns how many were taken."""
        content = self._content
        for position, chunk in enumerate(chunks, 1):
            prose = content.prose
            if prose is not None:
                # Nothing but the next piece of the open text.
                try:
                    event = chunk["contentBlockDelta"]
                    delta = event["delta"]
                    text = delta["text"]
                    if (
                        text.__class__ is str
                        and text
                        and prose.kind == "text"
                        and event["contentBlockIndex"] == prose.wire
                        and len(delta) == 1
                        and len(chunk) == 1
                    ):
                        out.append(TextDelta(prose.index, text))
                        continue
                except (KeyError, TypeError):
                    pass
            self._chunk(chunk, out)
            if self.ended:
                return position
        return len(chunks)

    # --- the long path ------------------------------------------------------------------------------------------------

    def _chunk(self, chunk: Any, out: list[Draft]) -> None:
        for name, event in chunk.items() if isinstance(chunk, dict) else [("", chunk)]:
            if not isinstance(event, dict):
                self._content.note("unexpected_chunk", {"chunk": excerpt(chunk)}, out)
                continue
            self._event(name, event, out)
            if self.ended:
                return

    def _event(self, name: str, event: dict[str, Any], out: list[Draft]) -> None:
        content = self._content
        index = event.get("contentBlockIndex")
        match name:
            case "contentBlockDelta":
                self._begun(out)
                content.delta(index, event.get("delta"), out)
            case "contentBlockStart":
                self._begun(out)
                content.start(index, event.get("start"), out)
            case "contentBlockStop":
                content.stop(index, out)
            case "messageStart":
                self._started = True
            case "messageStop":
                self._stopped(event, out)
            case "metadata":
                self._metadata(event, out)
                self.ended = self.complete
            case "exception":
                self._fail(event, out)
            case _ if name.endswith("Exception"):  # as the SDKs of AWS show it
                self._fail({**event, "type": name}, out)
            case _:
                content.note("unexpected_chunk", {"chunk": excerpt({name: event})}, out)

    def _begun(self, out: list[Draft]) -> None:
        if not self._started:
            self._started = True
            self._content.note("message_not_started", {}, out)

    def _stopped(self, event: dict[str, Any], out: list[Draft]) -> None:
        reason = event.get("stopReason")
        if isinstance(reason, str) and reason:
            self.complete = True
            if reason != self._stop_reason:
                self._stop_reason = reason
                out.append(Metadata(raw_stop_reason=reason))
        if event.get("additionalModelResponseFields"):
            fields = event["additionalModelResponseFields"]
            self._keep({"additionalModelResponseFields": fields}, out)

    def _metadata(self, event: dict[str, Any], out: list[Draft]) -> None:
        usage, trace = event.get("usage"), event.get("trace")
        if isinstance(usage, dict):
            merge_usage(self._usage_seen, usage)
            read = _read_usage(self._usage_seen, self._setup)
            if read != self._usage:
                self._usage = read
                out.append(Metadata(usage=read))
        if isinstance(trace, dict) and trace:
            router = trace.get("promptRouter")
            model = router.get("invokedModelId") if isinstance(router, dict) else None
            if isinstance(model, str) and model and model != self._setup.model.id:
                out.append(Metadata(response_model=model))
            self._keep({"trace": trace}, out)

    def _keep(self, data: dict[str, Any], out: list[Draft]) -> None:
        """Keep what belongs to the whole answer."""
        out.append(kept(self._setup, self._content.blocks.count, data))

    def _fail(self, exception: dict[str, Any], out: list[Draft]) -> None:
        self.ended = True
        self._content.close(out, failed=True)
        # What the model itself answered says more than that its stream broke.
        out.append(provider_error({**exception, "status_code": exception.get("originalStatusCode")}))

    # --- the end ------------------------------------------------------------------------------------------------------

    def whole(self, answer: Any, out: list[Draft]) -> None:
        """A whole JSON answer, as Converse gives it: each block is a start and a delta with everything in it."""
        self.ended = self._started = True
        fields = answer if isinstance(answer, dict) else {}
        output = fields.get("output")
        message = output.get("message") if isinstance(output, dict) else None
        blocks = message.get("content") if isinstance(message, dict) else None
        if not isinstance(blocks, list):
            # Errors of AWS have their words at the top.
            error = error_object(answer) or (answer if isinstance(fields.get("message"), str) else None)
            if error is not None:
                out.append(provider_error(error))
            return
        for index, block in enumerate(blocks):
            self._whole_block(index, block, out)
        self._stopped(fields, out)
        self._metadata(fields, out)

    def _whole_block(self, index: int, block: Any, out: list[Draft]) -> None:
        if isinstance(block, dict) and isinstance(cited := block.get("citationsContent"), dict):
            texts = cited.get("content")
            for part in texts if isinstance(texts, list) else ():
                self._content.delta(
                    index, {"text": part.get("text")} if isinstance(part, dict) else part, out
                )
            self._content.delta(index, {"citation": cited.get("citations") or []}, out)
        else:
            self._content.start(index, block, out)
        self._content.stop(index, out)

    def sentinel(self, out: list[Draft]) -> None:
        """The protocol has none."""

    def finish(self, out: list[Draft]) -> None:
        """Close what is open and say how it ended."""
        content = self._content
        usable = all(call.ended for call in content.calls)
        content.close(out)
        if self._usage is None:
            content.note("metadata_missing", {}, out)
        finish, diagnostic = _STOP.finish(
            self._stop_reason,
            has_content=bool(content.blocks.count or content.kept),
            has_calls=bool(content.calls),
            calls_usable=lambda: usable,
            unknown=self._setup.options.unknown_stop,
        )
        if diagnostic is not None:
            content.note(diagnostic, {"rawStopReason": self._stop_reason}, out)
        out.append(finish)


def _read_usage(usage: dict[str, Any], setup: TranslatorSetup) -> Usage:
    details = usage.get("cacheDetails")
    lifetimes: dict[Any, int] = {}
    for entry in details if isinstance(details, list) else ():
        if isinstance(entry, dict) and isinstance(ttl := entry.get("ttl"), str):
            lifetimes[ttl] = lifetimes.get(ttl, 0) + count(entry.get("inputTokens"))
    written = first_count(usage.get("cacheWriteInputTokens"), usage.get("cacheWriteInputTokenCount"))
    read = first_count(usage.get("cacheReadInputTokens"), usage.get("cacheReadInputTokenCount")) or 0
    written = sum(lifetimes.values()) if written is None else written
    return make_usage(
        setup.model,
        prompt=count(usage.get("inputTokens")) + read + written,
        output=count(usage.get("outputTokens")),
        cache_read=read,
        cache_write=written,
        cache_write_1h=lifetimes.get("1h", 0) if isinstance(details, list) else None,
        provider_total=first_count(usage.get("totalTokens")),
    )
