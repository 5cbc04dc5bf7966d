"""Prompts that did not fit: one example of its own for each way in which providers say so, and what must not be taken for one."""

from __future__ import annotations

from pathlib import Path

import pytest
from recording_checks import recordings

from pi_stream import AssistantMessage, Usage, decode, is_context_overflow
from pi_stream.messages import ErrorCause
from pi_stream.overflow import says_overflow
from pi_stream.wire import json

# Family of providers, and a message in its words.
WORDS = [
    ("Anthropic", "prompt is too long: 210045 tokens > 200000 maximum"),
    ("Z.ai", "Prompt too long, please start a new chat"),
    ("Z.ai in China", "Prompt exceeds max length"),
    ("Anthropic, bytes", "request_too_large: the body must be below 32 MB"),
    ("Bedrock", "Input is too long for requested model."),
    ("OpenAI", "Your input exceeds the context window of this model."),
    (
        "OpenAI, before",
        "This model's maximum context length is 8192 tokens. However, you asked for 9000 tokens.",
    ),
    ("LiteLLM", "The input exceeds the model's maximum context length of 4096 tokens"),
    ("LiteLLM, in brackets", "7000 tokens exceeds maximum context length (4096)"),
    ("LiteLLM, its own", "litellm.ContextWindowExceededError: Context window exceeded"),
    ("Google", "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."),
    ("xAI", "This model's maximum prompt length is 131072 but the request contains 200000 tokens."),
    ("Groq", "Please reduce the length of the messages or completion."),
    ("OpenRouter", "This endpoint's maximum context length is 131,072 tokens."),
    ("OpenRouter, input", "The request exceeds the maximum allowed input length of 30000 tokens"),
    ("Together", "The input (9000 tokens) is longer than the model's context length (8192 tokens)."),
    ("GitHub Copilot", "prompt token count of 70000 exceeds the limit of 64000"),
    ("llama.cpp", "the request exceeds the available context size, try increasing it"),
    ("LM Studio", "tokens to keep from the initial prompt is greater than the context length"),
    ("MiniMax", "invalid params, context window exceeds limit"),
    ("Kimi", "Invalid request: your request exceeded model token limit: 262144"),
    ("Mistral", "Prompt contains 40000 tokens, too large for model with 32768 maximum context length"),
    ("DS4", "prompt has 9000 tokens, but the configured context size is 8192 tokens"),
    ("Z.ai, stop value", "Provider stopped with: model_context_window_exceeded"),
    ("Ollama", "prompt too long; exceeded max context length by 812 tokens"),
    ("Ollama, short", "exceeded context length"),
    ("Qwen", "Range of input length should be [1, 129024]"),
    ("Perplexity", "The total length of all messages is too long."),
    ("code", "context_length_exceeded"),
    ("code in words", "context length exceeded"),
    ("Cohere", "too many tokens: size limit exceeded by 25836 tokens"),
    ("any", "token limit exceeded"),
]

# Errors of other kinds that speak of tokens, lengths and limits.
ORDINARY = [
    "ThrottlingException: Too many tokens, please wait before trying again.",
    "Throttling error: too many tokens per minute",
    "ServiceUnavailableException: Bedrock is unable to process your request, too many tokens",
    "Rate limit reached: 200000 tokens per minute, too many tokens",
    "Too many requests, prompt is too long to queue",
    "max_tokens: 100000 exceeds the maximum of 8192",
    "image exceeds the maximum size of 5 MB",
    "number of tools exceeds the limit of 128",
    "Invalid API key provided.",
    "The model `x` does not exist",
    "messages.0: tool_use ids must be unique",
    "The string field `name` is too long",
    "Internal server error",
    "",
]


def failed(words: str, provider: str = "acme", cause: ErrorCause | None = None) -> AssistantMessage:
    return AssistantMessage(
        provider=provider, stop_reason="error", error_message=words, error_cause=cause, timestamp=0
    )


@pytest.mark.parametrize(("family", "words"), WORDS)
def test_words_of_each_family(family: str, words: str) -> None:
    """As an error body it is one of the kind overflow, which no retry helps; and a stored message is recognised too."""
    body = json.dumps({"error": {"message": words, "type": "invalid_request_error"}})
    (event,) = decode(body, api="openai-completions", status=400)
    assert event.type == "error"
    cause = event.error.error_cause
    assert cause is not None
    assert (cause.kind, cause.overflow, cause.retryable, cause.status) == ("overflow", True, False, 400)
    assert is_context_overflow(event.error)
    assert is_context_overflow(failed(words))


