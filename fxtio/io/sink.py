"""Where bytes go: a path, a file object, `-` for standard output; compressed if the name says so."""

from __future__ import annotations

import gzip
import io
import lzma
import os
import sys
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
