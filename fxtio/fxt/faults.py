"""Tell apart what may be wrong with a record that does not agree with its header, by what would make it right.

Readers notice only that an argument, or the record, has another size than its header says.  Here the record is decoded
again with another header: if it then is right to the last bit, that header is what the producer meant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.columns import Columns, Members, lane
from fxtio.codec.parts import Many
from fxtio.codec.record import Record, layout_of
from fxtio.codec.word import Field
from fxtio.fxt import layout as w
from fxtio.fxt import records as r
from fxtio.fxt.enums import ArgumentType, RecordType
from fxtio.fxt.records import ARGUMENTS
from fxtio.report import counted

if TYPE_CHECKING:
    from fxtio.fxt.frames import Frame
IsRight = Callable[[Array], bool]
"""Returns whether some words are one record that would be encoded to the same bytes."""

Fault = tuple[str, str]
"""A rule and a message."""

MAX_EXAMINED = 64
"""The most records of a batch with the same fault that are examined; the others count as most of these do."""

_COUNT = "arg_count"

_BY_RULE: dict[str, Fault] = {
    "arg.size": ("arg.beyond-record", "an argument goes beyond its record"),
    "framing.record-long": ("framing.record-long", "a record has more words than its content"),
    "event.scope": ("event.scope", "the scope of an instant is none of those that have a meaning"),
    "bits.padding": ("bits.padding", "the bytes that fill up the last word are not zero"),
    "bits.reserved": ("bits.reserved", "bits that must be zero are set in a header"),
}

_UNDEFINED_VALUES: dict[type[Record], str] = {
    r.ProviderEvent: "provider.event",
    r.Blob: "blob.type",
    r.KernelObject: "object.type",
    r.LegacyContextSwitch: "sched.state",
    r.ContextSwitch: "sched.state",
}
"""The rule about values that the specification does not define, for each class with a field of such values."""

_PAYLOADS = (r.LargeBlob, r.LargeBlobNoMetadata)

_UNDEFINED_TYPES: dict[RecordType, tuple[str, str, type[Any], str]] = {
    RecordType.METADATA: ("framing.unknown-metadata", "a metadata record", w.MetadataWord, "metadata_type"),
    RecordType.EVENT: ("event.unknown", "an event", w.EventWord, "event_type"),
    RecordType.SCHEDULING: ("sched.type", "a scheduling record", w.SchedulingWord, "scheduling_type"),
    RecordType.PROFILER: ("profiler.type", "a profiler record", w.ProfilerWord, "profiler_type"),
    RecordType.LARGE: ("framing.unknown-large", "a large record", w.LargeBlobWord, "blob_format"),
}
"""For each type of record with subtypes the rule about undefined ones, its name, and the field of the subtype."""


def _type_bits() -> int:
    fields = [w.RecordWord.fields["type"], *(word.fields[name] for _, _, word, name in _UNDEFINED_TYPES.values())]
    return sum({2**bit for field in fields for bit in range(field.lo, field.hi + 1)})


TYPE_BITS = _type_bits()
"""The bits of a header that tell, for some type of record, its type and subtype."""


def undefined_type(header: int) -> Fault:
    """Return the fault of a record whose type, or subtype, the specification does not define."""
    number = int(w.RecordWord.fields["type"].get(header))
    for kind, (rule, subject, word, name) in _UNDEFINED_TYPES.items():
        if number == kind:
            subtype = int(word.fields[name].get(header))
            return rule, f"{subject} of type {subtype}, which the specification does not define"
    return "framing.unknown-record", f"a record of type {number}, which the specification does not define"


def undefined_value(cls: type[Record]) -> str:
    """Return the rule about values of records of a class that the specification does not define."""
    return _UNDEFINED_VALUES[cls]


def refined(frame: Frame, cls: type[Record], rule: str, rows: Array, is_right: IsRight) -> list[tuple[Fault, Array]]:
    """Return what is wrong with some records of a class, and with which.

    Args:
        frame: the records.
        cls: their class.
        rule: the rule that the reader names, see `can_refine`.
        rows: their numbers (ascending).
        is_right: returns whether the words of a record are right.
    """
    faults = [_fault(cls, rule, _words(frame, row), is_right) for row in rows[:MAX_EXAMINED].tolist()]
    if len(rows) > MAX_EXAMINED:
        faults += [Counter(faults).most_common(1)[0][0]] * (len(rows) - MAX_EXAMINED)
    by_fault: dict[Fault, list[int]] = {}
    for fault, row in zip(faults, rows.tolist(), strict=True):
        if fault is not None:
            by_fault.setdefault(fault, []).append(row)
    return [(fault, np.array(numbers, np.int64)) for fault, numbers in by_fault.items()]


def refusal(cls: type[Record], rule: str, message: str, words: Array, is_right: IsRight | None) -> Fault:
    """Return the fault of a record that cannot be decoded.

    Args:
        cls: its class.
        rule: the rule that the decoder names.
        message: the decoder's message.
        words: the words of the record, as native integers.
        is_right: returns whether the words of a record are right; None to do without, which is quick.
    """
    if cls is r.Initialization and rule == "framing.record-short":
        return "clock.short", "an initialization record without the word of the rate"
    if cls in _PAYLOADS and rule == "framing.stream-over-record":
        return "large.payload", message
    if rule in ("arg.size", "framing.record-short"):
        fault = _fault_of_size(cls, "arg.size", words, is_right)
        if rule == "arg.size" or fault[0] in ("arg.count-high", "arg.counter-id-first"):
            return fault
    return rule, message


def _words(frame: Frame, row: int) -> Array:
    at = int(frame.at[row])
    words: Array = frame.block.words[at : at + int(frame.size[row])]
    return words


def _fault(cls: type[Record], rule: str, words: Array, is_right: IsRight) -> Fault | None:
    """Return the fault of a record; None if another rule names it."""
    if (cls, rule) in _ALONE:
        return _ALONE[cls, rule](words)
    return _fault_of_size(cls, rule, words, is_right)


def _fault_of_size(cls: type[Record], rule: str, words: Array, is_right: IsRight | None) -> Fault:
    """Return the fault of a record; `rule` is `arg.size`, `framing.record-long` or `event.scope`."""
    if cls is r.Magic:
        return "framing.magic-size", "a magic number record of more than one word"
    if cls in _PAYLOADS and rule == "framing.record-long":
        return "large.payload", "the payload is shorter than its record"
    if is_right is None or len(words) > w.MAX_RECORD_WORDS or _COUNT not in cls.words[0].fields:
        return _BY_RULE[rule]
    field = cls.words[0].fields[_COUNT]
    count = int(field.get(int(words[0])))
    if rule == "arg.size":
        if cls is r.Counter and _has_id_first(cls, words, field, is_right):
            return "arg.counter-id-first", "the counter's id is before its arguments, as ftr writes it"
        fewer = next((few for few in range(count - 1, -1, -1) if is_right(_with(words, field, few))), None)
        if fewer is not None:
            return "arg.count-high", f"the header says {counted(count, 'argument')}, the record has {fewer}"
        return _size_fault(cls, words, field, count, is_right)
    counts = range(count + 1, field.mask + 1)
    more = next((much for much in counts if is_right(_with(words, field, much))), None)
    if more is not None:
        return "arg.count-low", f"the header says {counted(count, 'argument')}, the record has {more}"
    return _BY_RULE[rule]


def _name_too_short(words: Array) -> Fault:
    """Return the fault of a provider info record with more words than its name."""
    return _NAME_WORDS if _counts_words(words) else _BY_RULE["framing.record-long"]


def _name_padding(words: Array) -> Fault | None:
    """Return the fault of a provider info record whose name has padding that is not zero."""
    if not _counts_words(words):
        return _BY_RULE["bits.padding"]
    return _NAME_WORDS if len(words) == 2 else None  # with more words, the record is longer than the name, too


def _counts_words(words: Array) -> bool:
    """Return whether the length of a provider's name is the number of its words."""
    length = int(w.ProviderInfoWord.fields["name_size"].get(int(words[0])))
    return length == len(words) - 1 and int(words[-1]) != 0


