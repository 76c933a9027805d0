"""A stream that can be read only once, made readable again: what was read of it is stored in a temporary file.

The file is anonymous, as large as the decompressed data that was read so far, and disappears when it is closed.
"""

from __future__ import annotations

import errno
import weakref
from typing import BinaryIO, cast

from fxtio.errors import FormatError
from fxtio.io.source import Source


class Spool:
    """A source and a copy of what was read of it.

    Args:
        source: the source, at its beginning; `close` closes it.

    Raises:
        OSError: the temporary file cannot be created.
    """

    def __init__(self, source: Source) -> None:
        import tempfile  # it costs time, and few traces are read from a pipe

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
