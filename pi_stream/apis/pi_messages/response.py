"""The events of a proxy to ours.

Its blocks may stay open beside each other until the end of the answer, and may be empty. Here text and thinking open with
their first piece and end when another block opens; what comes later for one that has ended opens a new one.

The delta of the open text block is one short path (:meth:`EventTranslator.translate`); everything else takes the long one.
"""

from __future__ import annotations

from typing import Any, Literal

from pi_stream.apis._blocks import Blocks
from pi_stream.apis._errors import error_object, excerpt, provider_error
from pi_stream.apis._notes import diagnostic, kept
from pi_stream.apis._stop import StopWords
from pi_stream.apis._usage import count, first_count
from pi_stream.apis.base import TranslatorSetup
from pi_stream.events import BlockEnd, Draft, Finish, Metadata, TextDelta, ThinkingDelta, ToolCallDelta
from pi_stream.messages import ErrorCause
from pi_stream.usage import Cost, Usage, price
from pi_stream.wire import json

__all__ = ["EventTranslator"]

_STOP = StopWords("reason", {"stop": "stop", "length": "length", "tooluse": "toolUse"}, {})
_NAMELESS = "the proxy sent a tool call without a name"
Kind = Literal["text", "thinking", "toolcall"]


class _Block:
    """A block of the proxy: its kind, our block for it, and how much of it was said.

    Attributes:
        position: Its number.
        index: Our block that is open for it, or was the last; -1 before the first.
        size: Characters in all blocks of ours.
        split: Whether it took more than one of them.
        ended: Whether the proxy has ended it.
        named: Whether it is a call that names its tool.
    """

    __slots__ = ("ended", "index", "kind", "named", "position", "size", "split")

    def __init__(self, kind: Kind, position: int) -> None:
        self.kind = kind
        self.position = position
        self.index = -1
        self.size = 0
        self.split = False
        self.ended = False
        self.named = False


