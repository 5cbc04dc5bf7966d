"""GitHub Copilot (https://docs.github.com/en/copilot).

With a token that is given as key; there is no login. Without the headers, which are those of an editor, it refuses.

Source: npm @earendil-works/pi-ai 1.6.0.
"""

from __future__ import annotations

from pi_stream.providers.base import Provider

__all__ = ["provider"]

provider = Provider(
    "github-copilot",
    name="GitHub Copilot",
    base_url="https://api.individual.githubcopilot.com",
    key_env="COPILOT_GITHUB_TOKEN",
    headers={
        "Editor-Version": "vscode/1.107.0",
        "Editor-Plugin-Version": "copilot-chat/0.35.0",
        "Copilot-Integration-Id": "vscode-chat",
    },
    quirks={
        "supports_store": False,
        "supports_strict_mode": True,
    },
)
