"""Annotated records, and the layouts of the format as Markdown; both from the declarations."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from fxtio.codec.annotation import AnnotatedRecord, ByteRange, Piece, explained
from fxtio.codec.canonical import classes_named
from fxtio.codec.describe import field_values
from fxtio.codec.pages import enumerations_markdown, layout_markdown, word_markdown
from fxtio.codec.record import Opaque
from fxtio.codec.show import show_value
from fxtio.errors import DecodeError
from fxtio.finding import Finding
from fxtio.report import counted
from fxtio.uftrace import enums, layout, payloads
from fxtio.uftrace.enums import RecordType
from fxtio.uftrace.events import data_of
from fxtio.uftrace.frames import Chunk
from fxtio.uftrace.reader import UftraceTrace
from fxtio.uftrace.records import CLASSES, Event, FunctionEntry, FunctionExit
from fxtio.uftrace.values import meanings

Kinds = frozenset[type[Any]]
_WORD = 8
_OTHER_WORDS = (layout.RingWord, layout.CommitWord, layout.DataLocWord, layout.PerfMiscWord)
_FIELDS = layout.RecordWord.fields


kinds_of = partial(classes_named, classes=(*CLASSES.values(), Opaque))
"""Returns the classes of records that a name stands for, see `classes_named`."""


def explain(trace: UftraceTrace, *, record: int | None, offset: int, kinds: Kinds | None) -> Iterator[AnnotatedRecord]:
    """Yield annotated records, see `fxtio.formats.ExplainRoom.explain`.

    They are counted over all tasks, and bytes over the files of all tasks in the order of `trace.tids`.
    """
    return explained(trace, _pieces(trace), record=record, offset=offset, kinds=kinds)


def offset_of(trace: UftraceTrace, finding: Finding) -> int | None:
    """Return the offset of a finding as `explain` counts, over the files of all tasks; None in any other file."""
    begin = 0
    for tid in trace.tids:
        name = f"{tid}.dat"
        if name == finding.file:
            return begin + finding.offset
        begin += trace.directory.size(name)
    return None


def _pieces(trace: UftraceTrace) -> Iterator[Piece]:
    """Yield the records of all tasks, and the bytes that are no records."""
    number = begin = 0
    tid = None
    for chunk in trace.chunks():
        if tid is not None and chunk.tid != tid:
            begin += trace.directory.size(f"{tid}.dat")
        tid = chunk.tid
        place = partial(Piece, file=chunk.file, base=begin)
        if chunk.gap is not None:
            size = len(chunk.gap)
            yield place(None, begin + chunk.base, size, Opaque, partial(_gap, chunk.gap))
            continue
        words = chunk.block.words
        for at, size in zip(chunk.at.tolist(), chunk.size.tolist(), strict=True):
            cls = CLASSES[RecordType(_FIELDS["type"].get(int(words[at + 1])))]
            name, offset = f"{cls.__name__} of task {tid}", begin + chunk.base + at * _WORD
            yield place(number, offset, size * _WORD, cls, partial(_ranges, chunk, cls, at, size), name)
            number += 1


def _gap(raw: bytes) -> list[ByteRange]:
    return [ByteRange(0, raw, "bytes", f"{counted(len(raw), 'byte')}, not a record")]


def _ranges(chunk: Chunk, cls: Any, at: int, size: int) -> list[ByteRange]:
    raw = bytes(chunk.block.data[at * _WORD : (at + size) * _WORD])
    time, word = int(chunk.block.words[at]), int(chunk.block.words[at + 1])
    is_call = cls in (FunctionEntry, FunctionExit)
    function = chunk.functions.name_at(_FIELDS["address"].get(word)) if is_call else ""
    return [
        ByteRange(0, raw[:_WORD], "header", bits=field_values(cls.words[0], time)),
        ByteRange(_WORD, raw[_WORD : 2 * _WORD], "header", function, field_values(cls.words[1], word)),
        *_payload(cls, word, raw[2 * _WORD :], chunk),
    ]


def _payload(cls: type[Any], word: int, raw: bytes, chunk: Chunk) -> Iterator[ByteRange]:
    """Yield the annotated payload of a record."""
    if not _FIELDS["more"].get(word):
        return
    begin = 2 * _WORD
    if cls is Event:
        data = data_of(raw, chunk.order)
        yield ByteRange(begin, raw, "payload", f"{counted(len(data), 'byte')} of data: {data.hex(' ')}")
        return
    specs = chunk.functions.specs_at(_FIELDS["address"].get(word), is_exit=cls is FunctionExit)
    if not chunk.has_specs or not specs:
        yield ByteRange(begin, raw, "payload", "no specification; the values are unknown")
        return
    try:
        values = payloads.decode(specs, raw, chunk.order)
    except DecodeError as error:
        yield ByteRange(begin, raw, "payload", fault=error.message)
        return
    names = meanings(chunk.functions, specs, values, _FIELDS["address"].get(word))
    texts = [
        f"{spec}={show_value(item)}" + (f" ({names[spec.label]})" if spec.label in names else "")
        for spec, item in zip(specs, values, strict=True)
    ]
    yield ByteRange(begin, raw, "payload", ", ".join(texts))


def describe_markdown() -> str:
    """Return the layouts of the format as a page of Markdown."""
    lines = [
        "# uftrace",
        "",
        "Generated from the declarations in `fxtio.uftrace.layout` and `fxtio.uftrace.records`.",
        "",
    ]
    lines += ["## Records", "", *(layout_markdown(cls) for cls in CLASSES.values())]
    lines += ["## Other words", "", *(word_markdown(word) for word in _OTHER_WORDS)]
    lines.append(enumerations_markdown(enums))
    return "\n".join(lines)