class EventTranslator:
    """Translates one answer of a proxy."""

    def __init__(self, setup: TranslatorSetup) -> None:
        self.complete = False
        self.ended = False
        self._setup = setup
        self._blocks = Blocks()
        self._theirs: list[_Block] = []
        self._prose: _Block | None = None  # whose text or thinking is open
        self._calls = 0
        self._reason: str | None = None
        self._noted: set[str] = set()

    # --- the fast path ------------------------------------------------------------------------------------------------

    def translate(self, chunks: list[Any], out: list[Draft]) -> int:
        """Append what the chunks say to ``out``; returns how many were taken."""
        for position, chunk in enumerate(chunks, 1):
            prose = self._prose
            if prose is not None:
                # Nothing but the next piece of the open text.
                try:
                    text = chunk["delta"]
                    if (
                        chunk["type"] == "text_delta"
                        and text.__class__ is str
                        and text
                        and prose.kind == "text"
                        and chunk["contentIndex"] == prose.position
                    ):
                        prose.size += len(text)
                        out.append(TextDelta(prose.index, text))
                        continue
                except (KeyError, TypeError):
                    pass
            self._event(chunk, out)
            if self.ended:
                return position
        return len(chunks)

    # --- the long path ------------------------------------------------------------------------------------------------

    def _event(self, event: Any, out: list[Draft]) -> None:
        if not isinstance(event, dict):
            self._note("unexpected_chunk", {"chunk": excerpt(event)}, out)
            return
        match event.get("type"):
            case "text_start" | "thinking_start" | "toolcall_start" as type:
                self._start(type.removesuffix("_start"), event, out)
            case "text_delta" | "thinking_delta" as type:
                block = self._block(type.removesuffix("_delta"), event, out)
                if block is not None:
                    self._say(block, event.get("delta"), out)
            case "toolcall_delta":
                block = self._block("toolcall", event, out)
                delta = event.get("delta")
                if block is not None and isinstance(delta, str) and delta and not block.ended:
                    out.append(ToolCallDelta(block.index, delta))
            case "text_end" | "thinking_end" as type:
                block = self._block(type.removesuffix("_end"), event, out)
                if block is not None:
                    self._end(block, event, out)
            case "toolcall_end":
                block = self._block("toolcall", event, out)
                if block is not None:
                    self._end_call(block, event.get("toolCall"), out)
            case "start":
                pass
            case "done" | "error":
                self._terminal(event, out)
            case _:
                self._odd(event, out)

    def _start(self, kind: Any, event: dict[str, Any], out: list[Draft]) -> None:
        index = event.get("contentIndex")
        if index != len(self._theirs) or isinstance(index, bool):
            self._refuse(event, f"a start of block {index!r}, where {len(self._theirs)} would be next", out)
            return
        block = _Block(kind, len(self._theirs))
        self._theirs.append(block)
        if kind == "toolcall":
            id, name = event.get("id"), event.get("toolName", event.get("name"))
            self._prose = None
            id = id if isinstance(id, str) and id else f"call_{self._calls}"
            self._calls += 1
            name = name if isinstance(name, str) else ""
            block.named = bool(name)
            block.index = self._blocks.open_call(id, name, out)

    def _block(self, kind: str, event: dict[str, Any], out: list[Draft]) -> _Block | None:
        """The block that an event is for; without it the answer fails."""
        index = event.get("contentIndex")
        if isinstance(index, int) and not isinstance(index, bool) and 0 <= index < len(self._theirs):
            block = self._theirs[index]
            if block.kind == kind:
                return block
            self._refuse(event, f"block {index} is {block.kind}", out)
        else:
            self._refuse(event, f"there is no block {index!r}", out)
        return None

    def _say(self, block: _Block, text: Any, out: list[Draft]) -> None:
        if isinstance(text, str) and text:
            self._open(block, out)
            block.size += len(text)
            delta = TextDelta if block.kind == "text" else ThinkingDelta
            out.append(delta(block.index, text))

    def _open(self, block: _Block, out: list[Draft]) -> None:
        if self._prose is block:
            return
        if block.index >= 0:
            block.split = True
            self._note("block_reopened", {"contentIndex": block.position}, out)
        opened = self._blocks.open_text if block.kind == "text" else self._blocks.open_thinking
        block.index = opened(out)
        self._prose = block

    def _end(self, block: _Block, event: dict[str, Any], out: list[Draft]) -> None:
        """The end of text or thinking, with all of it; ours may have ended long before, or never begun."""
        content, signature = event.get("content"), _signature(event)
        content = content if isinstance(content, str) else ""
        block.ended = True
        if self._prose is not block:
            if block.index < 0 and (content or signature):
                self._open(block, out)
            elif len(content) > block.size:
                self._say(block, content[block.size :], out)
        if self._prose is block:
            self._blocks.signature = signature
            redacted = True if event.get("redacted") is True else None
            self._blocks.close(out, content if content and not block.split else None, redacted=redacted)
            self._prose = None
        elif signature and block.index >= 0:
            out.append(Metadata(content_index=block.index, signature=signature))

    def _end_call(self, block: _Block, call: Any, out: list[Draft]) -> None:
        if block.ended:
            return
        block.ended = True
        fields = call if isinstance(call, dict) else {}
        arguments = fields.get("arguments")
        # What could not be read there cannot be read here: then its pieces tell.
        whole = arguments if isinstance(arguments, dict) and "argumentsError" not in fields else None
        signature, namespace = fields.get("thoughtSignature"), fields.get("namespace")
        out.append(
            BlockEnd(
                block.index,
                json.dumps(whole).decode() if whole else None,
                signature if isinstance(signature, str) and signature else None,
                namespace=namespace if isinstance(namespace, str) else None,
                error=None if block.named else _NAMELESS,
            )
        )

    # --- the end ------------------------------------------------------------------------------------------------------

    def _terminal(self, event: dict[str, Any], out: list[Draft]) -> None:
        self.ended = True
        usage, id, model = event.get("usage"), event.get("responseId"), event.get("responseModel")
        if isinstance(usage, dict):
            out.append(Metadata(usage=_read_usage(usage, self._setup)))
        if isinstance(id, str) and id:
            out.append(Metadata(response_id=id))
        if isinstance(model, str) and model and model != self._setup.model.id:
            out.append(Metadata(response_model=model))
        if event.get("providerThinkingLevel"):
            level = {"providerThinkingLevel": event["providerThinkingLevel"]}
            out.append(kept(self._setup, self._blocks.count, level))
        if isinstance(event.get("rewrite"), dict):
            self._note("pi_messages_rewrite", event["rewrite"], out)
        reason = event.get("reason")
        if event["type"] == "error":
            out.append(_failure(event, aborted=reason == "aborted"))
        else:
            self.complete = True
            self._reason = reason if isinstance(reason, str) and reason else "stop"

    def whole(self, answer: Any, out: list[Draft]) -> None:
        """A whole JSON answer: the events as a list, or one event."""
        self.translate(answer if isinstance(answer, list) else [answer], out)

    def sentinel(self, out: list[Draft]) -> None:
        """``[DONE]``, which says nothing that the terminal event does not say: without that one the answer is cut off."""
        self.ended = True

    def finish(self, out: list[Draft]) -> None:
        """Close what is open and say how it ended."""
        self._blocks.close(out)
        calls = [block for block in self._theirs if block.kind == "toolcall"]
        usable = all(call.ended for call in calls)
        for call in calls:
            self._end_call(call, None, out)
        finish, problem = _STOP.finish(
            self._reason,
            has_content=self._blocks.count > 0,
            has_calls=bool(calls),
            calls_usable=lambda: usable,
            unknown=self._setup.options.unknown_stop,
        )
        if problem is not None:
            self._note(problem, {"rawStopReason": self._reason}, out)
            out.append(Metadata(raw_stop_reason=self._reason))
        out.append(finish)

    def _refuse(self, event: dict[str, Any], problem: str, out: list[Draft]) -> None:
        """An event that cannot be: what came before it is kept."""
        self.ended = True
        words = f"the proxy sent {event.get('type')} for a wrong block: {problem}"
        out.append(Finish("error", words, ErrorCause(kind="malformed", origin="provider")))

    def _odd(self, event: dict[str, Any], out: list[Draft]) -> None:
        """An event nobody knows, or an error in the dress of another protocol."""
        error = error_object(event)
        if error is not None:
            self.ended = True
            out.append(provider_error(error))
        else:
            self._note("unexpected_chunk", {"chunk": excerpt(event)}, out)

    def _note(self, kind: str, details: dict[str, Any], out: list[Draft]) -> None:
        if kind not in self._noted:
            self._noted.add(kind)
            out.append(diagnostic(self._setup, kind, details))


