"""The fuzz target of the FXT reader: every way of reading any bytes gives the same, without a crash.

What is checked of each input: no reading raises anything (strict ones a `DecodeError`, and that exactly where there are
findings); reading in small batches or byte by byte gives the same records; a copy made of all raw records has the same
bytes; each record of a well-framed trace means what the plain model (`support.fxt_model`) says.
"""

from __future__ import annotations

import contextlib
import io
import json
import random
from collections.abc import Iterator
from functools import cache
from typing import Any

from fuzz.checks import check_strict
from fuzz.engine import CORPUS, Change, Target, require
from fxtio.codec.generate import Order, encode
from fxtio.errors import EncodeError
from fxtio.fxt import FxtTrace, FxtWriter
from fxtio.fxt.layout import MAGIC
from fxtio.fxt.records import RECORDS
from support import fxt_model
from support.fxt_hostile import arbitrary, damaged_traces, resized
from support.fxt_readings import Trickle, in_batches, tables_of
from support.fxt_samples import ORDERS
from support.fxt_twins import plain

MAX_SEED_SIZE = 64 * 1024  # bytes; longer traces of the corpus only slow it down


def check(data: bytes) -> bool:
    """Read one input in every way, see `Target.check`."""
    trace = FxtTrace(data)
    records = plain(list(trace))
    has_findings = bool(trace.findings)
    check_strict(lambda: list(FxtTrace(data, strict=True)), trace.findings)
    for other in (FxtTrace(Trickle(data, 61)), FxtTrace(data)):
        with in_batches(1 + len(data) % 37, 1 + len(data) % 7):
            require(plain(list(other)) == records, "pieces give the same records")
    _ = trace.info
    tables_of(trace)
    entries = list(trace.entries())
    require(plain([entry.record for entry in entries]) == records, "entries hold the same records")
    check_framed(data, trace, entries)
    check_copy(data, trace)
    return has_findings


def check_copy(data: bytes, trace: Any) -> None:
    """Check that a copy made of all raw records and gaps has the same bytes."""
    if trace.compression or not data:
        return
    out = io.BytesIO()
    with FxtWriter(out, order="big" if data[:8] == MAGIC[::-1] else "little") as writer:
        for record in trace.records(resolve=False):
            writer.put(record)
    require(out.getvalue() == data, "a copy made with `put` is the same bytes")


def check_framed(data: bytes, trace: Any, entries: list[Any]) -> None:
    """Check traces in which only the content of records can be wrong against the model."""
    order: Order = "big" if data[:8] == MAGIC[::-1] else "little"
    try:
        framed = len(data) % 8 == 0 and all(True for _ in fxt_model.framed_records(data, order))
    except AssertionError:
        return
    if framed:
        model = [
            plain((entry.offset, entry.time, entry.record, entry.end, entry.provider))
            for entry in fxt_model.read(data, order)
        ]
        require([plain(tuple(entry)) for entry in entries] == model, "every record means what the model says")


def seeds() -> Iterator[bytes]:
    """Yield the vectors in both byte orders, with a magic number before them, and the small traces of the corpus."""
    corpus = CORPUS / "fxt"
    for vector in json.loads((corpus / "vectors.json").read_text("utf-8")):
        data = MAGIC + bytes.fromhex(vector["hex"])
        yield data
        with contextlib.suppress(EncodeError):  # what is kept as bytes keeps its byte order
            yield b"".join([encode(record, "big") for record in FxtTrace(data).records(resolve=False)])
    for path in sorted(corpus.glob("*.fxt")):
        if path.stat().st_size < MAX_SEED_SIZE:
            yield path.read_bytes()


@cache
def _records() -> list[bytes]:
    """Return records of both byte orders, without the records before them."""
    return [seed[len(MAGIC) :] for seed in seeds()]


def mutate(data: bytes, most: int, draw: random.Random, change: Change) -> bytes:
    """Change a trace by whole records and by sizes, which random changes of bytes rarely keep right."""
    choice = draw.randrange(4)
    at = draw.randrange(len(data) // 8 + 1) * 8
    if choice == 0:
        data = data[:at] + draw.choice(_records()) + data[at:]
    elif choice == 1:
        rest = change(data[at:], max(most - at, 8)) if len(data) > at else b""
        data = data[:at] + _resized(rest)
    elif choice == 2:
        data = data[:at] + data[at + 8 * draw.randrange(1, 5) :]
    else:
        data = change(data, most)
    return bytes(data[:most])


def _resized(rest: bytes) -> bytes:
    """Return the bytes with the size of the first record changed to that of all bytes."""
    whole = rest[: len(rest) // 8 * 8]
    return resized(whole, "little", RECORDS) if 8 <= len(whole) < 8 * 4096 else rest


def drawn() -> Any:
    """Return damaged and arbitrary traces."""
    from hypothesis import strategies as st

    return st.sampled_from(ORDERS).flatmap(lambda order: damaged_traces(order) | arbitrary(order))


TARGET = Target(check, seeds, drawn, mutate)
