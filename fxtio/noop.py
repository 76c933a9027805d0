"""What `fxtio` offers a program where nothing can be recorded: it takes the same arguments, and does nothing.

It stands for the tracer where that cannot be imported: when Python shuts down, and in a handler of a signal that has
interrupted its import.  The first three stand for the recorder as well where the C extension is missing.
"""

from __future__ import annotations

from typing import Any


class Span:
    """A context manager that does nothing; all `with` blocks share one."""

    __slots__ = ()

    def __enter__(self) -> Span:
        return self

    def __exit__(self, *exception: object) -> None: ...

    def set(self, **args: object) -> None:
        """Ignore the arguments."""


_SPAN = Span()


def span(name: str, category: str = "", /, **args: object) -> Span:
    """Return a span that is not recorded."""
    return _SPAN


def instant(name: str, category: str = "", /, **args: object) -> None:
    """Do nothing."""


def counter(name: str, value: Any = None, category: str = "", /, **series: object) -> None:
    """Do nothing."""


def log(message: str, category: str = "log", /) -> None:
    """Do nothing."""


class flow:  # noqa: N801  # used like a function
    """An arrow that is not recorded."""

    __slots__ = ("id",)

    def __init__(self, name: str, category: str = "", /, *, id: int | None = None) -> None:
        self.id = id or 0

    def begin(self) -> None:
        """Do nothing."""

    step = end = begin


class operation(flow):  # noqa: N801  # used like a function
    """An operation that is not recorded."""

    __slots__ = ()

    def __init__(self, name: str, category: str = "", /, *, id: int | None = None, **args: object) -> None:
        super().__init__(name, category, id=id)

    def begin(self, **args: object) -> None:
        """Do nothing."""

    end = begin

    def instant(self, name: str, /, **args: object) -> None:
        """Do nothing."""


def trace(function: Any = None, /, **options: object) -> Any:
    """Return a function unchanged, or a decorator that does."""
    return trace if function is None else function


class tracing(Span):  # noqa: N801  # used like a function
    """Record nothing inside of a `with` block."""

    __slots__ = ()

    def __init__(self, output: object = None, **options: object) -> None: ...


def start(output: object = None, **options: object) -> Any:
    """Refuse to record.

    Raises:
        RuntimeError: always.
    """
    raise RuntimeError("Python is shutting down, or a signal has interrupted the import of the tracer")


def stop() -> None:
    """Return None: nothing is recorded."""


def dump(path: object = None) -> None:
    """Return None: nothing is recorded."""
