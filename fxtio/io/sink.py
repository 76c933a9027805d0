"""Output streams: a path, a file object, or `-` for standard output; compressed if the path has such a suffix."""

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
        stream: the stream to write to.
        owned: whether `close` closes the stream; otherwise it only flushes it.
        beneath: the file that a compressing stream writes to, to be closed after it.
        compression: `gzip`, `zstd` or `xz` if the stream compresses.

    Attributes:
        compression: how the bytes are compressed, or None.
        position: the number of bytes written, before compression.
    """

    def __init__(
        self, stream: BinaryIO, *, owned: bool, beneath: BinaryIO | None = None, compression: str | None = None
    ) -> None:
        self.compression = compression
        self._stream = stream
        self._owned = owned
        self._beneath = beneath
        self.position = 0

    @property
    def closed(self) -> bool:
        """Whether nothing can be written any more; pyarrow asks for it."""
        return self._stream.closed

    def write(self, data: bytes | bytearray | memoryview) -> int:
        """Append all of the bytes, and return their number.

        Raises:
            OSError: the bytes cannot be written.
        """
        view = memoryview(data).cast("B")
        self.position += len(view)
        while len(view):
            view = view[self._stream.write(view) :]
        return memoryview(data).nbytes

    def flush(self) -> None:
        """Flush the stream."""
        self._stream.flush()

    def close(self) -> None:
        """Flush the stream, and close it unless it was given as a file object."""
        if not self._owned:
            self._stream.flush()
            return
        try:
            self._stream.close()
        finally:
            if self._beneath is not None:
                self._beneath.close()


def open_sink(target: Any) -> Sink:
    """Open a stream of bytes for writing.

    Args:
        target: a path (`.gz`, `.zst` and `.xz` compress), `-` for standard output, or a binary file object, which stays
            open.

    Raises:
        FormatError: the target is a text stream, or of a type that bytes cannot be written to.
        OSError: the target cannot be created.
    """
    if hasattr(target, "write"):
        if isinstance(target, io.TextIOBase):
            raise FormatError("the file object expects text; open it in binary mode")
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
            compression="gzip",
        )
    if name.endswith(".xz"):
        return Sink(cast("BinaryIO", lzma.LZMAFile(stream, "wb")), owned=True, beneath=stream, compression="xz")
    if name.endswith(".zst"):
        import zstandard

        return Sink(cast("BinaryIO", zstandard.ZstdCompressor().stream_writer(stream)), owned=True, compression="zstd")
    return Sink(stream, owned=True)


@contextmanager
def whole_file(target: str | os.PathLike[str]) -> Iterator[Sink]:
    """Open a sink for a `with` block, and replace the target only when the block has ended without an error.

    The bytes go to a temporary file beside the target, so the target may be read at the same time.

    Args:
        target: a path, or `-` for standard output.  Anything but a regular file, such as a pipe, is written directly.

    Raises:
        OSError: the target cannot be written.
    """
    path = Path(target)
    if str(target) == "-" or (path.exists() and not path.is_file()):
        with closing(open_sink(target)) as sink:
            yield sink
        return
    if path.exists() and not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    path = path.resolve()  # replace the file that a link points to, not the link
    temporary = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        sink = open_sink(temporary)
    except OSError as error:
        error.filename = str(target)
        raise
    try:
        with closing(sink):
            yield sink
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
