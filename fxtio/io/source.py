"""Input streams: a path, a file object, `-` for standard input, or a URL; decompressed if the content is compressed.

A `Source` is read forward once.  If a compressed stream is cut or damaged, the data before the fault is delivered, then
the data ends, and the attribute `fault` tells the reader why.
"""

from __future__ import annotations

import errno
import gzip
import io
import lzma
import os
import sys
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, cast

from fxtio.errors import FormatError, add_file_name, described
from fxtio.report import printable

STDIN = "<stdin>"
"""The name of standard input in messages."""

HEAD = 1024
"""The number of bytes by which formats are recognized; in text formats these are the first few lines."""

_FRAME_CHUNK = 1 << 10
"""The number of compressed bytes per step: in zstd, 4 bytes can expand to 128 KiB, so a step gives up to 32 MiB."""

MAX_WINDOW = 1 << 27
"""The most bytes that a decompressor may have to remember; a file can demand gigabytes, and compressors use less."""

_XZ_STATE = 1 << 20
"""The bytes that a decompressor of xz needs besides, or more."""

_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"\xfd7zXZ\x00": "xz"}


COMPRESSION_SUFFIXES = (".gz", ".zst", ".xz")
"""The endings of names of compressed files."""


def without_compression(name: str) -> str:
    """Return the name of a file without the suffix of a compression."""
    for suffix in COMPRESSION_SUFFIXES:
        name = name.removesuffix(suffix)
    return name


class Source:
    """A stream of decompressed bytes whose first bytes can be inspected before reading.

    Args:
        stream: the stream.
        name: its name in messages.
        limit: the greatest number of decompressed bytes to read, or None.
        owned: closing the source closes the stream.
        compression: `zlib`, or another one that its first bytes tell as well; None for what they tell.

    Attributes:
        name: the name of the stream in messages.
        head: the first bytes (up to `HEAD`), after decompression.
        compression: `gzip`, `zstd`, `xz`, `zlib` or None.
        total: the size of the (compressed) stream in bytes, or None if it is not known.
        size: the size of the decompressed data in bytes, or None if it is not known.
        position: the number of decompressed bytes read so far.
        fault: the reason why the data ended early, or None.
        limit: the greatest number of decompressed bytes to read, or None.
        owned: closing the source closes the stream.
    """

    total: int | None
    size: int | None
    fault: str | None

    def __init__(
        self,
        stream: BinaryIO,
        name: str,
        *,
        limit: int | None = None,
        owned: bool = True,
        compression: str | None = None,
    ) -> None:
        self._begin(name, stream, limit=limit, owned=owned)
        try:
            peeked = _read_up_to(stream, HEAD)
        except OSError as error:
            self.close()
            add_file_name(error, name)
            raise
        known = next((kind for magic, kind in _MAGIC.items() if peeked.startswith(magic)), None)
        self.compression = compression or known
        joined = _Joined(peeked, stream)
        self._stream: Any = joined
        if self.compression:
            self.size = None
            self._stream = decompressed(self.compression, joined)
        self._fill_head()

    def _begin(self, name: str, stream: BinaryIO, *, limit: int | None, owned: bool) -> None:
        """Set the attributes that do not depend on the content."""
        self.name = name
        self.limit = limit
        self.fault = None
        self.position = 0
        self.owned = owned
        self._outer = stream
        self.total = self.size = _size_of(stream)

    def _fill_head(self) -> None:
        """Read the first bytes."""
        self._buffer = b""
        head = bytearray(HEAD)
        self.head = bytes(head[: self.readinto(memoryview(head))])
        self._buffer = self.head
        self.position = 0

    @property
    def remaining(self) -> int | None:
        """The number of decompressed bytes that are left, or None if it is not known."""
        return None if self.size is None else max(self.size - self.position, 0)

    @property
    def seekable(self) -> BinaryIO | None:
        """The stream itself, with what may be compressed, if it can be read at any offset; else None."""
        try:
            is_seekable = self._outer.seekable()
        except (OSError, ValueError, AttributeError):
            is_seekable = False
        return self._outer if is_seekable and hasattr(self._outer, "readinto") else None

    @property
    def consumed(self) -> int | None:
        """The position in the (compressed) stream in bytes, for showing progress, or None if it is not known."""
        try:
            return self._outer.tell()
        except (OSError, ValueError):
            return None

    def readinto(self, target: memoryview) -> int:
        """Fill `target` and return the number of bytes, which is less than its length only at the end of the data."""
        if self.limit is not None and self.position + len(target) > self.limit:
            target = target[: self.limit - self.position + 1]  # one byte more, to detect longer data
        filled = min(len(self._buffer), len(target))
        target[:filled] = self._buffer[:filled]
        self._buffer = self._buffer[filled:]
        while filled < len(target) and self.fault is None:
            try:
                count = self._stream.readinto(target[filled:])
            except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
                if not self.compression:
                    if isinstance(error, OSError):
                        add_file_name(error, self.name)
                    raise
                self.fault = f"the {self.compression} stream is cut or damaged: {error}"
                break
            if not count:
                break
            filled += count
        self.position += filled
        if self.limit is not None and self.position > self.limit:
            self.fault = f"the data is longer than the limit of {self.limit:,} bytes"
            filled -= self.position - self.limit
            self.position = self.limit
        return filled

    def close(self) -> None:
        """Close the stream, unless it was given as a file object."""
        if self.owned:
            self._outer.close()


