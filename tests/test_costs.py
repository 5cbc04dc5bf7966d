"""What answers cost: a table that was worked out by hand from recorded answers, service tiers, and what providers bill.

Rates are USD per million tokens. Each row has the numbers of the body and the sum as one would write it on paper.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from answer_checks import message_of
from recording_checks import recordings

from pi_stream import AssistantMessage, Model, Usage
from pi_stream.usage import CostTier, ModelCost

CLAUDE = ModelCost(input=3, output=15, cache_read=0.3, cache_write=3.75)
M = 1_000_000

# Folder, recording, rates, usage (input, output, read, written, of these for an hour), cost in millionths of a dollar.
BY_HAND: list[tuple[str, str, ModelCost, tuple[int, int, int, int, int], float]] = [
    # 4 * 3 + 201 * 15 + 1165 * 3.75 = 12 + 3015 + 4368.75
    ("anthropic-messages", "anthropic-claude-3-5-sonnet-cache", CLAUDE, (4, 201, 0, 1165, 0), 7395.75),
    # 4 * 3 + 256 * 15 + 1167 * 0.3 = 12 + 3840 + 350.1
    ("anthropic-messages", "anthropic-claude-3-5-sonnet-cache-2", CLAUDE, (4, 256, 1167, 0, 0), 4202.1),
    # 3 * 3 + 6 * 15 + 10 * 3.75 + 3259 * 6 = 9 + 90 + 37.5 + 19554: an hour costs twice the input
    ("anthropic-messages", "anthropic-claude-sonnet-4-6-cache-2", CLAUDE, (3, 6, 0, 3269, 3259), 19690.5),
    # 6 * 2 + 198 * 10 + 6289 * 0.2 + 3337 * 2.5 = 12 + 1980 + 1257.8 + 8342.5
    (
        "anthropic-messages",
        "anthropic-claude-sonnet-5-code-execution",
        ModelCost(input=2, output=10, cache_read=0.2, cache_write=2.5),
        (6, 198, 6289, 3337, 0),
        11592.3,
    ),
    # 11 * 3 + 236 * 15 + 1028 * 3.75 = 33 + 3540 + 3855
    (
        "bedrock-converse-stream",
        "amazon-bedrock-claude-3-7-sonnet-cache-2",
        CLAUDE,
        (11, 236, 0, 1028, 0),
        7428,
    ),
    # (377 - 256) * 0.14 + 40 * 0.28 + 256 * 0.0028 = 16.94 + 11.2 + 0.7168
    (
        "openai-completions",
        "deepseek-deepseek-v4-flash-tool",
        ModelCost(input=0.14, output=0.28, cache_read=0.0028),
        (121, 40, 256, 0, 0),
        28.8568,
    ),
    # 3737 tokens are more than 3000, so the tier holds: (3737 - 2304) * 0.5 + 621 * 4 + 2304 * 0.05 = 716.5 + 2484 + 115.2
    (
        "openai-responses",
        "azure-openai-gpt-5-mini-annotations",
        ModelCost(
            input=0.25,
            output=2,
            cache_read=0.025,
            tiers=(
                CostTier(input_tokens_above=3000, input=0.5, output=4, cache_read=0.05),
                CostTier(input_tokens_above=4000, input=9, output=9, cache_read=9),
            ),
        ),
        (1433, 621, 2304, 0, 0),
        3315.7,
    ),
    # 559 * 0.3 + (2 + 194 thought) * 2.5 = 167.7 + 490
    (
        "google-generative-ai",
        "google-gemini-3-5-flash-document",
        ModelCost(input=0.3, output=2.5),
        (559, 196, 0, 0, 0),
        657.7,
    ),
    # (148 - 128) * 0.1 + 19 * 0.1 + 128 * 0.01 = 2 + 1.9 + 1.28
    (
        "mistral",
        "mistral-ministral-3b-latest-parallel-tools",
        ModelCost(input=0.1, output=0.1, cache_read=0.01),
        (20, 19, 128, 0, 0),
        5.18,
    ),
    # Of 1698 tokens in and 66 out it bills 181 and 34: 181 * 2.5 + 34 * 10 = 452.5 + 340
    (
        "cohere",
        "cohere-command-a-03-2025-tool",
        ModelCost(input=2.5, output=10),
        (82, 66, 1616, 0, 0),
        792.5,
    ),
    # 1295 * 0.05 + 138 * 0.4 = 64.75 + 55.2
    (
        "ollama-native",
        "ollama-qwen3-4b-after-tool",
        ModelCost(input=0.05, output=0.4),
        (1295, 138, 0, 0, 0),
        119.95,
    ),
]
APIS = {"mistral": "mistral-conversations", "cohere": "cohere-chat", "ollama-native": "ollama"}


def recorded(shared: Path, folder: str, name: str, rates: ModelCost) -> AssistantMessage:
    """The message of a recording, from a model with these rates."""
    (recording,) = (
        each for each in recordings(shared, folder, APIS.get(folder, folder)) if each.name == name
    )
    case = recording.case
    model = Model(id=case["model"], provider=case["provider"], api=APIS.get(folder, folder), cost=rates)
    return message_of(recording.body, model)


@pytest.mark.parametrize(
    ("folder", "name", "rates", "parts", "cost"), BY_HAND, ids=[row[1] for row in BY_HAND]
)
def test_usage_and_cost_worked_out_by_hand(
    shared: Path, folder: str, name: str, rates: ModelCost, parts: tuple[int, int, int, int, int], cost: float
) -> None:
    usage = recorded(shared, folder, name, rates).usage
    input, output, read, written, long = parts
    assert (usage.input, usage.output, usage.cache_read, usage.cache_write) == (input, output, read, written)
    assert (usage.cache_write_1h or 0) == long
    assert usage.total_tokens == input + output + read + written
    assert usage.quality == "reported"
    assert usage.cost.total * M == pytest.approx(cost)
    assert usage.cost.total_from_provider is False


# What providers say they bill: in USD, and as often the price of their rates, which shows that we read both right.
BILLED = [
    # 626 * 1 + 106 * 5 = 1156
    ("openai-completions", "openrouter-claude-haiku-4-5-tool", ModelCost(input=1, output=5), 0.001156, 1156),
    # (687 - 679) * 3 + 187 * 15 + 679 * 0.75 = 24 + 2805 + 509.25
    (
        "openai-completions",
        "openrouter-grok-4-reasoning",
        ModelCost(input=3, output=15, cache_read=0.75),
        0.00333825,
        3338.25,
    ),
    # 6055500 ticks; 211 * 1.25 + 106 * 2.5 + 384 * 0.2 = 263.75 + 265 + 76.8
    (
        "openai-responses",
        "xai-grok-4-3-tool",
        ModelCost(input=1.25, output=2.5, cache_read=0.2),
        0.00060555,
        605.55,
    ),
    # 1487000 ticks; (361 - 360) * 0.2 + (26 + 235 thought) * 0.5 + 360 * 0.05 = 0.2 + 130.5 + 18
    (
        "openai-completions",
        "xai-grok-4-fast-reasoning-tool",
        ModelCost(input=0.2, output=0.5, cache_read=0.05),
        0.0001487,
        148.7,
    ),
]


@pytest.mark.parametrize(
    ("folder", "name", "rates", "billed", "priced"), BILLED, ids=[row[1] for row in BILLED]
)
def test_what_a_provider_bills(
    shared: Path, folder: str, name: str, rates: ModelCost, billed: float, priced: float
) -> None:
    """The total is the bill, and marked so; the parts are those of the rates."""
    cost = recorded(shared, folder, name, rates).usage.cost
    assert (cost.total, cost.total_from_provider) == (pytest.approx(billed), True)
    assert (cost.input + cost.output + cost.cache_read + cost.cache_write) * M == pytest.approx(priced)


# --- answers made for it ----------------------------------------------------------------------------------------------


def chat(usage: dict[str, Any], **fields: Any) -> bytes:
    """A chat answer with this usage."""
    chunk = {"id": "c", "choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": "stop"}]}
    last = {"id": "c", "choices": [], "usage": usage, **fields}
    return b"".join(f"data: {json.dumps(each)}\n\n".encode() for each in (chunk, last)) + b"data: [DONE]\n\n"


def chat_usage_of(
    usage: dict[str, Any], model: Model, fields: dict[str, Any] | None = None, **options: Any
) -> Usage:
    return message_of(chat(usage, **(fields or {})), model, **options).usage


TOKENS = {"prompt_tokens": 1000, "completion_tokens": 100}
RATES = ModelCost(input=1, output=10)


def asked(provider: str, id: str = "m", base_url: str = "", api: str = "openai-completions") -> Model:
    return Model(id=id, provider=provider, api=api, cost=RATES, base_url=base_url)


@pytest.mark.parametrize(
    ("tier", "wanted", "id", "factor"),
    [
        (None, None, "m", 1),
        ("default", "flex", "m", 1),  # the tier that answered counts
        ("flex", None, "m", 0.5),
        ("priority", None, "m", 2),
        (None, "priority", "m", 2),  # else the one that was asked for
        ("priority", None, "gpt-5.5", 2.5),
        (7, None, "m", 1),
    ],
)
def test_service_tiers_of_chat(tier: Any, wanted: str | None, id: str, factor: float) -> None:
    """OpenAI's tiers multiply all parts. Other vendors' tiers of the same name cost what they cost."""
    fields = {"service_tier": tier} if tier is not None else {}
    usage = chat_usage_of(TOKENS, asked("openai", id), fields, service_tier=wanted)
    assert usage.cost.total * M == pytest.approx(2000 * factor)
    assert usage.cost.input * M == pytest.approx(1000 * factor)
    other = chat_usage_of(TOKENS, asked("groq", id), fields, service_tier=wanted)
    assert other.cost.total * M == pytest.approx(2000)


@pytest.mark.parametrize(
    ("reported", "total"),
    [
        ({"cost": 0.5, "is_byok": False}, 0.5),
        ({"cost": 0.5}, None),
        ({"cost": 0, "is_byok": False}, 0),
        ({"cost": 0.1, "is_byok": True, "cost_details": {"upstream_inference_cost": 0.4}}, 0.5),
        (
            {
                "cost": 0.1,
                "is_byok": True,
                "cost_details": {
                    "upstream_inference_cost": None,
                    "upstream_inference_prompt_cost": 0.2,
                    "upstream_inference_completions_cost": 0.3,
                },
            },
            0.6,
        ),
        ({"cost": 0.1, "is_byok": True, "cost_details": {"upstream_inference_cost": "x"}}, None),
        ({"cost": 0.1, "is_byok": True}, None),
        ({"cost": -1, "is_byok": False}, None),
        ({"cost": True, "is_byok": False}, None),
        ({"cost": "1"}, None),
        ({}, None),
    ],
)
def test_bills_of_openrouter(reported: dict[str, Any], total: float | None) -> None:
    """By provider id or by host, in chat and in Anthropic's protocol; what is not a bill changes nothing."""
    for model in (asked("openrouter"), asked("mine", base_url="https://openrouter.ai/api/v1")):
        cost = chat_usage_of(TOKENS | reported, model).cost
        assert cost.total == pytest.approx(0.002 if total is None else total)
        assert cost.total_from_provider is (total is not None)
        claude = Model(
            id="m", provider=model.provider, base_url=model.base_url, api="anthropic-messages", cost=RATES
        )
        anthropic = message_of(
            messages({"input_tokens": 1000, "output_tokens": 100} | reported), claude
        ).usage.cost
        assert anthropic.total == pytest.approx(cost.total)
        assert anthropic.total_from_provider is cost.total_from_provider
    assert chat_usage_of(TOKENS | reported, asked("acme")).cost.total_from_provider is False


