"""Google's Gemini api (https://ai.google.dev/gemini-api/docs/api-key).

The second key and the base URL are those that Google's own package google-genai reads.
"""

from __future__ import annotations

from pi_stream.providers.base import Provider

provider = Provider(
    "google",
    name="Google Gemini",
    api="google-generative-ai",
    base_url="https://generativelanguage.googleapis.com/v1beta",
    base_url_env="GOOGLE_GEMINI_BASE_URL",
    key_env=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    default_model="gemini-2.5-flash",
)
