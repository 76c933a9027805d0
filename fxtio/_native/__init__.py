"""What is written in C, each with a twin in Python; C is optional.

The kernels walk record boundaries, gather words, unroll chunks, pair calls and run programs over byte streams:
`_kernels` is C, `python` and `events` its twin, with the same results.  Neither knows a layout: shifts, masks, tables
and programs come from the declarations.  `IMPLEMENTATION` says which one runs.  They are loaded on first use: the
tracer needs only the recorder (`_recorder`; its twin is `fxtio.tracer.recorder`).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fxtio._native.python import (
        distinct,
        fill_stream,
        gather,
        pack_stream,
        pair,
        scan_stream,
        sum_rows,
        unroll,
        walk,
        walk_chunks,
        walk_many,
        walk_payloads,
    )

    IMPLEMENTATION: str

END, ZERO, PARTIAL, FULL = range(4)
"""Why a walk stopped: at the end, at a record of size 0, at a record that goes beyond the end, with full output."""

_KERNELS = (
    "distinct", "fill_stream", "gather", "pack_stream", "pair", "scan_stream", "sum_rows", "unroll", "walk",
    "walk_chunks", "walk_many", "walk_payloads",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in (*_KERNELS, "IMPLEMENTATION"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        kernels, implementation = import_module("fxtio._native._kernels"), "c"
    except ImportError:
        kernels, implementation = import_module("fxtio._native.python"), "python"
    globals().update({kernel: getattr(kernels, kernel) for kernel in _KERNELS}, IMPLEMENTATION=implementation)
    return globals()[name]


__all__ = [
    "END",
    "FULL",
    "IMPLEMENTATION",
    "PARTIAL",
    "ZERO",
    "distinct",
    "fill_stream",
    "gather",
    "pack_stream",
    "pair",
    "scan_stream",
    "sum_rows",
    "unroll",
    "walk",
    "walk_chunks",
    "walk_many",
    "walk_payloads",
]
