"""Faults of Chat Completions servers, of which there are the most kinds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from attrs import evolve

from pi_stream.messages import AssistantMessage, ThinkingContent
from pi_stream.testing._fault import Fault, Outcome
from pi_stream.testing.wires import sse_event

__all__ = ["faults"]

_APIS = ("openai-completions", "mistral-conversations")
_DONE = "[DONE]"
_CALLED = Outcome(stop="toolUse", calls=(("look", {"q": "tea"}),))
_BOTH = Outcome(stop="toolUse", calls=(("look", {"q": "tea"}), ("look", {"q": "rum"})))
_NO_ARGUMENTS = Outcome(stop="toolUse", calls=(("now", {}),))
_TEA, _RUM = '{"q": "tea"}', '{"q": "rum"}'


def _chunk(delta: dict[str, Any] | None = None, finish: Any = None, **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": {} if delta is None else delta, "finish_reason": finish}
    return {"id": "r1", "choices": [choice], **more}


def _says(text: str, finish: Any = None, **more: Any) -> dict[str, Any]:
    return _chunk({"content": text}, finish, **more)


def _calls(*pieces: dict[str, Any], finish: Any = None) -> dict[str, Any]:
    return _chunk({"tool_calls": list(pieces)}, finish)


def _piece(arguments: Any = None, name: Any = None, **keys: Any) -> dict[str, Any]:
    """A piece of a call, with only what is given."""
    function = {"name": name, "arguments": arguments}
    return {**keys, "function": {key: value for key, value in function.items() if value is not None}}


def _case(id: str, name: str, expect: Outcome, *chunks: Any, done: bool = True, **options: Any) -> Fault:
    body = b"".join(map(sse_event, [*chunks, *([_DONE] if done else [])]))
    return Fault(id=id, name=name, api=_APIS[0], steps=(body,), expect=expect, options=options)


def faults() -> Iterator[Fault]:
    """The cases, for each api that speaks the protocol."""
    for cases in (_which_call, _what_arguments, _why_it_stopped, _text_and_thinking, _usage):
        for fault in cases():
            for api in _APIS:
                yield evolve(fault, api=api)


def _which_call() -> Iterator[Fault]:
    """Which call a piece belongs to."""
    end = _chunk(finish="tool_calls")
    first = _piece('{"q": ', "look", id="c1", index=0)
    yield _case("B02", "no index in the pieces of a call", _CALLED,
                _calls(_piece('{"q": ', "look", id="c1")), _calls(_piece('"tea"}', index=None)), end)  # fmt: skip
    yield _case("B02", "several calls without an index in one chunk", _BOTH,
                _calls(_piece(_TEA, "look", id="c1"), _piece(_RUM, "look", id="c2")), end)  # fmt: skip
    yield _case("B02", "neither index nor id, calls one after the other", _BOTH,
                _calls(_piece(_TEA, "look")), _calls(_piece('{"q": ', "look")), _calls(_piece('"rum"}')), end)  # fmt: skip
    yield _case("B07", "id, type and name in every piece", _CALLED,
                _calls({**first, "type": "function"}),
                _calls({**_piece('"tea"}', "look", id="c1", index=0), "type": "function"}), end)  # fmt: skip
    yield _case("B08", "every call has index 0", _BOTH,
                _calls(_piece(_TEA, "look", id="c1", index=0)), _calls(_piece(_RUM, "look", id="c2", index=0)), end)  # fmt: skip
    two = Outcome(stop="toolUse", calls=(("look", None),))
    yield _case("B08", "two objects in the arguments of one call", two,
                _calls(_piece(_TEA, "look", id="c1", index=0)), _calls(_piece(_RUM, index=0)), end)  # fmt: skip
    yield _case("B56", "the id changes after the first piece", _CALLED,
                _calls(_piece("", "look", id="c1", index=0)), _calls(_piece(_TEA, id="c2", index=0)), end)  # fmt: skip
    yield _case("B58", "the name comes in pieces", _CALLED,
                _calls(_piece(None, "lo", id="c1", index=0)), _calls(_piece(None, "ok", index=0)),
                _calls(_piece(_TEA, index=0)), end)  # fmt: skip
    for empty in ("", None):
        piece = {"index": 0, "id": empty, "function": {"name": empty, "arguments": '"tea"}'}}
        yield _case(
            "B59", f"the name is {empty!r} in later pieces", _CALLED, _calls(first), _calls(piece), end
        )
    nameless = Outcome(stop="toolUse", calls=(("look", {"q": "rum"}), ("", None)))
    yield _case("B59", "a call never gets a name", nameless,
                _calls(_piece(_TEA, id="c1", index=0)), _calls(_piece(_RUM, "look", id="c2", index=1)), end)  # fmt: skip


def _what_arguments() -> Iterator[Fault]:
    """What the arguments of a call are."""
    end = _chunk(finish="tool_calls")
    many = [_calls(_piece(letter, index=0)) for letter in '"' + "x" * 20_000 + '"}']
    long = Outcome(stop="toolUse", calls=(("look", {"q": "x" * 20_000}),))
    yield _case("B23", "twenty thousand pieces of one character", long,
                _calls(_piece('{"q": ', "look", id="c1", index=0)), *many, end)  # fmt: skip
    for name, arguments in (("empty", ""), ("blank", " "), ("null", None)):
        function = {"name": "now", "arguments": arguments}
        yield _case("B34", f"the arguments are {name}", _NO_ARGUMENTS,
                    _calls({"index": 0, "id": "c1", "function": function}), end)  # fmt: skip
    yield _case("B35", "the arguments are an object", _CALLED,
                _calls(_piece({"q": "tea"}, "look", id="c1", index=0)), end)  # fmt: skip
    for name, again in (("once more", _TEA), ("encoded twice", '"{\\"q\\": \\"tea\\"}"')):
        yield _case("B61", f"the last piece has all arguments, {name}", _CALLED,
                    _calls(_piece(_TEA, "look", id="c1", index=0)), _calls(_piece(again, id="c1", index=0)), end)  # fmt: skip
    path = r'{"q": "C:\\temp\\\"x\" \u00e9\n\\\\"}'
    shown = Outcome(stop="toolUse", calls=(("look", {"q": 'C:\\temp\\"x" é\n\\\\'}),))
    pieces = [_calls(_piece(path[at : at + 1], index=0)) for at in range(len(path))]
    yield _case("B95", "escapes in the arguments, cut at each character", shown,
                _calls(_piece("", "look", id="c1", index=0)), *pieces, end)  # fmt: skip
    unread = Outcome(stop="toolUse", calls=(("look", None),), check=_keeps_the_raw_text)
    yield _case("B95", "the arguments are no JSON", unread,
                _calls(_piece('{"q": tea', "look", id="c1", index=0)), end)  # fmt: skip


def _keeps_the_raw_text(message: AssistantMessage) -> None:
    (call,) = message.tool_calls
    assert call.arguments == {}
    assert (call.arguments_error or "").endswith('{"q": tea')


def _why_it_stopped() -> Iterator[Fault]:
    """Why an answer stopped, and errors."""
    call = _calls(_piece(_TEA, "look", id="c1", index=0))
    gone = {"message": "upstream gone", "code": 502}
    failed = Outcome(stop="error", text="One mo", kind="provider_error", code="502", words="upstream gone")
    yield _case("B04", "an error without choices", failed, _says("One mo"), {"error": gone}, done=False)
    yield _case(
        "B04", "an error beside empty choices", failed, _says("One mo"), {"choices": [], "error": gone}
    )
    yield _case("B04", "an error beside the finish reason error", failed,
                _says("One mo"), {**_says("", "error"), "error": gone}, _says("more"))  # fmt: skip
    for reason in ("stop", "other"):
        yield _case(
            "B11", f"the finish reason is {reason} after a call", _CALLED, call, _chunk(finish=reason)
        )
    fine = Outcome(text="fine", notes=("stop_reason_inferred",))
    yield _case("B28", "the finish reason is empty in every chunk", Outcome(text="Hello"),
                {**_chunk({"role": None, "content": "Hel"}, ""), "usage": None}, _says("lo", "stop"))  # fmt: skip
    yield _case("B50", "the end mark without a finish reason", fine, _says("fine"))
    called = Outcome(stop="toolUse", calls=_CALLED.calls, notes=("stop_reason_inferred",))
    yield _case("B50", "the end mark without a finish reason, after a call", called, call)
    yield _case("B50", "the end mark and nothing else", Outcome(stop="error", kind="truncated"))
    noted = Outcome(text="Hello", notes=("tool_use_without_call",))
    yield _case(
        "B62",
        "the finish reason is tool_calls without a call",
        noted,
        _says("Hello"),
        _chunk(finish="tool_calls"),
    )
    nothing = Outcome(stop="error", kind="provider_error", words="without a tool call")
    yield _case(
        "B62", "the finish reason is tool_calls and there is nothing", nothing, _chunk(finish="tool_calls")
    )
    yield _case("B85", "the finish reason comes with the last text", Outcome(stop="length", text="Hello"),
                _says("Hel"), _says("lo", "length"))  # fmt: skip


def _text_and_thinking() -> Iterator[Fault]:
    hello = Outcome(text="Hello")
    both = Outcome(text="So.", thinking="Hm.")
    whole = {
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}
        ]
    }
    yield _case("B32", "the whole message is sent again at the end", hello, _says("Hel"), _says("lo"), whole)
    yield _case("B32", "the whole message at the end goes on", hello, _says("Hel"), whole)
    yield _case("B82", "thinking, then text", both,
                _chunk({"reasoning_content": "Hm."}), _says("So."), _chunk(finish="stop"))  # fmt: skip
    yield _case("B83", "equal pieces of text", Outcome(text="haha"), _says("ha"), _says("ha", "stop"))
    details = [{"type": "reasoning.text", "text": "Hm.", "index": 0, "format": "f"}]
    secret = [{"type": "reasoning.encrypted", "data": "U0lH", "id": "x1", "index": 1, "format": "f"}]
    yield _case("B46", "reasoning details beside the reasoning", Outcome(text="So.", thinking="Hm.", check=_keeps_details),
                _chunk({"reasoning": "Hm.", "reasoning_details": details}), _chunk({"reasoning_details": secret}),
                _says("So."), _chunk(finish="stop"))  # fmt: skip


def _keeps_details(message: AssistantMessage) -> None:
    (thought,) = [block for block in message.content if isinstance(block, ThinkingContent)]
    assert "U0lH" in (thought.thinking_signature or "")


def _usage() -> Iterator[Fault]:
    def counted(text: str, input: int, output: int) -> Outcome:
        return Outcome(text=text, usage={"input": input, "output": output, "quality": "reported"})

    def used(prompt: int, completion: int) -> dict[str, Any]:
        return {"usage": {"prompt_tokens": prompt, "completion_tokens": completion}}

    filters = [{"prompt_index": 0, "content_filter_results": {}}]
    yield _case("B14", "chunks without choices", counted("ok", 5, 1),
                {"id": "", "choices": [], "prompt_filter_results": filters}, {"choices": []},
                _says("ok", "stop"), {"id": "r1", "choices": [], **used(5, 1)})  # fmt: skip
    yield _case("B16", "running totals in every chunk", counted("ab", 9, 2),
                _says("a", **used(9, 1)), _says("b", "stop", **used(9, 2)))  # fmt: skip
    yield _case("B16", "a later total without one of its numbers", counted("ab", 9, 2),
                _says("a", **used(9, 1)),
                _says("b", "stop", usage={"prompt_tokens": None, "completion_tokens": 2}))  # fmt: skip
    inside = _chunk({}, "stop")
    inside["choices"][0].update(used(4, 2))
    yield _case("B55", "the usage stands in the choice", counted("a", 4, 2), _says("a"), inside)
    yield _case("B55", "the usage stands in x_groq", counted("a", 4, 2),
                _says("a"), _chunk({}, "stop", x_groq=used(4, 2)))  # fmt: skip
