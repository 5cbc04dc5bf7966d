"""Messages: the events of the wire to ours.

The delta of the open block is one short path (:meth:`MessagesTranslator.translate`); everything else takes the long one.
The type of an event stands in its data, so ``event:`` lines are not needed.

Source: https://platform.claude.com/docs/en/build-with-claude/streaming
"""

from __future__ import annotations

from typing import Any

from pi_stream.apis._errors import error_object, excerpt, provider_error
from pi_stream.apis._usage import bill, count, first_count, make_usage, merge_usage
from pi_stream.apis.anthropic_messages.content import Content
from pi_stream.apis.anthropic_messages.stop import refused, stop_reason
from pi_stream.apis.base import TranslatorSetup
from pi_stream.events import Draft, Finish, Metadata
from pi_stream.usage import Usage

__all__ = ["MessagesTranslator"]


class MessagesTranslator:
    """Translates one answer of the Messages api."""

    def __init__(self, setup: TranslatorSetup) -> None:
        self.complete = False
        self.ended = False
        self._setup = setup
        self._content = Content(setup)
        self._started = False
        self._stopped = False
        self._response_model: str | None = None
        self._stop_reason = ""
        self._usage_seen: dict[str, Any] = {}
        self._usage: Usage | None = None
        self._details: dict[str, Any] = {}  # of the end: stop sequence, container and the like
        self._beside: dict[str, Any] = {}

    # --- the fast path ------------------------------------------------------------------------------------------------

    def translate(self, chunks: list[Any], out: list[Draft]) -> int:
        """Append what the chunks say to ``out``; returns how many were taken."""
        content = self._content
        text: Any = None
        for position, chunk in enumerate(chunks, 1):
            part = content.current
            if part is not None:
                # Nothing but the next piece of the block that took the last one.
                try:
                    delta = chunk["delta"]
                    text = delta[part.field]
                    plain = (
                        text.__class__ is str
                        and text
                        and delta["type"] == part.delta_type
                        and chunk["index"] == part.wire
                        and chunk["type"] == "content_block_delta"
                        and len(delta) == 2
                    )
                except (KeyError, TypeError):
                    plain = False
                if plain:
                    out.append(part.draft(part.index, text))
                    continue
            self._event(chunk, out)
            if self.ended:
                return position
        return len(chunks)

    # --- the long path ------------------------------------------------------------------------------------------------

    def _event(self, chunk: Any, out: list[Draft]) -> None:
        match chunk.get("type") if isinstance(chunk, dict) else None:
            case "content_block_delta":
                self._begun(out)
                self._content.delta(chunk.get("index"), chunk.get("delta"), out)
            case "content_block_start":
                self._begun(out)
                self._content.start(chunk.get("index"), chunk.get("content_block"), out)
                self._fallback(chunk.get("content_block"), out)
            case "content_block_stop":
                self._content.stop(chunk.get("index"), out)
            case "message_start":
                self._started = True
                self._identify(chunk.get("message"), out)
            case "message_delta":
                self._message_delta(chunk, out)
            case "message_stop":
                self._stopped = self.ended = True
            case "ping":
                pass
            case "error":
                self._fail(chunk.get("error") or chunk, chunk.get("request_id"), out)
            case "message":
                self.whole(chunk, out)
            case _:
                self._odd(chunk, out)

    def _begun(self, out: list[Draft]) -> None:
        if not self._started:
            self._started = True
            self._content.note("message_not_started", {}, out)

    def _odd(self, chunk: Any, out: list[Draft]) -> None:
        """An event nobody knows, or an error in the dress of another protocol."""
        error = error_object(chunk)
        if error is not None:
            self._fail(error, None, out)
        else:
            self._content.note("unexpected_chunk", {"chunk": excerpt(chunk)}, out)

    def _identify(self, message: Any, out: list[Draft]) -> None:
        """The head of the message. It may come again; the first one names the answer, counts are brought up to date."""
        if not isinstance(message, dict):
            return
        id, model = message.get("id"), message.get("model")
        if not self._content.response_id and isinstance(id, str) and id:
            self._content.response_id = id
            out.append(Metadata(response_id=id))
        if self._response_model is None and isinstance(model, str) and model:
            self._name_model(model, out)
        self._count(message.get("usage"), out)
        if message.get("container"):
            self._details["container"] = message["container"]

    def _name_model(self, model: str, out: list[Draft]) -> None:
        if model not in (self._response_model, self._setup.model.id):
            out.append(Metadata(response_model=model))
        self._response_model = model

    def _fallback(self, block: Any, out: list[Draft]) -> None:
        """The provider went on with another model."""
        if isinstance(block, dict) and block.get("type") == "fallback":
            to = block.get("to")
            model = to.get("model") if isinstance(to, dict) else None
            if isinstance(model, str) and model:
                self._name_model(model, out)

    def _message_delta(self, chunk: dict[str, Any], out: list[Draft]) -> None:
        self._count(chunk.get("usage"), out)
        if chunk.get("context_management"):
            self._beside["context_management"] = chunk["context_management"]
        delta = chunk.get("delta")
        if not isinstance(delta, dict):
            return
        self._details |= {
            key: value for key, value in delta.items() if value is not None and key != "stop_reason"
        }
        reason = delta.get("stop_reason")
        if isinstance(reason, str) and reason:
            self.complete = True
            if reason != self._stop_reason:
                self._stop_reason = reason
                out.append(Metadata(raw_stop_reason=reason))

    def _count(self, usage: Any, out: list[Draft]) -> None:
        if not isinstance(usage, dict):
            return
        merge_usage(self._usage_seen, usage)
        read = _read_usage(self._usage_seen, self._setup)
        if read != self._usage:
            self._usage = read
            out.append(Metadata(usage=read))

    # --- the end ------------------------------------------------------------------------------------------------------

    def whole(self, answer: Any, out: list[Draft]) -> None:
        """A whole JSON answer: each block is a start with everything in it."""
        self.ended = self._stopped = self._started = True
        if not isinstance(answer, dict):
            self._odd(answer, out)
            return
        self._identify(answer, out)
        blocks = answer.get("content")
        for index, block in enumerate(blocks if isinstance(blocks, list) else ()):
            self._content.start(index, block, out)
            self._fallback(block, out)
            self._content.stop(index, out)
        known = ("stop_reason", "stop_sequence", "stop_details", "container")
        end = {"delta": {key: answer.get(key) for key in known}}
        self._message_delta(end | {"context_management": answer.get("context_management")}, out)

    def sentinel(self, out: list[Draft]) -> None:
        """``[DONE]``, which some gateways add: nothing can follow."""
        self.ended = True

    def finish(self, out: list[Draft]) -> None:
        """Close what is open and say how it ended."""
        content = self._content
        complete_calls = all(call.ended for call in content.calls)
        content.close(out)
        finish, diagnostic = self._how_it_ended(complete_calls)
        if self._details or self._beside:
            end = {
                "type": "message_delta",
                **({"delta": self._details} if self._details else {}),
                **self._beside,
            }
            content.keep(end, content.blocks.count, out)
        if not self._stopped:
            content.note("message_stop_missing", {}, out)
        if diagnostic is not None:
            content.note(diagnostic, {"rawStopReason": self._stop_reason}, out)
        out.append(finish)

    def _how_it_ended(self, complete_calls: bool) -> tuple[Finish, str | None]:
        if self._stop_reason == "refusal":
            details = self._details.get("stop_details")
            details = details if isinstance(details, dict) else {}
            explanation, category = details.get("explanation"), details.get("category")
            return refused(
                explanation if isinstance(explanation, str) else None,
                category if isinstance(category, str) else None,
            ), None
        content = self._content
        return stop_reason(
            self._stop_reason,
            has_content=bool(content.blocks.count or content.kept),
            has_calls=bool(content.calls),
            complete_calls=complete_calls,
            unknown=self._setup.options.unknown_stop,
        )

    def _fail(self, error: Any, request_id: Any, out: list[Draft]) -> None:
        self.ended = True
        self._content.close(out)
        finish = provider_error(error)
        if isinstance(request_id, str) and finish.error_cause is not None:
            finish.error_cause.request_id = request_id
        out.append(finish)


def _read_usage(usage: dict[str, Any], setup: TranslatorSetup) -> Usage:
    def details(name: str) -> dict[str, Any]:
        value = usage.get(name)
        return value if isinstance(value, dict) else {}

    created, output = details("cache_creation"), details("output_tokens_details")
    short, long = created.get("ephemeral_5m_input_tokens"), created.get("ephemeral_1h_input_tokens")
    written = first_count(usage.get("cache_creation_input_tokens"))
    if written is None:
        written = count(short) + count(long)
    read = count(usage.get("cache_read_input_tokens"))
    made = make_usage(
        setup.model,
        prompt=count(usage.get("input_tokens")) + read + written,
        output=count(usage.get("output_tokens")),
        cache_read=read,
        cache_write=written,
        cache_write_1h=count(long),
        reasoning=first_count(output.get("thinking_tokens")),
    )
    bill(made, usage, setup.model)
    return made
