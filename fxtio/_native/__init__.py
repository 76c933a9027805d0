"""The kernels: walk record boundaries, gather words.

`_kernels` is C and optional; `python` is its twin, with the same results.  Neither knows a layout: shifts, masks and
tables come from the declarations.  `IMPLEMENTATION` says which one runs.
"""

from __future__ import annotations

try:
    from fxtio._native._kernels import gather, walk, walk_many

    IMPLEMENTATION = "c"
except ImportError:
    from fxtio._native.python import gather, walk, walk_many

    IMPLEMENTATION = "python"

END, ZERO, PARTIAL, FULL = range(4)
"""Why a walk stopped: at the end, at a record of size 0, at a record that goes beyond the end, with full output."""

__all__ = ["END", "FULL", "IMPLEMENTATION", "PARTIAL", "ZERO", "gather", "walk", "walk_many"]
