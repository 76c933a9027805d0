"""Columns to the bytes of many records, with numpy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from fxtio.codec.scatter import Ragged, interleave
from fxtio.errors import EncodeError
from fxtio.uftrace.layout import RecordWord, TimeWord

Array = np.ndarray[Any, Any]


def packed(
    kind: Any,
    time: Array,
    depth: Array,
    address: Array,
    payload: Sequence[bytes | None] | None = None,
    order: Literal["little", "big"] = "little",
) -> memoryview:
    """The bytes of some records.

    Args:
        kind: the type of each (`RecordType`).
        time: nanoseconds.
        depth: of each.
        address: of each.
        payload: whole words for each, or None.
        order: the byte order.

    Raises:
        EncodeError: a value does not fit.
    """
    rows = len(time)
    if any(len(column) != rows for column in (np.atleast_1d(kind), depth, address) if len(column) != 1):
        raise EncodeError("the columns differ in length")
    more: Any = 0
    body: Ragged | None = None
    if payload is not None:
        body = _payloads(payload, rows, order)
        more = np.array([one is not None for one in payload], np.uint64)
    fields: dict[str, Any] = {"type": kind, "more": more, "depth": depth, "address": address}
    when: Any = time
    second = RecordWord(**fields).value
    pieces = [Ragged(TimeWord(time=when).value, 1), Ragged(np.broadcast_to(second, rows), 1)]
    words = interleave([*pieces, *([body] if body is not None else [])], rows).words
    return (words if order == "little" else words.byteswap()).data.cast("B")


def _payloads(payload: Sequence[bytes | None], rows: int, order: Literal["little", "big"]) -> Ragged:
    if len(payload) != rows:
        raise EncodeError("the columns differ in length")
    sizes = np.array([len(one or b"") for one in payload], np.int64)
    if (sizes % 8).any():
        raise EncodeError("a payload is no whole words", "payload")
    words = np.frombuffer(b"".join([one or b"" for one in payload]), np.uint64)
    return Ragged(words if order == "little" else words.byteswap(), sizes // 8)
