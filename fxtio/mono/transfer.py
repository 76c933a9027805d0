"""Recognizes files that a transfer in text mode has changed, as FTP and old tools make it.

Such a transfer adds a carriage return before every line feed, or removes it there.  In a recording these bytes are
parts of numbers, so buffers become longer or shorter than their headers say.
"""

from __future__ import annotations

from fxtio.errors import DecodeError
from fxtio.mono.headers import BUFFER_HEADER_SIZE, buffer_size, decode_header
from fxtio.mono.layout import BUFFER_MARK, HEADER_MARK

WINDOW = 1 << 20
"""The number of bytes behind a fault that are examined."""

_FEWEST_SHORT_BUFFERS = 2
"""Fewer buffers that lack some bytes do not show that a transfer removed them."""


def text_mode_fault(data: bytes) -> str:
    """Return how a transfer in text mode has changed a recording, or an empty text if it has not.

    Args:
        data: up to `WINDOW` bytes from a header on behind which the next one is not where it should be.
    """
    if data.count(b"\n") == data.count(b"\r\n") > 0 and _holds(data.replace(b"\r\n", b"\n")):
        return (
            "every line feed has a carriage return before it, as a transfer in text mode adds them; "
            "removing these carriage returns repairs the file. Changed buffers are left out"
        )
    if b"\r\n" not in data and _short_buffers(data) >= _FEWEST_SHORT_BUFFERS:
        return (
            "buffers are too short, and no line feed has a carriage return before it, as after a transfer in text mode "
            "that removes them; this cannot be repaired. Changed buffers are left out"
        )
    return ""


def _holds(data: bytes) -> bool:
    """Return whether the next header, or the end, follows where the header at the beginning says."""
    if data.startswith(HEADER_MARK):
        try:
            size = decode_header(data)[1]
        except DecodeError:
            return False
    elif data.startswith(BUFFER_MARK) and len(data) >= BUFFER_HEADER_SIZE:
        size = BUFFER_HEADER_SIZE + buffer_size(data)
    else:
        return False
    return size == len(data) or data.startswith((BUFFER_MARK, HEADER_MARK), size)


def _short_buffers(data: bytes) -> int:
    """Return how many buffers are shorter than they say by no more bytes than they have line feeds; 0 if others are."""
    short = begin = 0
    while data.startswith(BUFFER_MARK, begin) and len(data) >= begin + BUFFER_HEADER_SIZE:
        events = begin + BUFFER_HEADER_SIZE
        end = events + buffer_size(data[begin:events])
        if end >= len(data):
            break
        if not data.startswith(BUFFER_MARK, end):
            after = data.find(BUFFER_MARK, events, end + len(BUFFER_MARK) - 1)
            if after < 0 or data.count(b"\n", begin, after) < end - after:
                return 0
            short, end = short + 1, after
        begin = end
    return short
