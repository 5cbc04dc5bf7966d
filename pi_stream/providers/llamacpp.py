"""llama.cpp (https://github.com/ggml-org/llama.cpp/tree/master/tools/server).

Source: its README: host, port, and the variable of the key.
"""

from __future__ import annotations

from pi_stream.providers.base import Provider

__all__ = ["provider"]

provider = Provider(
    "llamacpp",
    name="llama.cpp",
    base_url="http://127.0.0.1:8080/v1",
    key_env="LLAMA_API_KEY",
    key_required=False,
)
