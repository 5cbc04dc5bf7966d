"""Decoders: bytes of a body in, chunks out. No I/O, no clock, no await.

====================================  =======================================================================
:mod:`pi_stream.wire.sse`             ``text/event-stream``, as most providers stream
:mod:`pi_stream.wire.ndjson`          one JSON value a line (Ollama)
:mod:`pi_stream.wire.eventstream`     ``application/vnd.amazon.eventstream``, binary frames (Bedrock)
:mod:`pi_stream.wire.json`            the one place where JSON text becomes objects and back
====================================  =======================================================================

What holds for every decoder here:

- However the bytes are cut, the results are the same, and the work is linear in the number of bytes.
- Memory is bounded by a limit given to the constructor.
- Arbitrary bytes raise :class:`pi_stream.exceptions.DecodeError` or nothing. Any other exception is a bug.
- An error loses nothing: what was complete before it is returned, and the next call raises. When nothing was complete
  before it, the call itself raises. From then on every call raises the same error.
"""