def _log_bits(words: Array) -> Fault:
    """Return the fault of a log record with reserved bits."""
    if int(words[0]) >= 2**56:
        return "log.reserved", "the header is one of Fuchsia's diagnostics stream, not of a trace"
    return _BY_RULE["bits.reserved"]


_NAME_WORDS: Fault = ("provider.name-words", "the length of the name is its number of words")

_ALONE: dict[tuple[type[Record], str], Callable[[Array], Fault | None]] = {
    (r.ProviderInfo, "framing.record-long"): _name_too_short,
    (r.ProviderInfo, "bits.padding"): _name_padding,
    (r.Log, "bits.reserved"): _log_bits,
}
"""The functions that tell the fault of records of a class from their words alone, for a rule that the reader names."""


def can_refine(cls: type[Record], rule: str) -> bool:
    """Return whether `refined` can tell more about the fault of records of a class."""
    return rule in ("arg.size", "framing.record-long", "event.scope") or (cls, rule) in _ALONE


_MISPLACED = "the value of a boolean is in bit 16, within the reference of the name, as ocaml-trace writes it"

_NAME, _ARGUMENT_SIZE = w.BoolArgumentWord.fields["name"], w.BoolArgumentWord.fields["size"]
_ARGUMENT_TYPE = w.BoolArgumentWord.fields["type"]
_LENGTH, _INLINE = w.StringRefWord.fields["index"], w.StringRefWord.fields["inline"]
_WORD = 8


