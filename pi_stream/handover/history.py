"""A whole history: which result belongs to which call, ids, and the order of it all."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, TypeVar

from attrs import evolve

from pi_stream._text import clean_strings, clean_text
from pi_stream.handover.answers import HALF_A_CHARACTER, Answer, fit_answer, same_items
from pi_stream.handover.ids import id_rule, unique_ids
from pi_stream.handover.policy import HandoverPolicy, Report
from pi_stream.messages import (
    AssistantMessage,
    Content,
    ImageContent,
    Message,
    SystemMessage,
    TextContent,
    Tool,
    ToolCall,
    ToolResultMessage,
    UserContent,
    UserMessage,
)
from pi_stream.models import Model

__all__ = ["RESULT_IMAGE_OMITTED", "USER_IMAGE_OMITTED", "History"]

USER_IMAGE_OMITTED = "(image omitted: model does not support images)"
RESULT_IMAGE_OMITTED = "(tool image omitted: model does not support images)"

_INTERRUPTED = {
    "aborted": "the answer was aborted",
    "error": "the answer ended with an error",
    "length": "the answer was cut off at its length limit",
}

Place = tuple[int, int]
"""Index of a message and of a block in it, in the history that was given."""

B = TypeVar("B", bound=Content)


class History:
    """One history on its way to a model.

    Args:
        messages: What was given.
        target: The model.
        policy: What to do where there is a choice.
    """

    def __init__(self, messages: Sequence[Message], target: Model, policy: HandoverPolicy) -> None:
        self.report = Report()
        self._given = messages
        self._sees_images = "image" in target.input
        self._results, self._strays = _paired(messages)
        self._answers: dict[int, Answer] = {}  # those that are sent, by index
        for index, message in enumerate(messages):
            if isinstance(message, AssistantMessage):
                answer = fit_answer(index, message, target, policy, self._results, self.report)
                if answer is not None:
                    self._answers[index] = answer
        self._drop_broken_end()
        self._name_calls(policy, target)
        self._moved: set[int] = set()

    def _drop_broken_end(self) -> None:
        """Drop the answers at the very end that broke off and call nothing: the request asks for them anew.

        Some providers refuse a history that ends with an answer.
        """
        for index in reversed(range(len(self._given))):
            answer = self._answers.get(index)
            if answer is None and not isinstance(self._given[index], UserMessage):
                continue  # not sent, sent with its call, or a system message, which is no turn
            if answer is None or not answer.broken or any(answer.calls()):
                return
            del self._answers[index]
            self.report.note("turn_dropped", index, None, "it broke off and nothing follows it")

    def _name_calls(self, policy: HandoverPolicy, target: Model) -> None:
        """Give every call an id that can be sent and that no other has."""
        rule = policy.ids or id_rule(target)
        places = [(index, number) for index, answer in self._answers.items() for number, _ in answer.calls()]
        old_ids = [call.id for answer in self._answers.values() for _, call in answer.calls()]
        renamed: dict[int, dict[int, str]] = {}
        for (index, number), old, new in zip(places, old_ids, unique_ids(old_ids, rule), strict=True):
            if new != old:
                why = "another call has it" if rule.allows(old) else "the provider would not take it"
                self.report.note("id_changed", index, number, why, before=old, after=new)
                renamed.setdefault(index, {})[number] = new
        for index, ids in renamed.items():
            self._answers[index] = self._answers[index].renamed(ids)

    # --- the order ----------------------------------------------------------------------------------------------------

    def made(self) -> list[Message]:
        """The new history."""
        made: list[Message] = []
        for index, message in enumerate(self._given):
            if isinstance(message, SystemMessage):
                made.append(self._system(index, message))
            elif isinstance(message, UserMessage):
                made.append(self._user(index, message))
            elif index in self._answers:
                answer = self._answers[index]
                made += [answer.message, *self._results_of(index, answer)]
            elif index in self._strays:
                self.report.note("result_dropped", index, None, self._strays[index])
        for (index, number), at in self._results.items():
            if index not in self._answers or number not in self._answers[index].numbers:
                self.report.note("result_dropped", at, None, "its call is not sent")
        return made

    def _results_of(self, index: int, answer: Answer) -> list[ToolResultMessage]:
        """The results of an answer's calls, in the order of the calls."""
        made: list[ToolResultMessage] = []
        latest = index
        for number, call in answer.calls():
            at = self._results.get((index, number))
            if at is None:
                made.append(_missing_result(call, answer))
                self.report.note("result_added", index, number, "the call has no result")
                continue
            made.append(self._result(at, call))
            if at < latest or any(map(self._is_turn, range(index + 1, at))):
                why = "results stand right behind their calls, in order"
                self.report.note("message_moved", at, None, why)
            latest = max(latest, at)
        for between in range(index + 1, latest):
            if isinstance(self._given[between], SystemMessage) and between not in self._moved:
                self._moved.add(between)
                self.report.note("message_moved", between, None, "nothing stands between calls and results")
        return made

    def _is_turn(self, index: int) -> bool:
        """Whether this is what a user says, or an answer that is sent."""
        return index in self._answers or isinstance(self._given[index], UserMessage)

    # --- what is no answer --------------------------------------------------------------------------------------------

    def _result(self, index: int, call: ToolCall) -> ToolResultMessage:
        message = self._given[index]
        assert isinstance(message, ToolResultMessage)
        if message.tool_call_id != call.id:
            before, why = message.tool_call_id, "its call has a new id"
            self.report.note("id_changed", index, None, why, before=before, after=call.id)
            message = evolve(message, tool_call_id=call.id)
        if message.tool_name != call.name:
            before, why = message.tool_name, "its call names another tool"
            self.report.note("result_renamed", index, None, why, before=before, after=call.name)
            message = evolve(message, tool_name=call.name)
        content = self._seen(index, message.content, RESULT_IMAGE_OMITTED)
        return message if content is message.content else evolve(message, content=content)

    def _user(self, index: int, message: UserMessage) -> UserMessage:
        content = message.content
        if isinstance(content, str):
            content = self._clean_text(index, content)
        else:
            content = self._seen(index, content, USER_IMAGE_OMITTED)
        return message if content is message.content else evolve(message, content=content)

    def _system(self, index: int, message: SystemMessage) -> SystemMessage:
        content = message.content
        if isinstance(content, str):
            content = self._clean_text(index, content)
        else:
            content = self._clean_blocks(index, content)
        sections = clean_strings(message.sections)
        tools = _clean_tools(message.tools_added)
        if (sections is not message.sections) or (tools is not message.tools_added):
            self.report.note("surrogates_replaced", index, None, HALF_A_CHARACTER)
        elif content is message.content:
            return message
        return evolve(message, content=content, sections=sections, tools_added=tools)

    def _seen(self, index: int, content: list[UserContent], placeholder: str) -> list[UserContent]:
        """Content as the model can take it: where it sees no images, a line of text stands for each run of them."""
        content = self._clean_blocks(index, content)
        if self._sees_images or not any(isinstance(block, ImageContent) for block in content):
            return content
        made: list[UserContent] = []
        in_run = False
        for number, block in enumerate(content):
            is_image = isinstance(block, ImageContent)
            if is_image:
                self.report.note("image_replaced", index, number, "the model does not see images")
            if not (is_image and in_run):
                made.append(TextContent(placeholder) if is_image else block)
            in_run = is_image
        return made

    def _clean_text(self, index: int, text: str, number: int | None = None) -> str:
        clean = clean_text(text)
        if clean is not text:
            self.report.note("surrogates_replaced", index, number, HALF_A_CHARACTER)
        return clean

    def _clean_blocks(self, index: int, content: list[B]) -> list[B]:
        """The blocks with texts that can be encoded; the list itself if they can."""
        made: list[Any] = []
        for number, block in enumerate(content):
            new: Any = block
            if isinstance(block, TextContent):
                text = self._clean_text(index, block.text, number)
                new = block if text is block.text else evolve(block, text=text)
            made.append(new)
        return content if same_items(made, content) else made


