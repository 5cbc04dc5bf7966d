"""What of an answer is sent: which blocks, and how another model sees them."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from attrs import evolve, frozen

from pi_stream._text import clean_strings, clean_text
from pi_stream.handover.policy import ChangeKind, HandoverPolicy, Report
from pi_stream.messages import (
    AssistantContent,
    AssistantMessage,
    ProviderData,
    TextContent,
    ThinkingContent,
    ToolCall,
)
from pi_stream.models import Model

__all__ = ["BROKEN", "HALF_A_CHARACTER", "Answer", "fit_answer", "same_items"]

BROKEN = frozenset({"aborted", "error"})
"""How a turn ends that the model did not end. What is still pending was saved amid a crash, or written by hand."""
_CUT = BROKEN | {"length"}

HALF_A_CHARACTER = "half a surrogate pair cannot be encoded"


@frozen
class Answer:
    """An answer as it is sent, with the old index of each of its blocks."""

    message: AssistantMessage
    numbers: list[int]

    @property
    def broken(self) -> bool:
        """Whether the model did not end it."""
        return self.message.stop_reason in BROKEN

    def calls(self) -> Iterator[tuple[int, ToolCall]]:
        """Its calls, each with its old index."""
        for number, block in zip(self.numbers, self.message.content, strict=True):
            if isinstance(block, ToolCall):
                yield number, block

    def renamed(self, ids: dict[int, str]) -> Answer:
        """With new ids of calls, by old index."""
        blocks = zip(self.numbers, self.message.content, strict=True)
        content = [
            evolve(block, id=ids[number]) if isinstance(block, ToolCall) and number in ids else block
            for number, block in blocks
        ]
        return Answer(evolve(self.message, content=content), self.numbers)


def fit_answer(
    index: int,
    message: AssistantMessage,
    target: Model,
    policy: HandoverPolicy,
    answered: Container[tuple[int, int]],
    report: Report,
) -> Answer | None:
    """Take from an answer what can be sent to a model.

    Args:
        index: Where it stands.
        message: The answer. It is not changed.
        target: The model.
        policy: What to do where there is a choice.
        answered: Places (message and block) of calls that have a result.
        report: Is told what is different.

    Returns:
        The answer to send; None if nothing is left of it.
    """
    if message.stop_reason in BROKEN and policy.broken_turns == "drop":
        report.note("turn_dropped", index, None, f"its stop reason is {message.stop_reason}")
        return None
    origin = (target.provider, target.api, target.id)
    own = (message.provider, message.api, message.model) == origin
    return _Fitting(index, message, own, policy, answered, report).answer()


@frozen
class _Fitting:
    """One answer on its way to a model, which made it itself (``own``) or did not."""

    index: int
    message: AssistantMessage
    own: bool
    policy: HandoverPolicy
    answered: Container[tuple[int, int]]
    report: Report

    @property
    def content(self) -> Sequence[AssistantContent]:
        """The blocks; old sessions have null for none."""
        return self.message.content or ()

    def answer(self) -> Answer | None:
        numbers = self._kept()
        blocks = [self._rewritten(number) for number in numbers]
        data = self._data(numbers)
        if not blocks and not data:
            why = "nothing of it can be sent" if self.content else "it is empty"
            self.report.note("turn_dropped", self.index, None, why)
            return None
        message = self.message
        if not (same_items(blocks, self.content) and same_items(data, message.provider_data or ())):
            message = evolve(message, content=blocks, provider_data=data or None)
        return Answer(message, numbers)

    def _note(self, what: ChangeKind, number: int, why: str) -> None:
        self.report.note(what, self.index, number, why)

    # --- which blocks -------------------------------------------------------------------------------------------------

    def _kept(self) -> list[int]:
        """Indices of the blocks that are sent."""
        kept: list[int] = []
        for number, block in enumerate(self.content):
            what, why = self._refusal(number, block)
            if why:
                self._note(what, number, why)
            else:
                kept.append(number)
        cut = self.message.stop_reason in _CUT
        while cut and kept and isinstance(self.content[kept[-1]], ThinkingContent):
            # Providers refuse an answer that ends with thinking.
            self._note("thinking_dropped", kept.pop(), "what it led to never came")
        return kept

    def _refusal(self, number: int, block: AssistantContent) -> tuple[ChangeKind, str]:
        """Why a block is not sent; an empty reason if it is."""
        if isinstance(block, TextContent):
            says = block.text.strip() or (self.own and block.text_signature)
            return "text_dropped", "" if says else "it is blank"
        if isinstance(block, ThinkingContent):
            return "thinking_dropped", self._thinking_refusal(block)
        if isinstance(block, ToolCall):
            return "call_dropped", self._call_refusal(number, block)
        return "text_dropped", ""

    def _thinking_refusal(self, block: ThinkingContent) -> str:
        if self.own and (block.redacted or block.thinking_signature):
            return ""
        if not block.thinking.strip():
            return "it is blank"
        if self.own:
            return "it was cut off: it has no signature" if self.message.stop_reason in BROKEN else ""
        if block.redacted:
            return "only the model that thought it can read it"
        return "another model thought it" if self.policy.thinking == "drop" else ""

    def _call_refusal(self, number: int, call: ToolCall) -> str:
        answered = (self.index, number) in self.answered
        if call.arguments_error is not None:
            kept = answered and self.policy.malformed_calls == "answered"
            return "" if kept and self.message.stop_reason not in BROKEN else "its arguments are not complete"
        if answered:
            return ""
        if self.policy.missing_results == "drop":
            return "it has no result"
        # A call that was cut right after its name looks like one without arguments.
        cut = self.message.stop_reason in _CUT and number == len(self.content) - 1 and not call.arguments
        return "the answer ended before its arguments came" if cut else ""

    # --- how they are sent --------------------------------------------------------------------------------------------

    def _rewritten(self, number: int) -> AssistantContent:
        block = self.content[number]
        if not self.own:
            block = self._for_another_model(number, block)
        clean = _clean(block)
        if clean is not block:
            self._note("surrogates_replaced", number, HALF_A_CHARACTER)
        return clean

    def _for_another_model(self, number: int, block: AssistantContent) -> AssistantContent:
        """A block without what only its own model can read."""
        made: AssistantContent = block
        if isinstance(block, ThinkingContent):
            self._note("thinking_to_text", number, "another model thought it")
            text = block.thinking
            return TextContent(f"<thinking>\n{text}\n</thinking>" if self.policy.thinking == "tag" else text)
        if isinstance(block, TextContent) and block.text_signature is not None:
            made = evolve(block, text_signature=None)
        elif isinstance(block, ToolCall) and (block.thought_signature, block.namespace) != (None, None):
            made = evolve(block, thought_signature=None, namespace=None)
        if made is not block:
            self._note("signature_dropped", number, "another model signed it")
        return made

    def _data(self, numbers: Sequence[int]) -> list[ProviderData]:
        """What the provider wants to see again beside the blocks, at its new places.

        A broken answer may lack the other half of it, such as the result of a call to a server's tool.
        """
        message = self.message
        origin = (message.provider, message.api, message.model)
        kept: list[ProviderData] = []
        for entry in message.provider_data or ():
            last = entry.after - 1
            behind = self.content[last] if 0 <= last < len(self.content) else None
            lost = isinstance(behind, ToolCall) and last not in numbers
            foreign = not self.own or (entry.provider, entry.api, entry.model) != origin
            if foreign or lost or message.stop_reason in BROKEN:
                why = "it is of another model" if foreign else "what belongs to it never came"
                self.report.note("provider_data_dropped", self.index, None, why)
                continue
            dropped = sum(number not in numbers for number in range(min(entry.after, len(self.content))))
            kept.append(evolve(entry, after=entry.after - dropped) if dropped else entry)
        return kept


def same_items(new: Sequence[object], old: Sequence[object]) -> bool:
    """Whether two sequences hold the very same objects."""
    return len(new) == len(old) and all(a is b for a, b in zip(new, old, strict=True))


def _clean(block: AssistantContent) -> AssistantContent:
    """The block with strings that can be encoded; itself if they can."""
    if isinstance(block, TextContent):
        text = clean_text(block.text)
        return block if text is block.text else evolve(block, text=text)
    if isinstance(block, ThinkingContent):
        text = clean_text(block.thinking)
        return block if text is block.thinking else evolve(block, thinking=text)
    if isinstance(block, ToolCall):
        name, arguments = clean_text(block.name), clean_strings(block.arguments)
        same = name is block.name and arguments is block.arguments
        return block if same else evolve(block, name=name, arguments=arguments)
    return block