def of_arguments(words: Array, members: Members) -> Iterator[tuple[str, Array, str]]:
    """Yield what is wrong with arguments that are too short, and with booleans whose value is in the wrong bit.

    Args:
        words: the words of the batch.
        members: the arguments of some records.

    Yields:
        A rule, the records (indices, not empty), and a message.
    """
    if len(members.short):
        lost = _is_too_long_by_boolean(words[members.short_at])
        if not lost.all():
            yield "arg.short", members.short[~lost], "an argument is too short for its type and is left out"
        if lost.any():
            message = f"{_MISPLACED}: the argument is left out, as its name seems to go beyond its end"
            yield "arg.bool-in-name", members.short[lost], message
    for kind, indices, columns in members.groups:
        if kind == ArgumentType.BOOL and len(rows := has_misplaced_boolean(columns)):
            owners = np.repeat(np.arange(len(members.many.count)), members.many.count)
            yield "arg.bool-in-name", owners[indices][rows], f"{_MISPLACED}: the name has a NUL at its end"


def has_misplaced_boolean(columns: Columns) -> Array:
    """Return the boolean arguments (indices) whose value is in the lowest bit of an inline name's length.

    Args:
        columns: the columns of boolean arguments.

    The value seems to be false then, and the name has one byte more than it should, which is the first of its padding.
    """
    name = columns["name"]
    odd = np.flatnonzero(name.stream.length % 2)
    odd = odd[~columns["value"][name.rows[odd]].astype(bool)]
    last = name.stream.take(odd).last_bytes()
    misplaced: Array = name.rows[odd[last == 0]]
    return misplaced


def _is_too_long_by_boolean(headers: Array) -> Array:
    """Return for arguments that are too short whether they are right without the lowest bit of the name's length.

    Args:
        headers: their first words (uint64).

    A boolean in that bit makes the name longer than the argument if its true length is a number of whole words.
    """
    name = lane(headers, _NAME)
    length = _LENGTH.get(name).astype(np.int64)
    size = lane(headers, _ARGUMENT_SIZE).astype(np.int64)
    is_boolean = (lane(headers, _ARGUMENT_TYPE) == ArgumentType.BOOL) & (_INLINE.get(name) != 0)
    misplaced: Array = is_boolean & (length - 1 == (size - 1) * _WORD)
    return misplaced


def _has_id_first(cls: type[Record], words: Array, field: Field, is_right: IsRight) -> bool:
    """Return whether a counter is right once its id is moved after the arguments, or their words are reversed."""
    place = _first_argument(cls, words, field, is_right)
    behind = words[place + 1 :]
    orders = (np.append(behind, words[place : place + 1]), words[place:][::-1])
    return place > 0 and any(is_right(np.append(words[:place], order)) for order in orders)


def _size_fault(cls: type[Record], words: Array, field: Field, count: int, is_right: IsRight) -> Fault:
    """Return whether an argument has size 0 or goes beyond the record."""
    at = _first_argument(cls, words, field, is_right)
    for number in range(count if at else 0):
        size = ARGUMENTS.size_of(int(words[at])) if at < len(words) else 1
        if size == 0:
            return "arg.size-zero", f"argument {number} of {count} has size 0"
        if at + size > len(words):
            break
        at += size
    return _BY_RULE["arg.size"]


def _first_argument(cls: type[Record], words: Array, field: Field, is_right: IsRight) -> int:
    """Return the index of the word where the arguments of a record begin; 0 if it is not among the first ones."""
    parts = [part for _, part in layout_of(cls).parts]
    many = next(place for place, part in enumerate(parts) if isinstance(part, Many))
    behind = np.zeros(sum(part.tail_words() or 0 for part in parts[many + 1 :]), np.uint64)
    size = w.RecordWord.fields["size"]
    for place in range(len(cls.words), min(len(words), MAX_EXAMINED) + 1):
        alone = _with(_with(np.append(words[:place], behind), field, 0), size, place + len(behind))
        if is_right(alone):
            return place
    return 0


def _with(words: Array, field: Field, value: int) -> Array:
    """Return the words of a record with another value in a field of the header."""
    changed = words.copy()
    changed[0] = (int(words[0]) & ~field.put(field.mask)) | field.put(value)
    return changed
