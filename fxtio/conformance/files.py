"""The files of a conformance kit: a folder, or the archive that an installed package has instead.

The kit is thousands of small files, which resemble each other.  So the archive is a zip file of them as they are,
compressed as a whole with gzip: that takes a third of what members take that are compressed one by one, and a thirtieth
of what the files take on a disk.  It is read into memory.  `fxtio._build` makes the archive with this module, which
therefore imports only the standard library.
"""

from __future__ import annotations

import gzip
import io
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Protocol, TypeAlias
from zipfile import ZipFile, ZipInfo

ARCHIVE = "kit.zip.gz"
"""The name of the archive in the folder of an installed kit."""

_Tree: TypeAlias = "dict[str, _Tree | ZipInfo]"


class Place(Protocol):
    """A file or folder of a kit: a path, or `Packed`."""

    @property
    def name(self) -> str:
        """The last part of the path."""

    def is_dir(self) -> bool:
        """Return whether it is a folder."""

    def is_file(self) -> bool:
        """Return whether it is a file."""

    def iterdir(self) -> Iterator[Place]:
        """Return what is in the folder."""

    def read_bytes(self) -> bytes:
        """Return the content of the file, or raise an `OSError`."""

    def read_text(self, encoding: str) -> str:
        """Return the content of the file as text, or raise an `OSError` or a `ValueError`."""

    def __truediv__(self, path: str, /) -> Place:
        """Return what has this path below the folder, whether it is there or not."""


class Packed:
    """A file or folder in an archive, or a path that the archive does not have."""

    def __init__(self, archive: ZipFile, path: str, content: _Tree | ZipInfo | None) -> None:
        self._archive = archive
        self._path = path
        self._content = content

    def __str__(self) -> str:
        return self._path

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self._path.rpartition("/")[2]

    def is_dir(self) -> bool:
        """Return whether it is a folder."""
        return isinstance(self._content, dict)

    def is_file(self) -> bool:
        """Return whether it is a file."""
        return isinstance(self._content, ZipInfo)

    def iterdir(self) -> Iterator[Packed]:
        """Return what is in the folder.

        Raises:
            NotADirectoryError: it is none.
        """
        if not isinstance(self._content, dict):
            raise NotADirectoryError(f"the kit has no folder {self}")
        return (self / name for name in self._content)

    def read_bytes(self) -> bytes:
        """Return the content of the file.

        Raises:
            FileNotFoundError: it is none.
        """
        if not isinstance(self._content, ZipInfo):
            raise FileNotFoundError(f"the kit has no file {self}")
        return self._archive.read(self._content)

    def read_text(self, encoding: str) -> str:
        """Return the content of the file as text.

        Raises:
            FileNotFoundError: it is none.
            ValueError: it is no such text.
        """
        return self.read_bytes().decode(encoding)

    def __truediv__(self, path: str, /) -> Packed:
        content = self._content
        for name in path.split("/"):
            content = content.get(name) if isinstance(content, dict) else None
        return Packed(self._archive, f"{self}/{path}".lstrip("/"), content)


def pack(files: Mapping[str, Path]) -> bytes:
    """Return the archive of files, by their paths in it: the same bytes for the same files."""
    content = io.BytesIO()
    with ZipFile(content, "w") as archive:
        for name, path in sorted(files.items()):
            archive.writestr(ZipInfo(name), path.read_bytes())
    return gzip.compress(content.getvalue(), mtime=0)


def unpacked(folder: Path) -> Place:
    """Return the files of a kit: those of its archive if the folder has one, or else the folder."""
    archive = folder / ARCHIVE
    return _read_archive(archive) if archive.is_file() else folder


@cache
def _read_archive(path: Path) -> Packed:
    archive = ZipFile(io.BytesIO(gzip.decompress(path.read_bytes())))
    tree: _Tree = {}
    for entry in archive.infolist():
        folder: Any = tree
        *parents, name = entry.filename.split("/")
        for parent in parents:
            folder = folder.setdefault(parent, {})
        folder[name] = entry
    return Packed(archive, "", tree)


def copy(source: Place, target: Path) -> None:
    """Copy a file to a path, or what is in a folder into one, which is made if it is missing."""
    if source.is_dir():
        target.mkdir(parents=True, exist_ok=True)
        for entry in source.iterdir():
            if entry.name != "__pycache__":
                copy(entry, target / entry.name)
    else:
        target.write_bytes(source.read_bytes())


@contextmanager
def as_folder(source: Place) -> Iterator[Path]:
    """Return a context in which what is in a folder is in one on the disk: a temporary one, if it is in an archive."""
    if isinstance(source, Path):
        yield source
    else:
        with tempfile.TemporaryDirectory(prefix="fxtio-kit-") as folder:
            copy(source, Path(folder))
            yield Path(folder)