def messages(usage: dict[str, Any]) -> bytes:
    """An answer in Anthropic's protocol with this usage."""
    events: list[dict[str, Any]] = [
        {
            "type": "message_start",
            "message": {"id": "msg", "model": "m", "content": [], "usage": {"input_tokens": 1}},
        },
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "x"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage},
        {"type": "message_stop"},
    ]
    return b"".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n".encode() for each in events)


@pytest.mark.parametrize(
    ("provider", "reported", "total"),
    [
        ("xai", {"cost_in_usd_ticks": 37_756_000}, 0.0037756),
        ("xai", {"cost_in_usd_ticks": None}, None),
        ("acme", {"cost_in_usd_ticks": 37_756_000}, None),
        (
            "perplexity",
            {"cost": {"input_tokens_cost": 0.001, "request_cost": 0.005, "total_cost": 0.006}},
            0.006,
        ),
        ("perplexity", {"cost": {}}, None),
        ("perplexity", {"cost": 0.5}, None),
        ("acme", {"cost": {"total_cost": 0.006}}, None),
    ],
)
def test_bills_of_others(provider: str, reported: dict[str, Any], total: float | None) -> None:
    """xAI counts in ticks, Perplexity adds a price for each request; nobody else is believed."""
    cost = chat_usage_of(TOKENS | reported, asked(provider)).cost
    assert cost.total == pytest.approx(0.002 if total is None else total)
    assert cost.total_from_provider is (total is not None)
