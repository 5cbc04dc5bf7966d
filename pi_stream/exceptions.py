"""Exceptions of pi_stream: what misuse raises, and what the layers tell each other.

::

    PiStreamError
    ├── ConfigError              a setting, key, provider or model that cannot work
    │   ├── ContextOverflowError the history cannot fit the model's context window
    │   ├── MissingExtraError    an optional package is not installed
    │   └── MissingKeyError      a provider needs a key and has none
    ├── InvalidToolCallError     a model's tool call that must not be carried out
    ├── InvalidOutputError       an answer that is not the structured output that was asked for
    ├── SerializationError       JSON that is not what the message model says (names the JSON path)
    ├── DecodeError              bytes on the wire that break the format
    ├── TransportError           the connection failed, was cut, or met a limit
    ├── ProtocolViolation        a provider broke one of the stream guarantees
    └── StreamError              raised only for those who ask: ``result(raise_on_error=True)``

Failures of a provider or the network are *data*: they end a stream with one ``error`` event. None of the classes above
leaves the iteration of a stream; :class:`StreamError` is the one way to turn such an ending into an exception.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pi_stream.messages import AssistantMessage, ToolCall

__all__ = [
    "ConfigError",
    "ContextOverflowError",
    "DecodeError",
    "InvalidOutputError",
    "InvalidToolCallError",
    "MissingExtraError",
    "MissingKeyError",
    "PiStreamError",
    "ProtocolViolation",
    "SerializationError",
    "StreamError",
    "TransportError",
]


class PiStreamError(Exception):
    """Base of every exception that pi_stream raises on purpose. Any other exception is a bug of ours."""


class ConfigError(PiStreamError):
    """A setting, key, provider or model that cannot work. The message says what is wrong and what to do."""


class ContextOverflowError(ConfigError):
    """The history cannot fit the model's context window. The message says how much it takes."""


class MissingExtraError(ConfigError):
    """An optional package is needed and not installed.

    Args:
        extra: Name of the extra of this distribution, such as ``"local"``.
        package: What is missing, in words a user knows.
        install: The command that installs it.
    """

    def __init__(self, extra: str, package: str, install: str) -> None:
        super().__init__(f"{package} is not installed. Install it with: {install}")
        self.extra = extra
        self.package = package
        self.install = install


class MissingKeyError(ConfigError):
    """A provider needs a key and there is none. The message names the environment variables."""


class InvalidToolCallError(PiStreamError):
    """A model's tool call that must not be carried out. Its text can be sent to the model as the result of the call.

    Args:
        call: The call.
        errors: What is wrong, each as ``path: message``.
        received: The arguments as they came.
    """

    def __init__(self, call: ToolCall, errors: Sequence[str], received: str) -> None:
        lines = "\n".join(f"- {error}" for error in errors)
        super().__init__(
            f"the call of tool {call.name!r} is not valid:\n{lines}\n\nreceived arguments:\n{received}"
        )
        self.call = call
        self.errors = list(errors)


class InvalidOutputError(PiStreamError):
    """An answer that is not the structured output that was asked for.

    Args:
        errors: What is wrong, each as ``path: message``.
        received: The text as it came.
    """

    def __init__(self, errors: Sequence[str], received: str) -> None:
        lines = "\n".join(f"- {error}" for error in errors)
        super().__init__(f"the answer is not what was asked for:\n{lines}\n\nreceived:\n{received}")
        self.errors = list(errors)
        self.received = received


class SerializationError(PiStreamError):
    """JSON that the message model does not allow.

    Args:
        message: What is wrong.
        path: JSON path of the value at fault, such as ``$.messages[2].content[0].text``.
    """

    def __init__(self, message: str, path: str = "$") -> None:
        super().__init__(f"{path}: {message}")
        self.path = path
        self.reason = message


class DecodeError(PiStreamError):
    """Bytes that break the wire format.

    Args:
        message: What is wrong, with a short excerpt where that helps.
        kind: ``"malformed"``, ``"too_large"`` or ``"protocol"``: the ``kind`` of the error cause it becomes.
        position: Offset in bytes or number of the item at fault, where known.
    """

    def __init__(self, message: str, *, kind: str = "malformed", position: int | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.position = position


class TransportError(PiStreamError):
    """The connection failed, was cut, or met a time limit.

    Args:
        message: What happened, without secrets.
        kind: The ``kind`` of the error cause it becomes: ``connect``, ``tls``, ``transport``, ``timeout_connect``,
            ``timeout_head``, ``timeout_first``, ``timeout_idle``, ``timeout_content``, ``timeout_total``, ``cancelled``.
    """

    def __init__(self, message: str, *, kind: str = "transport") -> None:
        super().__init__(message)
        self.kind = kind


class ProtocolViolation(PiStreamError):
    """A provider broke one of the stream guarantees.

    Args:
        rule: Number of the guarantee, as in ``docs/reference/events.md``.
        message: What the provider did.
    """

    def __init__(self, rule: int, message: str) -> None:
        super().__init__(f"guarantee {rule}: {message}")
        self.rule = rule


class StreamError(PiStreamError):
    """A stream that ended with an ``error`` event, for callers who asked for an exception.

    Args:
        message: The final message: ``stop_reason`` is ``error`` or ``aborted``, everything received is in it.
    """

    def __init__(self, message: AssistantMessage) -> None:
        super().__init__(message.error_message or message.stop_reason)
        self.message = message
