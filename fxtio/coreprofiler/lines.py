"""The codec of one line: its tag says which records it may be, and `fxtio.codec.text.codec` has the items behind it."""

from __future__ import annotations

from typing import Any

from fxtio.codec.record import Opaque
from fxtio.codec.text import codec
from fxtio.coreprofiler.layout import BYTE_ORDER_MARK, TAG_SIZE, Style
from fxtio.coreprofiler.records import RECORDS, TAGS, Record, StackSample, ThreadDestroyed, tag_of
from fxtio.errors import DecodeError, EncodeError

_MISPRINT = b"thr crt"
"""Also means that a thread was destroyed; with two numbers, it was created."""

_CLASSES = frozenset(RECORDS)


def decode(line: bytes) -> Any:
    """Decode a line, given without its end, to a record.

    Raises:
        DecodeError: the line is not a record.
    """
    classes = TAGS.get(line[:TAG_SIZE])
    if classes is None:
        raise DecodeError("line.unknown", f"no record begins with {codec.excerpt(line[:TAG_SIZE])}")
    first: DecodeError | None = None
    for cls in classes:
        try:
            record = codec.decode(cls, line, TAG_SIZE)
        except DecodeError as error:
            first = first or error
        else:
            if not (line.startswith(_MISPRINT) and getattr(record, "extra", None) is not None):
                return record
    assert first is not None
    raise first


def _tag_of(record: Record, style: Style) -> str:
    if isinstance(record, StackSample):
        return style.stack
    if isinstance(record, ThreadDestroyed) and record.extra is None:
        return style.destroyed
    return tag_of(type(record))  # with another number, the misprint would be a created thread


def encode(record: Record | Opaque, style: Style) -> bytes:
    """Encode a record as its line with the line end; of an `Opaque`, return the bytes.

    Raises:
        EncodeError: it is not a record, or the format cannot express it.
    """
    if isinstance(record, Opaque):
        if not isinstance(record.raw, bytes):
            raise EncodeError(f"{record.raw!r} is not bytes", "Opaque.raw")
        return record.raw
    cls = type(record)
    if cls not in _CLASSES:
        raise EncodeError(f"{cls.__name__} is not a record of the format", "record")
    line = (_tag_of(record, style) + codec.encode(record, style)).encode("utf-8", "surrogateescape")
    if len(TAGS[line[:TAG_SIZE]]) > 1 and not _is_read_as(line, record):
        raise EncodeError("the line would be read as another record", cls.__name__)
    return line + style.newline.encode("ascii")


def _is_read_as(line: bytes, record: Record) -> bool:
    try:
        return bool(decode(line) == record)
    except DecodeError:
        return False


def looks_like_record(head: bytes) -> bool:
    """Return whether a file that begins with these bytes is a trace: its first line is a record, or begins one."""
    line, end, _ = head.removeprefix(BYTE_ORDER_MARK).partition(b"\n")
    if not end:
        return line[:TAG_SIZE] in TAGS and line[TAG_SIZE : TAG_SIZE + 1] == b" "
    try:
        decode(line.removesuffix(b"\r"))
    except DecodeError:
        return False
    return True
