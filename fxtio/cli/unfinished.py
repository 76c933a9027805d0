"""Recordings that have not ended, or were killed: commands find them by their final names, and say so."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

from fxtio.fxt.unfinished import HEAD_BYTES, Chunks
from fxtio.io.source import COMPRESSION_SUFFIXES
from fxtio.report import printable

_TRACES = ("file", "files", "baseline", "diff")
"""The arguments of commands that are traces to read."""


def use_unfinished(options: Namespace) -> None:
    """Replace names of traces by those of the files that are recorded to, where only these exist.

    It says which are such, unless the command follows a recording that is not finished.

    Args:
        options: the parsed arguments of a command.
    """
    says = not getattr(options, "live", False)
    for argument, value in vars(options).items():
        if argument in _TRACES and isinstance(value, str):
            setattr(options, argument, _existing(value, says=says))
        elif argument in _TRACES and isinstance(value, list):
            setattr(
                options, argument, [_existing(file, says=says) if isinstance(file, str) else file for file in value]
            )


def _existing(name: str, *, says: bool) -> str:
    """Return the name of a trace, or that of the file to which it is recorded before it is compressed."""
    path = Path(name)
    part = path.with_name(f"{path.name}.part") if path.suffix in COMPRESSION_SUFFIXES else path
    try:
        if part != path and not path.exists() and part.is_file():
            if says:
                _say(f"there is no {printable(name)} yet, so {printable(part.name)} is read: {_reason(name)}")
            return str(part)
        if says and path.is_file() and _is_unfinished(path):
            _say(f"{printable(name)} is not finished: {_reason(name)}")
    except (OSError, ValueError):  # the command will say what is wrong with the name
        pass
    return name


def _is_unfinished(path: Path) -> bool:
    with open(path, "rb") as file:
        return Chunks.of(file.read(HEAD_BYTES)) is not None


def _reason(name: str) -> str:
    return f"its program still runs, or was killed; after that, `fxtio recover {printable(name)}` finishes it"


def _say(message: str) -> None:
    print(f"fxtio: {message}", file=sys.stderr)
