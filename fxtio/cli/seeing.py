"""The lines behind the answers of a command that say how to see them, and how to share them."""

from __future__ import annotations

import re
import shlex
import sys
from argparse import Namespace

from fxtio.cli.common import selection_arguments
from fxtio.report import short_seconds


def suggest_open(file: str, name: str | None, *, after: int | None = None, options: Namespace | None = None) -> None:
    """Print on standard error, if that is a terminal, the command that shows a slice.

    Nothing is printed for standard input, nor for names that cannot be typed.

    Args:
        file: the trace, as it was given on the command line.
        name: the name of the slice; None prints nothing.
        after: the time of the slice in nanoseconds after the first event; None for the longest slice.
        options: the parsed arguments whose selection of a part is to be shown, see `add_selection`.
    """
    if name is None:
        return
    words = ["open", file, f"--select={pattern_of(name)}"]
    if after is not None:
        words.append(f"--at={short_seconds(after)}s")
    if options is not None:
        words += selection_arguments(options)
    _suggest("see", file, words)


def suggest_report(options: Namespace) -> None:
    """Print, as `suggest_open` does, the command that writes a page about the same part of the trace.

    Args:
        options: the parsed arguments, with the trace and the selection of a part.
    """
    _suggest("share", options.file, ["report", options.file, *selection_arguments(options)])


def _suggest(purpose: str, file: str, words: list[str]) -> None:
    command = shlex.join(["fxtio", *words])
    if sys.stderr is not None and sys.stderr.isatty() and file != "-" and command.isprintable():
        sys.stdout.flush()
        print(f"fxtio: to {purpose} it: {command}", file=sys.stderr)


def pattern_of(name: str) -> str:
    """Return a pattern that matches a name, and as few others as possible."""
    escaped = re.sub(r"([*?[])", r"[\1]", name)
    return f"?{escaped[1:]}" if escaped.startswith("!") else escaped
