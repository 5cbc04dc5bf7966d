"""Amazon Bedrock's Converse stream: one api for the models of many vendors, in binary frames.

Source: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html
"""

from __future__ import annotations

from pi_stream.apis.base import Api
from pi_stream.apis.bedrock.request import build_request
from pi_stream.apis.bedrock.response import ConverseTranslator

__all__ = ["api"]

api = Api(
    id="bedrock-converse-stream",
    framing="eventstream",
    build_request=build_request,
    translator=ConverseTranslator,
)
