"""``python -m pi_stream.cli`` is ``pi-stream``."""

from __future__ import annotations

import sys

from pi_stream.cli import main

if __name__ == "__main__":
    sys.exit(main())