class _Joined(io.RawIOBase):
    """A stream of bytes that were already read, followed by the rest of the original stream."""

    def __init__(self, first: bytes, rest: BinaryIO) -> None:
        self._first = first
        self._rest = rest

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        view = memoryview(target).cast("B")
        if self._first:
            count = min(len(self._first), len(view))
            view[:count] = self._first[:count]
            self._first = self._first[count:]
            return count
        if hasattr(self._rest, "readinto"):
            return self._rest.readinto(view) or 0
        data = self._rest.read(len(view))
        view[: len(data)] = data
        return len(data)


def _read_up_to(stream: BinaryIO, count: int) -> bytes:
    """Read `count` bytes, or fewer at the end of the stream."""
    data = b""
    while len(data) < count and (more := stream.read(count - len(data))):
        data += more
    return data


def _size_of(stream: BinaryIO) -> int | None:
    """Return the number of bytes from the current position to the end, or None if the stream cannot tell."""
    try:
        position = stream.tell()
        stream.seek(0, os.SEEK_END)  # its result is not used: mmap objects return None before Python 3.13
        end = stream.tell()
        stream.seek(position)
    except (OSError, ValueError, AttributeError):
        return None
    return end - position or None  # a device has no size and reports 0


def decompressed(kind: str, stream: Any) -> Any:
    """Return a stream that decompresses another one; its `readinto` gives bytes before a fault, then raises an error.

    Args:
        kind: `gzip`, `zstd`, `xz` or `zlib`.
        stream: the compressed bytes.
    """
    buffered = io.BufferedReader(stream, 1 << 18)
    if kind == "gzip":
        return _ReadOnce(gzip.GzipFile(fileobj=buffered))
    if kind == "xz":
        limit = MAX_WINDOW + _XZ_STATE
        return _Frames(buffered, lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, limit), lzma.LZMAError, padding=b"\0")
    if kind == "zlib":
        return _Frames(buffered, zlib.decompressobj, zlib.error)
    import zstandard

    window = MAX_WINDOW
    return _Frames(
        buffered, lambda: zstandard.ZstdDecompressor(max_window_size=window).decompressobj(), zstandard.ZstdError
    )


