"""The files of a data directory, and nothing else.

A name is opened only if it is that of a regular file right in the directory: no name that leads elsewhere, no link, no
pipe.  So whatever a hostile trace says, nothing outside of it is read, and nothing waits.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fxtio.finding import Findings

MOST_TEXT = 1 << 26
"""The most bytes of a file that is read whole."""

_HEAD = 8192
_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def is_plain(name: str) -> bool:
    """Whether it can be the name of a file in a directory."""
    return bool(name) and name not in (".", "..") and not any(sign in name for sign in ("/", "\\", "\0"))


class Directory:
    """A data directory, opened for reading.

    Args:
        path: where it is.

    Attributes:
        path: where it is.
        names: its regular files, sorted by name.
        others: what else it holds; never opened.

    Raises:
        OSError: it cannot be listed.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        with os.scandir(self.path) as found:
            entries = [(entry.name, entry.is_file(follow_symlinks=False)) for entry in found]
        self.names = sorted(name for name, regular in entries if regular)
        self.others = sorted(name for name, regular in entries if not regular)
        self._known = frozenset(self.names)

    def __contains__(self, name: str) -> bool:
        return name in self._known

    def open(self, name: str) -> int:
        """A descriptor for reading a file; the caller closes it.

        Raises:
            OSError: there is no such regular file.
        """
        if name not in self._known or not is_plain(name):
            raise FileNotFoundError(f"{name!r} is no file of {self.path}")
        descriptor = os.open(self.path / name, _FLAGS)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise FileNotFoundError(f"{name!r} is no regular file")
        return descriptor

    def size(self, name: str) -> int:
        """The size of a file in bytes; 0 if there is none."""
        return (self.path / name).lstat().st_size if name in self._known else 0

    def head(self, name: str) -> bytes:
        """The first bytes of a file."""
        with os.fdopen(self.open(name), "rb") as file:
            return file.read(_HEAD)

    def pieces(self, name: str, size: int = 1 << 20) -> Iterator[bytes]:
        """A file in pieces of a size, of which only the last one is shorter; nothing if there is no such file."""
        if name in self._known:
            with os.fdopen(self.open(name), "rb") as file:
                while piece := file.read(size):
                    yield piece

    def read(self, name: str, findings: Findings | None = None) -> bytes:
        """A whole file; empty if there is none.  What is beyond `MOST_TEXT` is left out, and told."""
        if name not in self._known:
            return b""
        with os.fdopen(self.open(name), "rb") as file:
            raw = file.read(MOST_TEXT + 1)
        if len(raw) > MOST_TEXT:
            raw = raw[:MOST_TEXT]
            if findings is not None:
                findings.add("file-too-large", MOST_TEXT, f"only {MOST_TEXT:,} bytes of it are read", file=name)
        return raw


@dataclass(frozen=True, slots=True)
class Stored:
    """A file of a directory that is left as it is.

    Attributes:
        directory: where it is.
        name: the file.
    """

    directory: Directory
    name: str

    def pieces(self) -> Iterator[bytes]:
        """Its content, piece by piece."""
        return self.directory.pieces(self.name)


def to_lines(raw: bytes) -> list[str]:
    """The lines of a text file; an empty last one stands for the line end in front of it."""
    return raw.decode("utf-8", "surrogateescape").split("\n")


def from_lines(lines: list[str]) -> bytes:
    """The way back."""
    return "\n".join(lines).encode("utf-8", "surrogateescape")
