"""Faults of the other protocols' servers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pi_stream.messages import AssistantMessage
from pi_stream.testing._fault import Fault, Outcome
from pi_stream.testing.wires import bedrock_frame, invoke_frame, json_line, sse_event

__all__ = ["faults"]

_TEA = '{"q": "tea"}'
_CALLED = Outcome(stop="toolUse", calls=(("look", {"q": "tea"}),))


def faults() -> Iterator[Fault]:
    """The cases, for each api that speaks the protocol."""
    yield from _messages("anthropic-messages", sse_event)
    yield from _messages("bedrock-invoke", invoke_frame)
    yield from _responses("openai-responses")
    yield from _responses("azure-openai-responses")
    yield from _gemini("google-generative-ai")
    yield from _gemini("google-vertex")
    yield from _rest()


def _case(
    api: str, id: str, name: str, expect: Outcome, *chunks: Any, frame: Callable[[Any], bytes] = sse_event
) -> Fault:
    return Fault(id=id, name=name, api=api, steps=(b"".join(map(frame, chunks)),), expect=expect)


# --- Anthropic Messages -----------------------------------------------------------------------------------------------


def _start(usage: dict[str, int] | None = None, id: str = "m1") -> dict[str, Any]:
    counts = usage or {"input_tokens": 3}
    return {
        "type": "message_start",
        "message": {"id": id, "role": "assistant", "content": [], "usage": counts},
    }


def _begin(index: int, **block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def _delta(index: int, kind: str, **delta: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": f"{kind}_delta", **delta}}


def _end(reason: str | None = "end_turn", usage: dict[str, int] | None = None) -> dict[str, Any]:
    counts = usage or {"output_tokens": 2}
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": counts}


_OVER = {"type": "content_block_stop", "index": 0}
_STOP = {"type": "message_stop"}
_TEXT = _begin(0, type="text", text="")


def _tool(**fields: Any) -> dict[str, Any]:
    return _begin(0, type="tool_use", id="toolu_1", name="look", **fields)


def _messages(api: str, frame: Callable[[Any], bytes]) -> Iterator[Fault]:
    def case(id: str, name: str, expect: Outcome, *chunks: Any) -> Fault:
        return _case(api, id, name, expect, *chunks, frame=frame)

    hi = _delta(0, "text", text="hi")
    twice = Outcome(text="hi", usage={"input": 14, "cache_read": 100, "output": 7, "quality": "reported"})
    full = {"input_tokens": 14, "cache_read_input_tokens": 100}
    yield case("B31", "all token counts are sent twice", twice,
               _start({**full, "output_tokens": 1}), _TEXT, hi, _OVER, _end(usage={**full, "output_tokens": 7}), _STOP)  # fmt: skip
    yield case("B91", "the last output count is the one that counts", Outcome(text="hi", usage={"input": 3, "output": 9}),
               _start({"input_tokens": 3, "output_tokens": 1}), _TEXT, hi, _OVER, _end(usage={"output_tokens": 9}), _STOP)  # fmt: skip
    nothing = Outcome(stop="toolUse", calls=(("look", {}),))
    for name, pieces in (
        ("an empty piece of", [_delta(0, "input_json", partial_json="")]),
        ("no piece of", []),
    ):
        yield case("B34", f"a call with {name} arguments", nothing,
                   _start(), _tool(input={}), *pieces, _OVER, _end("tool_use"), _STOP)  # fmt: skip
    yield case(
        "B34", "a call without the field for them", nothing, _start(), _tool(), _OVER, _end("tool_use"), _STOP
    )
    yield case("B34", "the arguments come with the start of a call", _CALLED,
               _start(), _tool(input={"q": "tea"}), _OVER, _end("tool_use"), _STOP)  # fmt: skip
    pieces = [_delta(0, "input_json", partial_json=letter) for letter in _TEA]
    yield case("B95", "arguments in pieces of one character", _CALLED,
               _start(), _tool(input={}), *pieces, _OVER, _end("tool_use"), _STOP)  # fmt: skip
    cut = Outcome(stop="error", text="hi", kind="truncated", retryable=True)
    yield case("B38", "neither a stop reason nor an end", cut, _start(), _TEXT, hi, _OVER)
    yield case("B38", "the end mark without a stop reason", cut, _start(), _TEXT, hi, _OVER, _STOP)
    more = _delta(0, "text", text=" you")
    for name, again in (("same", _start()), ("another", _start(id="m2"))):
        yield case("B40", f"message_start again, with {name} id", Outcome(text="hi you"),
                   again, _TEXT, hi, _start(), more, _OVER, _end(), _STOP)  # fmt: skip
    yield case(
        "B41", "content before message_start", Outcome(text="hi"), _TEXT, hi, _start(), _OVER, _end(), _STOP
    )
    yield case(
        "B41",
        "a piece of a block that was never begun",
        Outcome(text="hi"),
        _start(),
        hi,
        _OVER,
        _end(),
        _STOP,
    )
    yield case("B62", "the stop reason is tool_use without a call", Outcome(text="hi", notes=("tool_use_without_call",)),
               _start(), _TEXT, hi, _OVER, _end("tool_use"), _STOP)  # fmt: skip


# --- Responses ----------------------------------------------------------------------------------------------------------


def _event(name: str, **fields: Any) -> dict[str, Any]:
    return {"type": f"response.{name}", **fields}


def _item(id: str, *texts: str) -> dict[str, Any]:
    return {"type": "message", "id": id, "content": [{"type": "output_text", "text": text} for text in texts]}


def _completed(*output: Any) -> dict[str, Any]:
    return _event("completed", response={"id": "resp_1", "status": "completed", "output": list(output)})


def _responses(api: str) -> Iterator[Fault]:
    def case(id: str, name: str, expect: Outcome, *chunks: Any) -> Fault:
        return _case(api, id, name, expect, *chunks)

    said = _event("output_text.delta", output_index=0, content_index=0, item_id="B", delta="hi")
    added = _event("output_item.added", output_index=0, item=_item("A"))
    failed = Outcome(
        stop="error",
        text="hi",
        kind="provider_error",
        code="server_error",
        words="out of order",
        retryable=True,
    )
    error = {"code": "server_error", "message": "out of order"}
    yield case("B43", "the response failed", failed, added, said,
               _event("failed", response={"id": "resp_1", "status": "failed", "error": error}))  # fmt: skip
    yield case("B43", "a plain error", failed, added, said, {"type": "error", **error})
    yield case("B44", "another id of the item in each event", Outcome(text="hi"), added, said,
               _event("output_item.done", output_index=0, item=_item("C", "hi")), _completed())  # fmt: skip
    yield case("B89", "text of an item that was never announced", Outcome(text="hi"),
               _event("output_text.delta", delta="hi"), _completed())  # fmt: skip
    call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look", "arguments": _TEA}
    both = Outcome(stop="toolUse", text="hi", calls=_CALLED.calls)
    yield case(
        "B94",
        "the final response lists a call that was never announced",
        both,
        added,
        said,
        _completed(_item("A", "hi"), call),
    )
    yield case("B94", "the call itself follows the final response, which lists it", both, added, said,
               _completed(_item("A", "hi"), call), _event("output_item.done", output_index=1, item=call))  # fmt: skip
    empty = {**call, "arguments": ""}
    pieces = [_event("function_call_arguments.delta", output_index=0, item_id=f"i{at}", delta=letter)
              for at, letter in enumerate(_TEA)]  # fmt: skip
    yield case("B95", "arguments in pieces of one character", _CALLED,
               _event("output_item.added", output_index=0, item=empty), *pieces,
               _event("output_item.done", output_index=0, item=call), _completed(call))  # fmt: skip


# --- Gemini ---------------------------------------------------------------------------------------------------------------


def _candidate(*parts: Any, counts: Any = None, **fields: Any) -> dict[str, Any]:
    chunk = {"candidates": [{"content": {"role": "model", "parts": list(parts)}, "index": 0, **fields}]}
    return chunk if counts is None else {**chunk, "usageMetadata": counts}


def _counts(prompt: int, output: int) -> dict[str, int]:
    return {"promptTokenCount": prompt, "candidatesTokenCount": output, "totalTokenCount": prompt + output}


def _gemini(api: str) -> Iterator[Fault]:
    def case(id: str, name: str, expect: Outcome, *chunks: Any) -> Fault:
        return _case(api, id, name, expect, *chunks)

    call = {"functionCall": {"name": "look", "args": {"q": "tea"}}}
    signed = Outcome(stop="toolUse", calls=(("look", {"q": "tea"}),) * 2, check=_keeps_the_signature)
    yield case("B13", "a signed call, and the same call again without the signature", signed,
               _candidate({**call, "thoughtSignature": "U0lH"}), _candidate(call, finishReason="STOP"))  # fmt: skip
    total = Outcome(text="ab", usage={"input": 9, "output": 2, "quality": "reported"})
    yield case("B16", "running totals in every chunk", total,
               _candidate({"text": "a"}, counts=_counts(9, 1)),
               _candidate({"text": "b"}, counts=_counts(9, 2), finishReason="STOP"))  # fmt: skip
    malformed = Outcome(stop="error", retryable=True, kind="provider_error", words="MALFORMED_FUNCTION_CALL")
    stopped = {"finishReason": "MALFORMED_FUNCTION_CALL"}
    yield case("B29", "a malformed call with nothing but a signature", malformed,
               _candidate({"thoughtSignature": "eA=="}, counts={"promptTokenCount": 40}, **stopped))  # fmt: skip
    yield case(
        "B29", "a malformed call without content", malformed, {"candidates": [{"index": 0, **stopped}]}
    )
    yield case("B53", "the finish reason comes first, and again", Outcome(text="late"),
               _candidate(finishReason="STOP"), _candidate({"text": "late"}), _candidate(finishReason="STOP"))  # fmt: skip
    yield case(
        "B11",
        "the finish reason is STOP after a call",
        _CALLED,
        _candidate(call),
        _candidate(finishReason="STOP"),
    )
    yield case("B85", "the finish reason comes with the last text", Outcome(stop="length", text="Hello"),
               _candidate({"text": "Hel"}), _candidate({"text": "lo"}, finishReason="MAX_TOKENS"))  # fmt: skip


def _keeps_the_signature(message: AssistantMessage) -> None:
    assert message.tool_calls[0].thought_signature == "U0lH"


# --- Ollama, Bedrock, Cohere -------------------------------------------------------------------------------------------


def _line(content: str = "", *, done: bool = False, **message: Any) -> dict[str, Any]:
    line = {"model": "m", "message": {"role": "assistant", "content": content, **message}, "done": done}
    return {**line, "done_reason": "stop", "prompt_eval_count": 3, "eval_count": 2} if done else line


def _rest() -> Iterator[Fault]:
    def ollama(id: str, name: str, expect: Outcome, *chunks: Any) -> Fault:
        return _case("ollama", id, name, expect, *chunks, frame=json_line)

    call = {"function": {"name": "look", "arguments": {"q": "tea"}}}
    yield ollama("B68", "the call comes in the last line", _CALLED, _line(done=True, tool_calls=[call]))
    yield ollama(
        "B68", "text comes in the last line", Outcome(text="Hello"), _line("Hel"), _line("lo", done=True)
    )
    yield ollama("B70", "thinking without content", Outcome(text="So.", thinking="Hm."),
                 _line(thinking="H"), _line(thinking="m."), _line("So."), _line(done=True))  # fmt: skip
    told = {"function": {"name": "look", "arguments": _TEA}}
    yield ollama("B35", "the arguments are a string", _CALLED, _line(tool_calls=[told]), _line(done=True))
    yield ollama(
        "B11", "the reason is stop after a call", _CALLED, _line(tool_calls=[call]), _line(done=True)
    )
    begun = {
        "contentBlockStart": {
            "contentBlockIndex": 0,
            "start": {"toolUse": {"toolUseId": "t1", "name": "look"}},
        }
    }
    pieces = [
        {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"toolUse": {"input": letter}}}}
        for letter in _TEA
    ]
    ends: tuple[dict[str, Any], ...] = (
        {"contentBlockStop": {"contentBlockIndex": 0}},
        {"messageStop": {"stopReason": "tool_use"}},
        {"metadata": {}},
    )
    yield _case("bedrock-converse-stream", "B95", "arguments in pieces of one character", _CALLED,
                {"messageStart": {"role": "assistant"}}, begun, *pieces, *ends, frame=bedrock_frame)  # fmt: skip
    function = {"name": "look", "arguments": ""}
    cohere = [
        {"type": "message-start", "id": "r1"},
        {"type": "tool-call-start", "index": 0,
         "delta": {"message": {"tool_calls": {"id": "t1", "type": "function", "function": function}}}},
        *({"type": "tool-call-delta", "index": 0,
           "delta": {"message": {"tool_calls": {"function": {"arguments": letter}}}}} for letter in _TEA),
        {"type": "tool-call-end", "index": 0},
        {"type": "message-end", "delta": {"finish_reason": "TOOL_CALL"}},
    ]  # fmt: skip
    yield _case("cohere-chat", "B95", "arguments in pieces of one character", _CALLED, *cohere)
