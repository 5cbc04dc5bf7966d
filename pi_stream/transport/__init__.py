"""Transports: what sends a request and gives the bytes of the answer, behind one small protocol."""
