"""`python -m tether`."""

from __future__ import annotations

import sys

from tether.cli import main

if __name__ == "__main__":  # a worker process that is spawned imports this file again
    sys.exit(main())