def _paired(messages: Sequence[Message]) -> tuple[dict[Place, int], dict[int, str]]:
    """Find the result of each call: the first with its id behind it that no later call with that id takes.

    Returns:
        Indices of results by the places of their calls, and why each of the other results belongs to none.
    """
    results: dict[Place, int] = {}
    strays: dict[int, str] = {}
    waiting: dict[str, deque[Place]] = {}
    for index, message in enumerate(messages):
        if isinstance(message, AssistantMessage):
            calls: dict[str, deque[Place]] = {}
            for number, block in enumerate(message.content or ()):
                if isinstance(block, ToolCall):
                    calls.setdefault(block.id, deque()).append((index, number))
            waiting |= calls
        elif isinstance(message, ToolResultMessage):
            unanswered = waiting.get(message.tool_call_id)
            if unanswered:
                results[unanswered.popleft()] = index
            elif unanswered is None:
                strays[index] = "no call before it has this id"
            else:
                strays[index] = "its call has a result already"
    return results, strays


def _missing_result(call: ToolCall, answer: Answer) -> ToolResultMessage:
    cause = _INTERRUPTED.get(answer.message.stop_reason)
    text = "No result: the call was interrupted" + (f", since {cause}." if cause else ".")
    return ToolResultMessage(
        call.id, call.name, [TextContent(text)], is_error=True, timestamp=answer.message.timestamp
    )


def _clean_tools(tools: list[Tool] | None) -> list[Tool] | None:
    """Tools with strings that can be encoded; the list itself if they can."""
    made: list[Tool] = []
    for tool in tools or ():
        values = (tool.name, tool.description, tool.parameters)
        name, description, parameters = clean_strings(values)
        same = name is tool.name and description is tool.description and parameters is tool.parameters
        made.append(tool if same else evolve(tool, name=name, description=description, parameters=parameters))
    return tools if tools is None or same_items(made, tools) else made
