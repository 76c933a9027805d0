"""The parts in C; they are optional.

The kernels (`_kernels`) walk record boundaries, gather words, unroll chunks, pair calls, nest spans, and put strings
together.  Where the extension is missing, `python` stands in for it with the same results, and `IMPLEMENTATION` is
"python" instead of "c".  Neither knows a layout: shifts, masks and tables come from the declarations.  Four kernels,
at the end of `python`, have no stand-in: without C, the modules that call them do their work in another way.  All are
loaded on first use, since the tracer needs only the recorder (`_recorder`), which is in C only.
`extensions` says which extensions can be imported, and why others cannot.

A new kernel is a line in the list of `kernels.h`, a function in C, and its stand-in, in `python` or in a module from
which that imports everything.  Only the stand-in says what the arguments are, to readers and to type checkers.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fxtio._native.python import *

    IMPLEMENTATION: str


def __getattr__(name: str) -> Any:
    from importlib.util import find_spec

    if name.startswith("_") or find_spec(f"{__name__}.{name}"):  # a module, which the import statement looks for here
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        kernels, implementation = import_module("fxtio._native._kernels"), "c"
    except ImportError:
        kernels, implementation = import_module("fxtio._native.python"), "python"
    globals()[name] = implementation if name == "IMPLEMENTATION" else getattr(kernels, name)
    return globals()[name]
