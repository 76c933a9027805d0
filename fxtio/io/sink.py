"""Output streams: a path, a file object, or `-` for standard output; compressed if the path has such a suffix."""

from __future__ import annotations

import errno
import io
import lzma
import os
import shutil
import sys
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, cast

from fxtio.errors import FormatError, add_file_name
from fxtio.report import printable
from fxtio.shared_folders import opener, replacing, resolved, temporary_name

STDOUT = "standard output"
"""What messages call standard output."""

_DESCRIPTORS = Path("/proc/self/fd")
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Sink:
    """A stream that bytes are appended to.

    Args:
        stream: the stream to write to.
        owned: whether `close` closes the stream; otherwise it only flushes it.
        beneath: the sink that a compressing stream writes to, to be closed after it.
        compression: `gzip`, `zstd` or `xz` if the stream compresses.
        name: what errors call the stream, or None.

    Attributes:
        compression: how the bytes are compressed, or None.
        position: the number of bytes written, before compression.
    """

    def __init__(
        self,
        stream: BinaryIO,
        *,
        owned: bool,
        beneath: Sink | None = None,
        compression: str | None = None,
        name: str | None = None,
    ) -> None:
        self.compression = compression
        self._stream = stream
        self._owned = owned
        self._beneath = beneath
        self._name = name
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
        try:
            while len(view):
                count: int | None = self._stream.write(view)
                if count is None and not isinstance(self._stream, io.RawIOBase):
                    break  # it does not tell, so it has written all; a raw stream has written nothing
                view = view[count:]
        except OSError as error:
            add_file_name(error, self._name)
            raise
        return memoryview(data).nbytes

    def flush(self) -> None:
        """Flush the stream.

        Raises:
            OSError: the bytes cannot be written.
        """
        try:
            self._stream.flush()
        except OSError as error:
            add_file_name(error, self._name)
            raise

    def close(self) -> None:
        """Flush the stream, and close it unless it was given as a file object.

        Raises:
            OSError: the bytes cannot be written.
        """
        if not self._owned:
            self.flush()
            return
        try:
            self._stream.close()
        except OSError as error:
            add_file_name(error, self._name)
            raise
        finally:
            if self._beneath is not None:
                self._beneath.close()


def open_sink(target: Any, *, compresses: bool = True) -> Sink:
    """Open a stream of bytes for writing.

    Args:
        target: a path (`.gz`, `.zst` and `.xz` compress), `-` for standard output, or a binary file object, which stays
            open.
        compresses: if false, no ending of a path compresses.

    Raises:
        FormatError: the target is a text stream, or of a type that bytes cannot be written to.
        OSError: the target cannot be created, or is a link of another user.
    """
    if hasattr(target, "write"):
        if isinstance(target, io.TextIOBase):
            raise FormatError("the file object expects text; open it in binary mode")
        return Sink(target, owned=False)
    if not isinstance(target, str | os.PathLike):
        raise FormatError(f"cannot write a trace to {type(target).__name__}")
    path = os.fsdecode(target)
    refuse_url(path)
    if path == "-":
        return Sink(sys.stdout.buffer, owned=False, name=STDOUT)
    file = cast("BinaryIO", open(path, "wb", buffering=0, opener=opener))  # noqa: SIM115  # the sink closes it
    return sink_of(file, path, compresses=compresses)


def sink_of(stream: BinaryIO, path: str, name: str | None = None, *, compresses: bool = True) -> Sink:
    """Return the sink of a file that is open without a buffer, which it closes.

    `.gz`, `.zst` and `.xz` at the end of the path compress, unless this is not asked for.  Errors call the file by the
    name, if one is given.

    Raises:
        OSError: a compressor cannot write its header; then the file is closed.
    """
    file = Sink(stream, owned=True, name=name or path)
    try:
        return _compressing(file, path) if compresses else file
    except OSError:
        stream.close()
        raise


def refuse_url(target: Any) -> None:
    """Make sure that a target is not a URL: these can only be read.

    Raises:
        FormatError: it is.
    """
    if isinstance(target, str) and "://" in target:
        raise FormatError(f"{printable(target)}: a trace cannot be written to a URL; write a file, and copy it there")


def _compressing(file: Sink, path: str) -> Sink:
    """Return the sink of a file, or one before it that compresses if the suffix of the path asks for it.

    Compressors write to a sink, which names the file in errors, and writes all bytes: they take that for granted.
    """
    compressor: Any
    if path.endswith(".gz"):
        compressor, compression = _Gzip(file), "gzip"
    elif path.endswith(".xz"):
        compressor, compression = lzma.LZMAFile(cast("BinaryIO", file), "wb"), "xz"  # noqa: SIM115  # the sink closes it
    elif path.endswith(".zst"):
        import zstandard

        compressor, compression = zstandard.ZstdCompressor().stream_writer(cast("BinaryIO", file)), "zstd"
    else:
        return file
    return Sink(compressor, owned=True, beneath=file, compression=compression)