def _signature(event: dict[str, Any]) -> str | None:
    for name in ("contentSignature", "textSignature", "thinkingSignature"):
        value = event.get(name)
        if isinstance(value, str) and value:
            return value
    return None


def _failure(event: dict[str, Any], *, aborted: bool) -> Finish:
    words = event.get("errorMessage")
    words = words if isinstance(words, str) and words else "the proxy failed without a word"
    if aborted:
        return Finish("aborted", words, ErrorCause(kind="cancelled", origin="provider"))
    return provider_error({"message": words})


def _read_usage(usage: dict[str, Any], setup: TranslatorSetup) -> Usage:
    """The usage as the proxy has it, cost included."""
    read = Usage(
        input=count(usage.get("input")),
        output=count(usage.get("output")),
        cache_read=count(usage.get("cacheRead")),
        cache_write=count(usage.get("cacheWrite")),
        cache_write_1h=first_count(usage.get("cacheWrite1h")),
        reasoning=first_count(usage.get("reasoning")),
        provider_total_tokens=first_count(usage.get("totalTokens")),
    )
    read.total_tokens = read.prompt_tokens + read.output
    cost = usage.get("cost")
    read.cost = _read_cost(cost) if isinstance(cost, dict) else price(read, setup.model.cost)
    return read


def _read_cost(cost: dict[str, Any]) -> Cost:
    def amount(name: str) -> float:
        value = cost.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 2**53:
            return float(value)
        return 0

    billed = cost.get("totalFromProvider")
    return Cost(
        input=amount("input"),
        output=amount("output"),
        cache_read=amount("cacheRead"),
        cache_write=amount("cacheWrite"),
        total=amount("total"),
        total_from_provider=billed if isinstance(billed, bool) else None,
    )
