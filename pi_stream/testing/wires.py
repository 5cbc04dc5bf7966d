"""How each api says one plain answer: the chunks of a server, to build bodies of any kind from.

One row for each api. A row of your own, for a protocol you plug in, gets all tests that are written for all rows.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

from attrs import frozen

from pi_stream.messages import ErrorKind
from pi_stream.wire.eventstream import encode_frame

__all__ = ["OVERLOADED", "USED", "WIRES", "Wire", "bedrock_frame", "invoke_frame", "json_line", "sse_event"]

USED = (3, 2)
"""Prompt and output tokens that each plain answer reports."""

OVERLOADED = "the model is busy"
"""Words of the error that each row has."""

_SSE = "text/event-stream"
_FRAMES = "application/vnd.amazon.eventstream"


def sse_event(chunk: Any) -> bytes:
    """A chunk as a server-sent event; a string stands as it is, such as ``[DONE]``."""
    return f"data: {_text(chunk)}\n\n".encode()


def json_line(chunk: Any) -> bytes:
    """A chunk as a line."""
    return f"{_text(chunk)}\n".encode()


def bedrock_frame(chunk: Any) -> bytes:
    """A chunk ``{event type: payload}`` as a frame of AWS; ``{"exception": {type: payload}}`` as an exception."""
    ((name, payload),) = chunk.items()
    kind = "event"
    if name == "exception":
        ((name, payload),) = payload.items()
        kind = "exception"
    headers = {f":{kind}-type": name, ":content-type": "application/json", ":message-type": kind}
    return encode_frame(headers, _text(payload).encode())


def invoke_frame(chunk: Any) -> bytes:
    """An event of the Messages api as a frame of Bedrock's invoke stream; exceptions as :func:`bedrock_frame`."""
    if isinstance(chunk, dict) and "exception" in chunk:
        return bedrock_frame(chunk)
    return bedrock_frame({"chunk": {"bytes": base64.b64encode(_text(chunk).encode()).decode()}})


def _text(chunk: Any) -> str:
    return chunk if isinstance(chunk, str) else json.dumps(chunk)


@frozen(kw_only=True)
class Wire:
    """An api's plain answer, in chunks.

    Attributes:
        api: Id of the api.
        content_type: Of its streams.
        frame: Makes bytes of a chunk.
        start: Chunks before the text.
        words: The chunk of a piece of text.
        complete: Chunks that say why the answer stopped; none where ``end`` says it.
        end: Chunks after which nothing can follow; none where only the end of the body says so.
        error: The chunk of an error, with the words :data:`OVERLOADED`.
        broken: Bytes of a chunk whose payload breaks off.
        error_kind: What kind of error that is; an api whose errors are words alone cannot tell an overload.
        whole: Makes the answer as one JSON body of its text.
        keep_alive: Bytes that say nothing; none where the framing has no such thing.
        base_path: What the base URL has below the host.
    """

    api: str
    content_type: str = _SSE
    frame: Callable[[Any], bytes] = sse_event
    start: tuple[Any, ...] = ()
    words: Callable[[str], Any]
    complete: tuple[Any, ...] = ()
    end: tuple[Any, ...] = ()
    error: Any
    error_kind: ErrorKind = "overloaded"
    broken: bytes = b'data: {"broken": {"by\n\n'
    whole: Callable[[str], Any]
    keep_alive: bytes = b": keep-alive\n\n"
    base_path: str = "/v1"

    def frames(self, *chunks: Any) -> bytes:
        """Chunks as bytes."""
        return b"".join(map(self.frame, chunks))

    def chunks(self, *words: str) -> list[Any]:
        """The chunks of an answer with these pieces of text."""
        return [*self.start, *map(self.words, words), *self.complete, *self.end]

    def body(self, *words: str) -> bytes:
        """The body of an answer with these pieces of text."""
        return self.frames(*self.chunks(*words))

    def begin(self, *words: str) -> bytes:
        """The body up to where the text breaks off."""
        return self.frames(*self.start, *map(self.words, words))

    @property
    def binary(self) -> bool:
        """Whether the framing is no text."""
        return self.content_type == _FRAMES

    @property
    def completing(self) -> bytes:
        """What follows the text up to the stop reason."""
        return self.frames(*(self.complete or self.end))

    @property
    def ending(self) -> bytes:
        """What follows the stop reason; nothing where it comes with the end, or with the end of the body."""
        return self.frames(*self.end) if self.complete else b""


