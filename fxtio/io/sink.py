"""Where bytes go: a path, a file object, `-` for standard output; compressed if the name says so."""

from __future__ import annotations

import errno
import gzip
import io
import lzma
import os
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from fxtio.errors import FormatError


class Sink:
    """A stream that bytes are appended to.

    Args:
        stream: takes the bytes.
        owned: close it in the end; otherwise it is only flushed.
        beneath: the file below a compressor, to be closed with it.
    """

    def __init__(self, stream: BinaryIO, *, owned: bool, beneath: BinaryIO | None = None) -> None:
        self._stream = stream
        self._owned = owned
        self._beneath = beneath
        self.position = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Append bytes; all of them, or an error.

        Raises:
            OSError: they cannot be written.
        """
        view = memoryview(data).cast("B")
        self.position += len(view)
        while len(view):
            view = view[self._stream.write(view) :]

    def close(self) -> None:
        """Flush, and close what was opened here."""
        if not self._owned:
            self._stream.flush()
            return
        try:
            self._stream.close()
        finally:
            if self._beneath is not None:
                self._beneath.close()


def open_sink(target: Any) -> Sink:
    """Open anything that bytes can be written to.

    Args:
        target: a path (`.gz`, `.zst` and `.xz` compress), `-` for standard output, or a binary file object, which stays
            open.

    Raises:
        FormatError: it is nothing to write bytes to.
        OSError: it cannot be created.
    """
    if hasattr(target, "write"):
        if isinstance(target, io.TextIOBase):
            raise FormatError("the file object takes text; open it in binary mode")
        return Sink(target, owned=False)
    if not isinstance(target, str | os.PathLike):
        raise FormatError(f"cannot write a trace to {type(target).__name__}")
    name = os.fspath(target)
    if name == "-":
        return Sink(sys.stdout.buffer, owned=False)
    stream = cast("BinaryIO", open(name, "wb", buffering=0))  # noqa: SIM115  # the sink closes it
    if name.endswith(".gz"):
        return Sink(
            cast("BinaryIO", gzip.GzipFile(fileobj=stream, mode="wb", compresslevel=6, mtime=0)),
            owned=True,
            beneath=stream,
        )
    if name.endswith(".xz"):
        return Sink(cast("BinaryIO", lzma.LZMAFile(stream, "wb")), owned=True, beneath=stream)
    if name.endswith(".zst"):
        import zstandard

        return Sink(cast("BinaryIO", zstandard.ZstdCompressor().stream_writer(stream)), owned=True)
    return Sink(stream, owned=True)


@contextmanager
def whole_file(target: str | os.PathLike[str]) -> Iterator[Sink]:
    """A sink for a `with` block: the file appears under its name when all of it is written, and not after an error.

    So a file can be written that is read from at the same time.

    Args:
        target: a path, or `-` for standard output.  What is no regular file, such as a pipe, is written to as it is.

    Raises:
        OSError: it cannot be written.
    """
    path = Path(target)
    if str(target) == "-" or (path.exists() and not path.is_file()):
        with closing(open_sink(target)) as sink:
            yield sink
        return
    if path.exists() and not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    path = path.resolve()  # where it is a link, what it leads to is replaced
    begun = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        sink = open_sink(begun)
    except OSError as error:
        error.filename = str(target)
        raise
    try:
        with closing(sink):
            yield sink
        begun.replace(path)
    except BaseException:
        begun.unlink(missing_ok=True)
        raise
