"""Explain the format to people: the annotated bytes of a trace, and the reference of all layouts.

Both come from the declarations, see `fxtio.codec.describe`.  This module adds the order of the specification, and what
only a reading knows: where records are, the values of slots there, and the bytes between records.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np

from fxtio.codec.annotation import AnnotatedRecord, ByteRange, Piece, explained, the_end
from fxtio.codec.canonical import classes_named
from fxtio.codec.columns import Block, StreamColumn
from fxtio.codec.describe import Resolve, annotate
from fxtio.codec.docstrings import doc_of, title_of
from fxtio.codec.pages import enumerations_markdown, layout_markdown, word_markdown
from fxtio.codec.parts import Part
from fxtio.codec.record import Opaque, Record
from fxtio.errors import FormatError
from fxtio.fxt import enums, layout
from fxtio.fxt.frames import Frame
from fxtio.fxt.reader import FxtTrace
from fxtio.fxt.records import ARGUMENTS, RECORDS, StringReference
from fxtio.fxt.reference_columns import StringColumn, ThreadColumn
from fxtio.fxt.state import Batch
from fxtio.report import quoted

_MAX_WORDS_SHOWN = layout.MAX_RECORD_WORDS + 1
"""How many words are kept to show bytes between records."""

_SHOWN_IN_RANGES = frozenset({"fxt.string.undefined", "fxt.thread.undefined"})


kinds_of = partial(classes_named, classes=(*RECORDS.classes, Opaque))
"""Returns the classes of records that a name stands for, see `classes_named`."""


def explain(
    trace: FxtTrace, *, record: int | None = None, offset: int = 0, kinds: frozenset[type[Any]] | None = None
) -> Iterator[AnnotatedRecord]:
    """Yield the annotated records of a trace, see `fxtio.formats.ExplainRoom.explain`."""
    pieces = _pieces(trace, record or 0, offset)
    return explained(trace, pieces, record=record, offset=offset, kinds=kinds, hidden=_SHOWN_IN_RANGES)


def _pieces(trace: FxtTrace, record: int, offset: int) -> Iterator[Piece]:
    """Yield the records of a trace and the bytes between them, without batches before a record or an offset."""
    number = end = 0
    tail: Block | None = None
    for batch in trace.record_batches(forget=True):
        frame = batch.frame
        stops = frame.offsets + frame.size * 8
        if number + len(batch) > record and int(stops[-1]) > offset:
            columns = (column.tolist() for column in (frame.offsets, stops, frame.kind))
            for row, (begin, stop, kind) in enumerate(zip(*columns, strict=True)):
                if begin > end:
                    block = _copy_words(frame, end) if end >= frame.base else tail or _head(trace)
                    yield _gap(block, end, begin)
                ranges = partial(_ranges, batch, row)
                yield Piece(number + row, begin, stop - begin, _class_of(kind), ranges, _name_of(kind))
                end = stop
        number += len(batch)
        end = int(stops[-1])
        tail = _copy_words(frame, end)
    if trace.position > end:
        yield _gap(tail or _head(trace), end, trace.position)
    yield the_end(trace.position)


def _ranges(batch: Batch, row: int) -> list[ByteRange]:
    block, at = batch.frame.block, int(batch.frame.at[row])
    return annotate(RECORDS, block.words.data, block.data, at, at + int(batch.frame.size[row]), _resolver(batch, row))


def _gap(block: Block, begin: int, end: int) -> Piece:
    """Return bytes that are not a record as the record that their first word claims, if its words are available.

    Args:
        block: the words from the byte `begin` on, as far as they are available.
        begin: the byte offset of the bytes.
        end: the byte offset after them.
    """
    ranges: list[ByteRange] = []
    claim, spec = "no record", ""
    first = int(block.words[0]) if len(block.words) else 0
    size = min(RECORDS.size_of(first) or 1, (end - begin) // 8)
    if first and size <= len(block.words):
        ranges = annotate(RECORDS, block.words.data, block.data, 0, size)
        kind = RECORDS.kind_of(first)
        claim, spec = f"no record, though it begins like {_name_of(kind)}", doc_of(_class_of(kind)).spec
    return Piece(None, begin, end - begin, None, lambda: ranges, claim, spec)


def _class_of(kind: int) -> type[Any]:
    return Opaque if kind < 0 else RECORDS.classes[kind]


def _name_of(kind: int) -> str:
    return "unknown record" if kind < 0 else RECORDS.classes[kind].__name__


def _copy_words(frame: Frame, begin: int) -> Block:
    """Copy words from a byte offset on, as far as the frame has them; the memory of the frame is used again."""
    at = (begin - frame.base) // 8
    words, raw = (array[at : at + _MAX_WORDS_SHOWN].copy() for array in (frame.block.words, frame.block.raw))
    return Block(words, raw)


def _head(trace: FxtTrace) -> Block:
    """Return the first words of a trace that does not begin with a record; none if it cannot be read again."""
    head = b""
    with suppress(FormatError), closing(trace._open()) as source:
        head = source.head
    words = np.frombuffer(head, np.uint64, len(head) // 8)
    return Block(words, words)


def _resolver(batch: Batch, row: int) -> Resolve:
    """Return the function that describes the values of slots at a record."""
    rows, none = np.array([row]), np.empty(0, np.int64)
    koids, flags = np.empty(0, np.uint64), np.empty(0, bool)
    stream = StreamColumn(batch.frame.block.raw, none, none)

    def resolve(part: Part, slot: int) -> str | None:
        if isinstance(part, StringReference):
            code = batch.string_codes(StringColumn(np.array([slot], np.uint16), none, stream), rows)[0]
            return None if code < 0 else quoted(batch.strings.values[code])
        code = batch.thread_codes(ThreadColumn(np.array([slot], np.uint8), none, koids, koids, flags), rows)[0]
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
    """Return the reference of all layouts: records, arguments and enumerations, in the specification's order."""
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
    """Return the sections of the records of one type, below their common title if there are several."""
    if len(members) == 1:
        return [layout_markdown(members[0], level=2)]
    shared: list[Any] = [
        cls for cls in members[0].words[0].__mro__ if all(issubclass(m.words[0], cls) for m in members)
    ]
    return [f"## {title_of(shared[0])}\n", *(layout_markdown(cls) for cls in members)]