class _ReadOnce:
    """A stream whose `readinto` reads only once, so that bytes before a fault are delivered before it is raised."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def readinto(self, target: memoryview) -> int:
        """Fill the beginning of `target` and return the number of bytes, 0 at the end."""
        data = self._stream.read1(min(len(target), 1 << 18))
        target[: len(data)] = data
        return len(data)


class _Frames:
    """A decompressor of any number of frames, one after the other; a cut frame is an error, not an end of data.

    Args:
        stream: the compressed bytes.
        make: returns the decompressor of a frame.
        error: the exception that it raises for damaged data.
        padding: the byte that may be between frames, any number of times.
    """

    def __init__(self, stream: Any, make: Callable[[], Any], error: type[Exception], *, padding: bytes = b"") -> None:
        self._stream = stream
        self._make = make
        self._error = error
        self._padding = padding
        self._frame: Any = None
        self._ready = memoryview(b"")

    def readinto(self, target: memoryview) -> int:
        """Fill the beginning of `target` with decompressed bytes and return their number, 0 at the end."""
        while not self._ready:
            is_between = self._frame is None or self._frame.eof
            chunk = self._begin_of_frame() if is_between else self._stream.read1(_FRAME_CHUNK)
            if not chunk and not is_between:
                raise EOFError("its end is missing")
            if not chunk:
                return 0
            if is_between:
                self._frame = self._make()
            try:
                self._ready = memoryview(self._frame.decompress(chunk))
            except self._error as error:
                raise OSError(str(error)) from None
        count = min(len(self._ready), len(target))
        target[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def _begin_of_frame(self) -> bytes:
        """Return the first bytes of the next frame, none at the end of the data."""
        chunk: bytes = b"" if self._frame is None else self._frame.unused_data.lstrip(self._padding)
        while not chunk and (more := self._stream.read1(_FRAME_CHUNK)):
            chunk = more.lstrip(self._padding)
        return chunk


def is_directory(target: Any) -> bool:
    """Return whether `target` is the path of a directory."""
    if not isinstance(target, str | os.PathLike) or target in ("", "-") or "://" in str(target):
        return False  # an empty path is no file; `Path` would take it for the current directory
    return Path(target).is_dir()


def open_source(target: Any, *, limit: int | None = None) -> Source:
    """Open a stream of bytes for reading.

    Args:
        target: a path, `-` for standard input, a URL (with the `fsspec` extra), bytes, or a binary file object, which
            stays open.
        limit: the greatest number of decompressed bytes to read.

    Raises:
        FormatError: the target is a directory, a text stream, or of a type that bytes cannot be read from.
        ValueError: the limit is negative.
        OSError: the target cannot be opened.
    """
    if limit is not None and limit < 0:
        raise ValueError(f"max_bytes is {limit}; it cannot be negative")
    if isinstance(target, bytes | bytearray | memoryview):
        return Source(io.BytesIO(target), "<bytes>", limit=limit)
    if hasattr(target, "read"):
        if isinstance(target, io.TextIOBase):
            raise FormatError("the file object returns text; open it in binary mode")
        return Source(target, str(getattr(target, "name", "<stream>")), limit=limit, owned=False)
    if not isinstance(target, str | os.PathLike):
        raise FormatError(f"cannot read a trace from {type(target).__name__}")
    name = os.fspath(target)
    if name == "-":
        return Source(sys.stdin.buffer, STDIN, limit=limit, owned=False)
    if isinstance(name, str) and "://" in name:
        return Source(_open_url(name), name, limit=limit)
    if is_directory(name):
        raise FormatError(f"{name} is a directory, not a trace file")
    return Source(open(name, "rb", buffering=0), str(name), limit=limit)


def _open_url(url: str) -> BinaryIO:
    """Open a URL with fsspec, see `_called`."""
    try:
        import fsspec
    except ImportError:
        reason = "reading from a URL needs the extra 'fsspec' (pip install 'fxtio[fsspec]')"
        raise FormatError(f"{printable(url)}: {reason}") from None
    return cast("BinaryIO", _Remote(_called(url, lambda: fsspec.open(url, "rb").open()), url))


class _Remote:
    """A file of fsspec; what reads it raises nothing but `OSError` and `FormatError`."""

    def __init__(self, file: Any, url: str) -> None:
        self._file = file
        self._url = url

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._file, name)
        return partial(_called, self._url, value) if name in ("read", "readinto") else value


def _called(url: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function of fsspec.

    Raises:
        FormatError: a package is not installed, or there is an error that says nothing of the system.
        OSError: the system refuses it; the error has its reason and the URL.
    """
    try:
        return function(*arguments)
    except OSError as error:
        if error.strerror is None:  # file systems that are not of this machine raise them without a number
            number = errno.ENOENT if isinstance(error, FileNotFoundError) else errno.EIO
            raise OSError(number, os.strerror(number), printable(url)) from error
        add_file_name(error, printable(url))
        raise
    except Exception as error:  # file systems of other packages raise what they like
        missing = "a package is not installed that fsspec needs for it" if isinstance(error, ImportError) else ""
        reason = described(error).partition("\n")[0]
        raise FormatError(f"{printable(url)}: {missing or 'fsspec refuses it'}: {printable(reason)}") from error