class _Gzip:
    """A stream that compresses to a file.

    `gzip.GzipFile` keeps what could not be written when it was closed, and fails once more when it is freed.
    """

    def __init__(self, file: Sink) -> None:
        self._file = file
        self._compressor = zlib.compressobj(6, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
        self.closed = False

    def write(self, data: memoryview) -> int:
        """Append bytes, and return their number."""
        self._file.write(self._compressor.compress(data))
        return data.nbytes

    def flush(self) -> None:
        """Write all that has been appended."""
        self._file.write(self._compressor.flush(zlib.Z_SYNC_FLUSH))

    def close(self) -> None:
        """Write the end, once."""
        if not self.closed:
            self.closed = True
            self._file.write(self._compressor.flush())


@contextmanager
def whole_file(target: str | os.PathLike[str], *, compresses: bool = True) -> Iterator[Sink]:
    """Open a sink for a `with` block, and replace the target only when the block has ended without an error.

    The bytes go to a temporary file beside the target, so the target may be read at the same time.

    Args:
        target: a path, or `-` for standard output.  Anything but a regular file, such as a pipe, is written directly.
        compresses: if false, no ending of the path compresses.

    Raises:
        OSError: the target cannot be written, or is a link of another user.
    """
    refuse_url(target)
    path = Path(target)
    if str(target) == "-" or (path.exists() and not path.is_file()):
        with closing(open_sink(target, compresses=compresses)) as sink:
            yield sink
        return
    if path.exists() and not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    path = resolved(path)  # replace the file that a link points to, not the link
    with replacing(path, target) as fd:
        file = cast("BinaryIO", open(fd, "wb", buffering=0))  # noqa: SIM115  # the sink closes it
        with closing(sink_of(file, str(path), str(target), compresses=compresses)) as sink:
            yield sink


@contextmanager
def whole_directory(target: str | os.PathLike[str]) -> Iterator[Path]:
    """Make a directory for a `with` block, which has its name only when the block has ended without an error.

    Args:
        target: the path, where nothing or an empty directory may be.

    Raises:
        FormatError: the target is standard output.
        FileExistsError: something is at the path.
        OSError: the directory cannot be made or written, or is a link of another user.
    """
    refuse_url(target)
    path = Path(target)
    if str(target) == "-":
        raise FormatError("such a trace is a directory; it cannot be written to standard output")
    if path.exists() and (not path.is_dir() or next(path.iterdir(), None) is not None):
        raise FileExistsError(errno.EEXIST, "it exists, and is not an empty directory", str(path))
    real = resolved(path)
    temporary = temporary_name(real)
    place = temporary
    try:
        with _new_directory(temporary) as place, names_if_full(path):
            yield place
            if real.exists():
                real.rmdir()
            temporary.rename(real)
    except OSError as error:
        for prefix in (str(temporary), str(place)):
            if str(error.filename).startswith(prefix):
                error.filename = str(path) + str(error.filename).removeprefix(prefix)
        raise


@contextmanager
def _new_directory(path: Path) -> Iterator[Path]:
    """Make a directory for a `with` block, and remove it if the block ends with an error.

    Yields:
        A name by which the directory is reached even if somebody exchanges it, where the system has such names.
    """
    path.mkdir()
    if not shutil.rmtree.avoids_symlink_attacks or not _DESCRIPTORS.exists():
        try:
            yield path
        except BaseException:
            shutil.rmtree(path, ignore_errors=True)
            raise
        return
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield _DESCRIPTORS / str(fd)
    except BaseException:
        shutil.rmtree(os.curdir, ignore_errors=True, dir_fd=fd)
        with suppress(OSError):
            path.rmdir()
        raise
    finally:
        os.close(fd)


@contextmanager
def temporary_file() -> Iterator[BinaryIO]:
    """Open a temporary file for a `with` block.

    Raises:
        OSError: it cannot be created or written.
    """
    with names_if_full(), tempfile.TemporaryFile(prefix="fxtio-") as file:
        yield cast("BinaryIO", file)


@contextmanager
def names_if_full(path: str | os.PathLike[str] | None = None) -> Iterator[None]:
    """Let the error of a disk that is full, which only writing causes, say what could not be written, unless it does.

    Args:
        path: what is written in the `with` block; None for temporary files.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL or error.filename is not None:
            raise
        name = f"a temporary file in {tempfile.gettempdir()}" if path is None else str(path)
        raise OSError(error.errno, os.strerror(error.errno), name) from error
