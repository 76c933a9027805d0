"""`python -m fxtio`."""

from __future__ import annotations

import sys

from fxtio.cli import main

sys.exit(main())