# --- Chat Completions, Mistral --------------------------------------------------------------------------------------------


def _chat(delta: dict[str, Any], finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {"id": "r1", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}


_CHAT_USAGE = {"prompt_tokens": USED[0], "completion_tokens": USED[1], "total_tokens": sum(USED)}


def _chat_wire(api: str) -> Wire:
    return Wire(
        api=api,
        words=lambda words: _chat({"content": words}),
        complete=(_chat({}, "stop", usage=_CHAT_USAGE),),
        end=("[DONE]",),
        error={"error": {"message": OVERLOADED, "type": "overloaded_error"}},
        whole=lambda text: {
            "id": "r1",
            "choices": [
                {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
            ],
            "usage": _CHAT_USAGE,
        },
    )


# --- Anthropic Messages -----------------------------------------------------------------------------------------------

_MESSAGE = {"id": "m1", "type": "message", "role": "assistant"}
_MESSAGES: dict[str, Any] = {
    "start": (
        {
            "type": "message_start",
            "message": {**_MESSAGE, "content": [], "usage": {"input_tokens": USED[0], "output_tokens": 1}},
        },
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    ),
    "words": lambda words: {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "text_delta", "text": words},
    },
    "complete": (
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": USED[1]}},
    ),
    "end": ({"type": "message_stop"},),
    "whole": lambda text: {
        **_MESSAGE,
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": USED[0], "output_tokens": USED[1]},
    },
}
_MESSAGES_ERROR = {"type": "error", "error": {"type": "overloaded_error", "message": OVERLOADED}}


# --- Responses ----------------------------------------------------------------------------------------------------------


def _responses_item(*texts: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []} for text in texts]
    return {"type": "message", "id": "msg_1", "role": "assistant", "content": content}


def _response(*texts: str) -> dict[str, Any]:
    usage = {"input_tokens": USED[0], "output_tokens": USED[1], "total_tokens": sum(USED)}
    output = [_responses_item(*texts)] if texts else []
    return {"id": "resp_1", "object": "response", "status": "completed", "output": output, "usage": usage}


def _responses_wire(api: str) -> Wire:
    return Wire(
        api=api,
        start=(
            {"type": "response.created", "response": {"id": "resp_1", "status": "in_progress"}},
            {"type": "response.output_item.added", "output_index": 0, "item": _responses_item()},
        ),
        words=lambda words: {
            "type": "response.output_text.delta",
            "output_index": 0,
            "content_index": 0,
            "delta": words,
        },
        end=({"type": "response.completed", "response": _response()},),
        error={"type": "error", "code": "server_overloaded", "message": OVERLOADED},
        whole=_response,
    )


# --- Gemini ---------------------------------------------------------------------------------------------------------------


def _gemini(text: str, **candidate: Any) -> dict[str, Any]:
    parts = [{"text": text}] if text else []
    return {"candidates": [{"content": {"role": "model", "parts": parts}, "index": 0, **candidate}]}


_GEMINI_USAGE = {"promptTokenCount": USED[0], "candidatesTokenCount": USED[1], "totalTokenCount": sum(USED)}


def _gemini_wire(api: str) -> Wire:
    return Wire(
        api=api,
        words=_gemini,
        complete=({**_gemini("", finishReason="STOP"), "usageMetadata": _GEMINI_USAGE},),
        error={"error": {"code": 503, "message": OVERLOADED, "status": "UNAVAILABLE"}},
        whole=lambda text: {**_gemini(text, finishReason="STOP"), "usageMetadata": _GEMINI_USAGE},
    )


# --- the others -------------------------------------------------------------------------------------------------------------


def _ollama(content: str, **more: Any) -> dict[str, Any]:
    return {"model": "m", "message": {"role": "assistant", "content": content}, "done": False, **more}


def _ollama_end(content: str = "") -> dict[str, Any]:
    return _ollama(content, done=True, done_reason="stop", prompt_eval_count=USED[0], eval_count=USED[1])


