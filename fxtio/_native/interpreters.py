"""Sub-interpreters: the recorder records only the main interpreter of a process.

`fxtio.pth` asks this module first, since a new interpreter may not be able to import what the tracer needs.
"""

from __future__ import annotations

from importlib import import_module

NOT_MAIN = "it records only the main interpreter of a process, and this is another one"
"""Why there is no recorder in a sub-interpreter."""


def is_main() -> bool:
    """Return whether the calling code runs in the main interpreter of the process."""
    for name in ("_interpreters", "_xxsubinterpreters"):  # its name from CPython 3.13 on, and before
        try:
            interpreters = import_module(name)
        except ImportError:
            continue
        return bool(interpreters.get_current() == interpreters.get_main())
    return True