MAX_BYTES = 1 << 29
"""The most (decompressed) bytes of such a file; each reader bounds what it makes of them."""

_BLOCK = 1 << 20


def read_whole(source: Source) -> bytearray:
    """Return all bytes of a source.

    Raises:
        FormatError: they are more than `MAX_BYTES`, or the source is cut or damaged.
    """
    data = bytearray()
    chunk = memoryview(bytearray(_BLOCK))
    while count := source.readinto(chunk):
        data += chunk[:count]
        if len(data) > MAX_BYTES:
            raise FormatError(
                f"{source.name} has more than {MAX_BYTES:,} bytes, the most of a file that is read as a whole"
            )
    if source.fault:
        raise FormatError(f"{source.name}: {source.fault}")
    return data


class Spool:
    """A source that can be read only once, made readable again: what was read of it is in a temporary file.

    The file is anonymous, as large as the decompressed data that was read so far, and disappears when it is closed.

    Args:
        source: the source, at its beginning; `close` closes it.

    Raises:
        OSError: the temporary file cannot be created.
    """

    def __init__(self, source: Source) -> None:
        import tempfile  # these cost time, and few traces are read from a pipe
        import weakref

        self.source = source
        self._directory = tempfile.gettempdir()
        self._file: BinaryIO | None = cast("BinaryIO", tempfile.TemporaryFile(prefix="fxtio-"))  # noqa: SIM115
        weakref.finalize(self, self._file.close)  # of a trace that is not closed, without a warning
        self._stored = 0
        self._ended = False
        self._lacks_bytes = False  # a reading of the source was interrupted, or what it read could not be stored

    @property
    def end(self) -> int | None:
        """The number of bytes in all, or None if the source was not read to its end yet."""
        return self._stored if self._ended else None

    def open(self) -> SpooledSource:
        """Return a source that reads everything from the beginning.

        Raises:
            FormatError: the spool is closed.
        """
        if self._file is None:
            raise FormatError(f"{self.source.name} is closed")
        return SpooledSource(self)

    def read(self, position: int, target: memoryview) -> int:
        """Fill the beginning of `target` with bytes from a position on, and return their number, 0 at the end.

        Raises:
            OSError: the source cannot be read, or the temporary file cannot be written.
        """
        if self._file is None:
            raise FormatError(f"{self.source.name} is closed")
        if position < self._stored:
            self._file.seek(position)
            view = target[: self._stored - position]
            data = self._file.read(len(view))
            view[: len(data)] = data
            return len(data)
        if self._lacks_bytes:
            reason = "it cannot be read on: bytes that an earlier reading took were not stored"
            raise OSError(errno.EIO, reason, self.source.name)
        self._lacks_bytes = True
        count = self.source.readinto(target)
        try:
            self._file.seek(self._stored)
            self._file.write(target[:count])
            self._file.flush()
        except OSError as error:
            reason = f"{error.strerror}; {self.source.name} is read more than once, so it is stored in a temporary file"
            raise OSError(error.errno, reason, self._directory) from None
        self._stored += count
        self._ended = count < len(target)
        self._lacks_bytes = False
        return count

    def close(self) -> None:
        """Close the source, and remove the temporary file."""
        self.source.close()
        if self._file is not None:
            self._file.close()
            self._file = None


class SpooledSource(Source):
    """A source whose bytes come from a spool.

    Args:
        spool: the spool.
    """

    def __init__(self, spool: Spool) -> None:
        source = spool.source
        self.name = source.name
        self.limit = source.limit
        self.owned = False
        self.compression = source.compression
        self.head = source.head
        self.fault = None
        self.position = 0
        self._spool = spool
        if spool.end is None:
            self.total, self.size = source.total, source.size
        else:
            self.total = self.size = spool.end

    @property
    def consumed(self) -> int | None:
        """The position in the (compressed) stream in bytes, or None where bytes come from the temporary file."""
        return self._spool.source.consumed if self._spool.source.position == self.position else None

    def readinto(self, target: memoryview) -> int:
        """Fill `target` and return the number of bytes, which is less than its length only at the end of the data."""
        filled = 0
        while filled < len(target) and (count := self._spool.read(self.position, target[filled:])):
            filled += count
            self.position += count
        if filled < len(target):
            self.fault = self._spool.source.fault
        return filled

    def close(self) -> None:
        """Do nothing: the spool may be read again."""
