"""The parts in C; they are optional.

The kernels (`_kernels`) walk record boundaries, gather words, unroll chunks, pair calls, nest spans, and put strings
together.  Where the extension is missing, `python` stands in for it with the same results, and `IMPLEMENTATION` is
"python" instead of "c".  Neither knows a layout: shifts, masks and tables come from the declarations.  The kernels that
run programs over byte streams are used by `fxtio.mono.stream.kernels` only, which has their stand-ins; the ones for
plain events by `fxtio.fxt.plain` and `fxtio.fxt.cut.uses`, without which events are read as all records are.  All are
loaded on first use, since the tracer needs only the recorder (`_recorder`), which has no stand-in.
`extensions` says which extensions can be imported, and why others cannot.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fxtio._native.python import (
        choose_rows,
        copy_rows,
        distinct,
        gather,
        group_rows,
        interleave,
        late,
        list_slices,
        match,
        nest,
        pair,
        sum_rows,
        tally,
        unroll,
        walk,
        walk_chunks,
        walk_many,
        walk_payloads,
    )

    IMPLEMENTATION: str
    END: int
    ZERO: int
    PARTIAL: int
    FULL: int

_WALK_ENDS = ("END", "ZERO", "PARTIAL", "FULL")
"""The reasons why a walk stopped, see `fxtio._native.constants.WalkEnd`."""

_KERNELS = (
    "choose_rows", "copy_rows", "distinct", "gather", "group_rows", "interleave", "late", "list_slices", "match",
    "nest", "pair", "sum_rows", "tally", "unroll", "walk", "walk_chunks", "walk_many", "walk_payloads",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _WALK_ENDS:
        reasons = import_module("fxtio._native.constants").WalkEnd
        globals().update({reason.name: int(reason) for reason in reasons})
        return globals()[name]
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
    "choose_rows",
    "copy_rows",
    "distinct",
    "gather",
    "group_rows",
    "interleave",
    "late",
    "list_slices",
    "match",
    "nest",
    "pair",
    "sum_rows",
    "tally",
    "unroll",
    "walk",
    "walk_chunks",
    "walk_many",
    "walk_payloads",
]
