"""The C extensions, which are optional: the kernels, with stand-ins in Python, and the recorder of the tracer.

The kernels walk record boundaries, gather words, unroll chunks and pair calls: `_kernels` is C, `python` its twin, with
the same results.  Neither knows a layout: shifts, masks and tables come from the declarations.  The kernels that run
programs over byte streams are in C only; `fxtio.mono.stream.kernels` has their stand-ins.  `IMPLEMENTATION` says which
one runs.  They are loaded on first use: the tracer needs only the recorder (`_recorder`), which has no stand-in.
`extensions` says which extensions can be imported, and why others cannot.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fxtio._native.constants import WalkEnd

if TYPE_CHECKING:
    from fxtio._native.python import (
        distinct,
        gather,
        pair,
        tally,
        unroll,
        walk,
        walk_chunks,
        walk_many,
        walk_payloads,
    )

    IMPLEMENTATION: str

END, ZERO, PARTIAL, FULL = map(int, WalkEnd)
"""Why a walk stopped, see `WalkEnd`."""

_KERNELS = (
    "distinct", "gather", "pair", "tally", "unroll", "walk", "walk_chunks", "walk_many", "walk_payloads",
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
    "gather",
    "pair",
    "tally",
    "unroll",
    "walk",
    "walk_chunks",
    "walk_many",
    "walk_payloads",
]