@pytest.mark.parametrize("words", ORDINARY)
def test_ordinary_errors_are_none(words: str) -> None:
    assert not says_overflow(words)
    assert not is_context_overflow(failed(words))
    body = json.dumps({"error": {"message": words, "type": "invalid_request_error"}})
    (event,) = decode(body, api="openai-completions", status=400)
    assert event.type == "error"
    assert event.error.error_cause is not None
    assert event.error.error_cause.kind != "overflow"


def test_throttling_is_no_overflow_whatever_it_says() -> None:
    """Status 429 is about how much at once."""
    body = json.dumps({"error": {"message": "too many tokens: prompt is too long"}})
    (event,) = decode(body, api="openai-completions", status=429)
    assert event.type == "error"
    assert event.error.error_cause is not None
    assert event.error.error_cause.kind == "rate_limit"
    assert not is_context_overflow(event.error)


@pytest.mark.parametrize(
    ("words", "provider", "overflow"),
    [
        ("413 Request Entity Too Large", "acme", True),
        ("Acme API error (413): too big", "acme", True),
        ("Acme API error (412): too big", "acme", False),
        ("4130 things went wrong", "acme", False),
        ("400 status code (no body)", "cerebras", True),
        ("413 (no body)", "cerebras", True),
        ("400 status code (no body)", "acme", False),
        ("500 status code (no body)", "cerebras", False),
    ],
)
def test_statuses_in_messages_of_other_libraries(words: str, provider: str, overflow: bool) -> None:
    assert is_context_overflow(failed(words, provider)) is overflow


def test_the_cause_counts_before_the_words() -> None:
    """What the engine knows of an error needs no reading."""
    assert is_context_overflow(failed("no", cause=ErrorCause(kind="overflow", overflow=True)))


def answered(stop: str, usage: Usage, raw: str | None = None) -> AssistantMessage:
    return AssistantMessage(stop_reason=stop, usage=usage, raw_stop_reason=raw, timestamp=0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("stop", "usage", "overflow"),
    [
        ("stop", Usage(input=1001, output=5), True),  # more was sent than there is room for: it was cut
        ("stop", Usage(input=600, cache_read=401, output=5), True),
        ("stop", Usage(input=1000, output=5), False),
        ("length", Usage(input=990), True),  # no room was left for an answer
        ("length", Usage(input=500, cache_read=490), True),
        ("length", Usage(input=989), False),
        ("length", Usage(input=990, output=1), False),
        ("toolUse", Usage(input=2000, output=5), False),
        ("aborted", Usage(input=2000), False),
    ],
)
def test_silent_overflow_needs_the_window(stop: str, usage: Usage, overflow: bool) -> None:
    """Some servers cut the prompt without a word; the usage gives it away, where the window is known."""
    message = answered(stop, usage)
    assert is_context_overflow(message, 1000) is overflow
    assert not is_context_overflow(message)
    assert not is_context_overflow(message, 0)


def test_an_answer_cut_by_the_window() -> None:
    """Anthropic's stop value: the answer is good as far as it goes, and there is no room for another."""
    assert is_context_overflow(answered("length", Usage(output=5), "model_context_window_exceeded"))
    assert not is_context_overflow(answered("length", Usage(output=5), "max_tokens"))


FOLDERS = {
    "anthropic-messages": "anthropic-messages",
    "bedrock-converse-stream": "bedrock-converse-stream",
    "cohere": "cohere-chat",
    "google-generative-ai": "google-generative-ai",
    "mistral": "mistral-conversations",
    "ollama-native": "ollama",
    "openai-completions": "openai-completions",
    "openai-responses": "openai-responses",
}
# Recordings of prompts that were too long, besides those whose name says so.
TOO_LONG = {"cohere-command-a-03-2025-http-400", "perplexity-sonar-http-400", "openai-gpt-5-nano-http-400"}


@pytest.mark.parametrize("folder", FOLDERS)
def test_recordings(shared: Path, folder: str) -> None:
    """Recorded replies to prompts that were too long are recognised, no other answer is."""
    for recording in recordings(shared, folder, FOLDERS[folder]):
        expected = "error-context" in recording.name or recording.name in TOO_LONG
        last = recording.decode()[-1]
        message = last.error if last.type == "error" else last.message  # type: ignore[union-attr]
        assert is_context_overflow(message) is expected, f"{recording.name}: {message.error_message}"
