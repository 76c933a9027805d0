"""What people read about the format: the reference of all its layouts, and the records of a trace taken apart.

Both come from the declarations (see `fxtio.codec.describe`).  What is added here is the order of the specification,
and what only a reading knows: where records are, what slots mean there, and what lies between them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import groupby
from typing import Any

import numpy as np

from fxtio.codec.columns import Block, KoidsColumn, StreamColumn, TextColumn
from fxtio.codec.describe import (
    Piece,
    Resolve,
    Span,
    annotate,
    doc_of,
    enumerations_markdown,
    layout_markdown,
    quoted,
    title_of,
    word_markdown,
)
from fxtio.codec.parts import Part, Text
from fxtio.codec.record import Record
from fxtio.errors import FormatError
from fxtio.finding import Finding
from fxtio.fxt import enums, layout
from fxtio.fxt.arguments import ARGUMENTS
from fxtio.fxt.batch import Batch
from fxtio.fxt.framing import Frame
from fxtio.fxt.reader import FxtTrace
from fxtio.fxt.records import RECORDS

_HELD = 4096
"""How many words are kept to show what is no record: no ordinary record is larger."""

_TOLD_BY_SPANS = frozenset({"undefined-string", "undefined-thread"})


def explain(
    trace: FxtTrace, *, record: int | None = None, offset: int = 0, kinds: frozenset[int] | None = None
) -> Iterator[Piece]:
    """Take a trace apart, from some place on.  Nothing is read that is not asked for.

    Args:
        trace: the trace.
        record: begin with this record, by its number from 0.
        offset: begin with whatever has this byte.
        kinds: only records of these kinds (indices into `RECORDS.classes`, -1 unknown), and nothing that is no record.

    Yields:
        The pieces in the order of the file.
    """
    number, end = 0, 0
    tail: Block | None = None
    for batch in trace._batches(forget=True):
        frame = batch.frame
        first = -1 if record is None else record - number
        starts = frame.at * 8 + frame.base
        stops, rows = starts + frame.size * 8, np.arange(len(starts))
        before = np.append(end, stops[:-1])
        wanted = (stops > offset) & (rows >= first)
        gaps = (starts > before) & (starts > offset) & (rows > first)
        if kinds is not None:
            wanted &= np.isin(frame.kind, list(kinds))
            gaps[:] = False
        for row in np.flatnonzero(wanted | gaps).tolist():
            if gaps[row]:
                begin, stop = int(before[row]), int(starts[row])
                held = _held(frame, begin) if begin >= frame.base else tail or _head(trace)
                yield _gap(held, begin, stop, _findings(trace, begin, stop))
            if wanted[row]:
                yield _record(trace, batch, row, number + row)
        number += len(batch)
        end = int(stops[-1])
        tail = _held(frame, end)
    stop = trace.position
    last = _findings(trace, end, stop + 1)  # a fault of the container stands behind the last byte
    if kinds is None and (record is None or number > record) and (stop > max(end, offset) or last):
        yield _gap(tail or _head(trace), end, stop, last)


def _record(trace: FxtTrace, batch: Batch, row: int, number: int) -> Piece:
    frame = batch.frame
    at, size, offset = int(frame.at[row]), int(frame.size[row]), frame.offset(row)
    spans = annotate(RECORDS, frame.block.words.data, frame.block.data, at, at + size, _resolver(batch, row))
    told = {fault for span in spans for fault in span.faults}
    findings = [
        finding
        for finding in _findings(trace, offset, offset + size * 8)
        if finding.rule not in _TOLD_BY_SPANS and finding.message not in told
    ]
    return Piece(number, offset, size * 8, *_named(int(frame.kind[row])), spans, findings)


def _gap(held: Block, begin: int, end: int, findings: list[Finding]) -> Piece:
    """Bytes that are no record, explained as the record that their first word claims, if all of that is at hand."""
    spans: list[Span] = []
    name = spec = ""
    first = int(held.words[0]) if len(held.words) else 0
    there = min(RECORDS.size_of(first) or 1, (end - begin) // 8)
    if first and there <= len(held.words):
        spans = annotate(RECORDS, held.words.data, held.data, 0, there)
        name, spec = _named(RECORDS.kind_of(first))
    claim = f"no record, though it begins like {name}" if spans else "no record"
    return Piece(None, begin, end - begin, claim, spec, spans, findings)


def _named(kind: int) -> tuple[str, str]:
    """The name of a kind of records, and what the specification calls it."""
    if kind < 0:
        return "unknown record", ""
    cls = RECORDS.classes[kind]
    return cls.__name__, doc_of(cls).spec


def _findings(trace: FxtTrace, begin: int, end: int) -> list[Finding]:
    return [finding for finding in trace.findings if begin <= finding.offset < end]


def _held(frame: Frame, begin: int) -> Block:
    """A copy of some words from an offset on, as far as they are at hand; the frame itself does not last."""
    at = (begin - frame.base) // 8
    words, raw = (array[at : at + _HELD].copy() for array in (frame.block.words, frame.block.raw))
    return Block(words, raw)


def _head(trace: FxtTrace) -> Block:
    """The first words of a trace that does not begin with a record; none if it cannot be read again."""
    head = b""
    with suppress(FormatError), closing(trace._open()) as source:
        head = source.head
    words = np.frombuffer(head, np.uint64, len(head) // 8)
    return Block(words, words)


def _resolver(batch: Batch, row: int) -> Resolve:
    """Tells what slots mean at a record."""
    rows, none = np.array([row]), np.empty(0, np.int64)
    koids, flags = np.empty(0, np.uint64), np.empty(0, bool)
    stream = StreamColumn(batch.frame.block.raw, none, none)

    def resolve(part: Part, slot: int) -> str | None:
        if isinstance(part, Text):
            code = batch.text_codes(TextColumn(np.array([slot], np.uint16), none, stream), rows)[0]
            return None if code < 0 else quoted(batch.names.values[code])
        code = batch.thread_codes(KoidsColumn(np.array([slot], np.uint8), none, koids, koids, flags), rows)[0]
        if code < 0:
            return None
        thread = batch.threads.values[code]
        return f"process {thread.process}, thread {thread.thread}"

    return resolve


_PREFACE = """\
A trace is a sequence of records, a record a sequence of words of 8 bytes. Bit 0 is the least significant one of a word,
and a range of bits includes both ends. A trace is little-endian, or big-endian throughout.
"""


def describe_markdown() -> str:
    """The reference of all layouts: every record, argument and enumeration, in the specification's order."""
    sections = ["# Fuchsia trace format\n", _PREFACE]
    sections += [word_markdown(word, level=2) for word in (layout.RecordWord, layout.LargeWord, layout.StringRefWord)]
    kind = layout.RecordWord.fields["type"]
    for _, members in groupby(RECORDS.classes, lambda cls: cls.words[0].fields[kind.name].value):
        sections += _group(list(members))
    sections += ["## Arguments\n", word_markdown(layout.ArgumentWord)]
    sections += [layout_markdown(cls) for cls in ARGUMENTS.classes]
    sections.append(enumerations_markdown(enums))
    return "\n".join(sections)


def _group(members: list[type[Record]]) -> list[str]:
    """The records of one type: a section each, below the title that they share."""
    if len(members) == 1:
        return [layout_markdown(members[0], level=2)]
    shared: list[Any] = [
        cls for cls in members[0].words[0].__mro__ if all(issubclass(m.words[0], cls) for m in members)
    ]
    return [f"## {title_of(shared[0])}\n", *(layout_markdown(cls) for cls in members)]
