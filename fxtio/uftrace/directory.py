"""The files of a data directory, and nothing outside of it.

A file is opened only if it is a regular file directly in the directory: never through a path with separators, a link or
a pipe.  So no name in a hostile trace makes fxtio read another file or wait.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from fxtio.codec import integers
from fxtio.errors import EncodeError
from fxtio.finding import Findings

MAX_WHOLE_FILE = 1 << 26
"""The largest number of bytes of a file that is read as a whole."""

_HEAD = 8192
_SEPARATORS = frozenset({"/", os.sep, os.altsep or "/", "\0"})
_MAX_NAME = 255
_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def is_file_name(name: str) -> bool:
    """Return whether a text can be the name of a file in a directory."""
    try:
        size = len(name.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:
        return False
    separated = any(character in name for character in _SEPARATORS)
    return 0 < size <= _MAX_NAME and name not in (".", "..") and not separated


class Directory:
    """A data directory, opened for reading.

    Args:
        path: the directory.

    Attributes:
        path: the directory.
        names: the names of its regular files, sorted.
        others: the names of everything else in it, which is never opened.

    Raises:
        OSError: the directory cannot be listed.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        with os.scandir(self.path) as listing:
            entries = [(entry.name, entry.is_file(follow_symlinks=False)) for entry in listing]
        self.names = sorted(name for name, regular in entries if regular)
        self.others = sorted(name for name, regular in entries if not regular)
        self._names = frozenset(self.names)

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def open(self, name: str) -> int:
        """Return a descriptor for reading a file; the caller closes it.

        Raises:
            OSError: there is no such regular file.
        """
        if name not in self._names or not is_file_name(name):
            raise FileNotFoundError(f"{name!r} is not a file of {self.path}")
        descriptor = os.open(self.path / name, _FLAGS)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise FileNotFoundError(f"{name!r} is not a regular file")
        return descriptor

    def size(self, name: str) -> int:
        """Return the size of a file in bytes, 0 if it does not exist."""
        return (self.path / name).lstat().st_size if name in self._names else 0

    def head(self, name: str) -> bytes:
        """Return the first bytes of a file."""
        with os.fdopen(self.open(name), "rb") as file:
            return file.read(_HEAD)

    def blocks(self, name: str, size: int = 1 << 20) -> Iterator[bytes]:
        """Yield a file in blocks of `size` bytes, of which only the last is shorter; none if it does not exist."""
        if name in self._names:
            with os.fdopen(self.open(name), "rb") as file:
                while block := file.read(size):
                    yield block

    def read(self, name: str, findings: Findings) -> bytes:
        """Return a whole file, empty if it does not exist.

        A file larger than `MAX_WHOLE_FILE` is cut there, with a finding.
        """
        if name not in self._names:
            return b""
        with os.fdopen(self.open(name), "rb") as file:
            raw = file.read(MAX_WHOLE_FILE + 1)
        if len(raw) > MAX_WHOLE_FILE:
            raw = raw[:MAX_WHOLE_FILE]
            findings.add(
                "directory.file-too-large", MAX_WHOLE_FILE, f"only {MAX_WHOLE_FILE:,} bytes are read", file=name
            )
        return raw


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of a directory whose content is not decoded.

    Attributes:
        directory: the directory.
        name: the name of the file.
    """

    directory: Directory
    name: str

    def blocks(self) -> Iterator[bytes]:
        """Yield the file's content."""
        return self.directory.blocks(self.name)


def join_lines(lines: list[str]) -> bytes:
    """Return the bytes of a text file; an empty last line gives a final line end."""
    return "\n".join(lines).encode("utf-8", "surrogateescape")


def text_file(lines: Iterable[object]) -> bytes:
    """Return the bytes of a text file with some lines, which need not be texts yet."""
    return join_lines([*map(str, lines), ""])


def byte_size(text: str) -> int:
    """Return the number of bytes of a text in a file."""
    return len(text.encode("utf-8", "surrogateescape"))


def text_bytes(text: object, where: str) -> bytes:
    """Return the bytes of a text that is to be written.

    Raises:
        EncodeError: it is not a text, or would not be read again as the same text.
    """
    raw = integers.text_bytes(text, where)
    if raw.decode("utf-8", "surrogateescape") != text:
        raise EncodeError(f"{text!r:.60} has surrogates that stand for valid UTF-8", where)
    return raw


def has_carriage_returns(raw: bytes, name: str, findings: Findings) -> bool:
    """Return whether most lines of a file end in CR LF; add a finding at the first of them if they do."""
    if raw.count(b"\r\n") * 2 <= raw.count(b"\n"):
        return False
    findings.add("directory.line-ends", raw.index(b"\r\n"), file=name)
    return True


def placed_lines(raw: bytes, name: str, findings: Findings) -> Iterator[tuple[int, str]]:
    """Yield the byte offset and the text of each line of a text file; a final line end gives an empty last line.

    If the lines end in CR LF, there is one finding about it, and the texts are without the CR.
    """
    damaged = has_carriage_returns(raw, name, findings)
    offset = 0
    for line in raw.split(b"\n"):
        text = line.removesuffix(b"\r") if damaged else line
        yield offset, text.decode("utf-8", "surrogateescape")
        offset += len(line) + 1
