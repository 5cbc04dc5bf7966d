"""The engine: from bytes to events (:mod:`~pi_stream.engine.pipeline`), and from a request to a stream."""