def _cohere(kind: str, **message: Any) -> dict[str, Any]:
    return {"type": kind, "delta": {"message": message}}


_COHERE_USAGE = {"tokens": {"input_tokens": USED[0], "output_tokens": USED[1]}}
_PI_USAGE = {"input": USED[0], "output": USED[1], "cacheRead": 0, "cacheWrite": 0, "totalTokens": sum(USED)}
_PI_END = {"type": "done", "reason": "stop", "usage": _PI_USAGE}
_BUSY = {"exception": {"serviceUnavailableException": {"message": OVERLOADED}}}

WIRES: dict[str, Wire] = {
    wire.api: wire
    for wire in (
        _chat_wire("openai-completions"),
        _chat_wire("mistral-conversations"),
        Wire(api="anthropic-messages", error=_MESSAGES_ERROR, **_MESSAGES),
        _responses_wire("openai-responses"),
        _responses_wire("azure-openai-responses"),
        _gemini_wire("google-generative-ai"),
        _gemini_wire("google-vertex"),
        Wire(
            api="bedrock-converse-stream",
            content_type=_FRAMES,
            frame=bedrock_frame,
            start=({"messageStart": {"role": "assistant"}},),
            words=lambda words: {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": words}}},
            complete=(
                {"contentBlockStop": {"contentBlockIndex": 0}},
                {"messageStop": {"stopReason": "end_turn"}},
            ),
            end=(
                {
                    "metadata": {
                        "usage": {"inputTokens": USED[0], "outputTokens": USED[1], "totalTokens": sum(USED)}
                    }
                },
            ),
            error=_BUSY,
            broken=bedrock_frame({"contentBlockDelta": '{"contentBlockIndex": 0, "del'}),
            whole=lambda text: {
                "output": {"message": {"role": "assistant", "content": [{"text": text}]}},
                "stopReason": "end_turn",
                "usage": {"inputTokens": USED[0], "outputTokens": USED[1], "totalTokens": sum(USED)},
            },
            keep_alive=b"",
            base_path="",
        ),
        Wire(
            api="bedrock-invoke",
            content_type=_FRAMES,
            frame=invoke_frame,
            error=_BUSY,
            broken=invoke_frame('{"type": "content_block_del'),
            keep_alive=b"",
            base_path="",
            **_MESSAGES,
        ),
        Wire(
            api="ollama",
            content_type="application/x-ndjson",
            frame=json_line,
            words=_ollama,
            end=(_ollama_end(),),
            error={"error": OVERLOADED},
            error_kind="provider_error",
            broken=b'{"broken": {"by\n',
            whole=_ollama_end,
            keep_alive=b"\n",
            base_path="",
        ),
        Wire(
            api="cohere-chat",
            start=(
                {
                    "type": "message-start",
                    "id": "r1",
                    "delta": {"message": {"role": "assistant", "content": []}},
                },
                {**_cohere("content-start", content={"type": "text", "text": ""}), "index": 0},
            ),
            words=lambda words: {**_cohere("content-delta", content={"text": words}), "index": 0},
            end=({"type": "message-end", "delta": {"finish_reason": "COMPLETE", "usage": _COHERE_USAGE}},),
            error={"error": {"message": OVERLOADED, "type": "overloaded"}},
            whole=lambda text: {
                "id": "r1",
                "finish_reason": "COMPLETE",
                "message": {"role": "assistant", "content": [{"type": "text", "text": text}]},
                "usage": _COHERE_USAGE,
            },
        ),
        Wire(
            api="pi-messages",
            start=({"type": "start"}, {"type": "text_start", "contentIndex": 0}),
            words=lambda words: {"type": "text_delta", "contentIndex": 0, "delta": words},
            end=({"type": "text_end", "contentIndex": 0}, _PI_END),
            error={"error": {"message": OVERLOADED, "type": "overloaded_error"}},
            whole=lambda text: [
                {"type": "text_start", "contentIndex": 0},
                {"type": "text_delta", "contentIndex": 0, "delta": text},
                _PI_END,
            ],
        ),
    )
}
"""A row for each api, by its id."""
