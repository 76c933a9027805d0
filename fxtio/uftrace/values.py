"""The values in the payloads of a chunk of records, as columns.

Records whose payloads have the same specifications are decoded together, value by value; a cursor for each record
skips strings, which differ in length.  Enumerations and pointers also have a meaning: the name of the value, and the
function or variable at the address.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.columns import StreamColumn
from fxtio.codec.distinct import DistinctStrings, number_distinct
from fxtio.finding import Findings
from fxtio.uftrace import payloads
from fxtio.uftrace.argspec import MAX_FLAGS, EnumNames, ValueSpec, ValueSpecs, enum_label
from fxtio.uftrace.enums import RecordType
from fxtio.uftrace.events import ADDRESSES
from fxtio.uftrace.frames import Chunk
from fxtio.uftrace.layout import RecordWord
from fxtio.uftrace.state import AddressSpace
from fxtio.uftrace.symbols import rows_at

FORMATS = "diuxocpefsSt"
"""The letters of value formats, by code."""

MAX_COMBINED = 1 << 15
"""The largest number of distinct values in a reading of tables that get the names of several flags of enumerations."""

_FIELDS = RecordWord.fields
_HEADER = 16
_NULL = payloads.NULL.decode("utf-8", "surrogateescape")


@dataclass(slots=True)
class ValueColumns:
    """The values in the payloads of a chunk.

    Attributes:
        specs: the specifications of the values.
        row: the row of the record in the chunk (int64).
        spec: the index of the specification of each value (int32).
        bits: an integer, sign-extended if it is signed, or a double, as 64 bits (uint64); 0 for strings and structures.
        text: the code of a string, or -1 (int32).
        meaning: the code of the name of an enumeration's value, or of what is at an address, or -1 (int32).
    """

    specs: ValueSpecs
    row: Array
    spec: Array
    bits: Array
    text: Array
    meaning: Array

    @classmethod
    def empty(cls) -> ValueColumns:
        """Return no values."""
        rows, codes = np.empty(0, np.int64), np.empty(0, np.int32)
        return cls((), rows, codes, rows.view(np.uint64), codes, codes)

    @classmethod
    def joined(cls, parts: list[ValueColumns]) -> ValueColumns:
        """Return the values of all parts in the order of the records."""
        if len(parts) == 1:
            return parts[0]
        firsts = [0, *accumulate(len(part.specs) for part in parts)]
        order = np.argsort(np.concatenate([part.row for part in parts]), kind="stable")
        spec = np.concatenate([part.spec + first for part, first in zip(parts, firsts, strict=False)])
        columns = (
            np.concatenate([getattr(part, name) for part in parts])[order] for name in ("bits", "text", "meaning")
        )
        specs = tuple(spec for part in parts for spec in part.specs)
        return cls(specs, np.concatenate([part.row for part in parts])[order], spec[order], *columns)

    def of_specs(self, value_of: Callable[[ValueSpec], int], dtype: Any) -> Array:
        """Return a property of each value's specification."""
        return np.array([value_of(spec) for spec in self.specs], dtype)[self.spec]


class CombinedNames:
    """The names of the values of enumerations in one reading, which are combined for at most `MAX_COMBINED` values.

    Args:
        findings: receives a warning at the first value without a name because of the limit.
    """

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._names: dict[tuple[int, int], str | None] = {}
        self._enums: dict[int, EnumNames] = {}  # by identity; none may be freed as long as its identity is a key
        self._is_full = False

    def label(self, enum: EnumNames, value: int, file: str, offset: int) -> str | None:
        """Return the name of a value, or the names of its flags, or None.

        Args:
            enum: the names of the values of the enumeration.
            value: the value.
            file: the file of the record.
            offset: the offset of the record in bytes.
        """
        if value in enum or len(enum) > MAX_FLAGS:
            return enum.get(value)
        key = id(enum), value
        if key in self._names:
            return self._names[key]
        if len(self._names) < MAX_COMBINED:
            self._enums[id(enum)] = enum
            self._names[key] = enum_label(enum, value)
            return self._names[key]
        if not self._is_full:
            self._is_full = True
            message = f"more than {MAX_COMBINED:,} different values combine flags; the others have no meaning"
            self._findings.add("argspec.too-many-flags", offset, message, file=file)
        return None


@dataclass(frozen=True, slots=True)
class _Group:
    """Records whose payloads are decoded together.

    Attributes:
        specs: the specifications of their values.
        enums: the names of the values of each specification's enumeration.
        rows: their rows in the chunk (int64).
    """

    specs: ValueSpecs
    enums: tuple[EnumNames, ...]
    rows: Array


def _groups(chunk: Chunk) -> Iterator[_Group]:
    """Yield the records of a chunk whose values are known, grouped by their specifications."""
    words = chunk.words
    kinds = _FIELDS["type"].get(words)
    calls = (kinds == RecordType.ENTRY) | (kinds == RecordType.EXIT)
    rows = np.flatnonzero((_FIELDS["more"].get(words) != 0) & calls)
    if not len(rows) or not chunk.has_specs:
        return
    exits = (kinds[rows] == RecordType.EXIT).astype(np.uint64)
    key = _FIELDS["address"].get(words[rows]) * np.uint64(2) + exits
    codes, first = number_distinct(key)
    numbers: dict[tuple[Any, ...], int] = {}
    groups: list[tuple[ValueSpecs, tuple[EnumNames, ...]]] = []
    number_of = np.full(len(first), -1, np.int32)  # the number of the group of each address
    for code, value in enumerate(key[first].tolist()):
        address, is_exit = divmod(value, 2)
        specs = chunk.functions.specs_at(address, is_exit=bool(is_exit))
        if specs:
            enums = enums_of(chunk.functions, specs, address)
            group = (specs, *(id(names) for names in enums if names))
            number_of[code] = numbers.setdefault(group, len(numbers))
            if len(numbers) > len(groups):
                groups.append((specs, enums))
    if len(groups) == 1 and int(number_of.min()) == 0:
        yield _Group(*groups[0], rows)
        return
    group_of = number_of[codes]
    for number, (specs, enums) in enumerate(groups):
        yield _Group(specs, enums, rows[group_of == number])


def enums_of(functions: AddressSpace, specs: ValueSpecs, address: int) -> tuple[EnumNames, ...]:
    """Return, for each specification of the function at an address, the names of the values of its enumeration."""
    if not any(spec.format == "e" for spec in specs):
        return ({},) * len(specs)
    index = functions.index(address)
    return tuple(functions.enum(index, spec.type) if spec.format == "e" else {} for spec in specs)


def payload_columns(chunk: Chunk, names: DistinctStrings, combined: CombinedNames) -> ValueColumns:
    """Return the values in the payloads of a chunk."""
    data: _BlockBytes | None = None
    parts = []
    for group in _groups(chunk):
        data = data or _BlockBytes(chunk)
        parts.append(_group_columns(data, chunk, group, names, combined))
    return ValueColumns.joined(parts) if parts else ValueColumns.empty()


def _group_columns(
    data: _BlockBytes, chunk: Chunk, group: _Group, names: DistinctStrings, combined: CombinedNames
) -> ValueColumns:
    specs, rows = group.specs, group.rows
    at = chunk.at[rows] * 8 + _HEADER
    shape = (len(rows), len(specs))
    bits, text = np.zeros(shape, np.uint64), np.full(shape, -1, np.int32)
    meaning = np.full(shape, -1, np.int32)
    for number, spec in enumerate(specs):
        place = np.minimum(at, data.last)  # the walk over the records has checked that the payload is complete
        size: int | Array = spec.size
        if spec.is_text:
            length = data.integers(place, 2, signed=False).astype(np.int64)
            text[:, number] = data.texts(place + 2, length, names)
            size = length + 2
        elif spec.format == "f":
            bits[:, number] = data.floats(place, spec.size)
        elif spec.format != "t":
            bits[:, number] = data.integers(place, spec.size, signed=spec.format in payloads.SIGNED)
            if spec.format == "p":
                meaning[:, number] = symbol_codes(bits[:, number], chunk.functions, names)
            elif enum := group.enums[number]:
                meaning[:, number] = _enum_codes(enum, bits[:, number], chunk, rows, names, combined)
        at = at + (size + 3) // 4 * 4
    spec_of = np.tile(np.arange(len(specs), dtype=np.int32), len(rows))
    columns = (bits.reshape(-1), text.reshape(-1), meaning.reshape(-1))
    return ValueColumns(specs, np.repeat(rows, len(specs)), spec_of, *columns)


def _enum_codes(
    enum: EnumNames, values: Array, chunk: Chunk, rows: Array, names: DistinctStrings, combined: CombinedNames
) -> Array:
    """Return the codes of the names of values of an enumeration in some rows of a chunk (int32), -1 for none."""
    distinct, first, inverse = np.unique(values.view(np.int64), return_index=True, return_inverse=True)
    places = zip(distinct.tolist(), chunk.offsets()[rows[first]].tolist(), strict=True)
    labels = [combined.label(enum, value, f"{chunk.tid}.dat", offset) for value, offset in places]
    codes: Array = np.array([-1 if text is None else names.code(text) for text in labels], np.int32)[inverse]
    return codes


def symbol_codes(addresses: Array, functions: AddressSpace, names: DistinctStrings) -> Array:
    """Return the codes of the names of functions and variables at addresses (int32), -1 where there are none."""
    distinct, inverse = np.unique(rows_at(functions.begin, functions.end, addresses), return_inverse=True)
    codes = [-1 if row < 0 else names.code(functions.function(row).name) for row in distinct.tolist()]
    result: Array = np.array(codes, np.int32)[inverse]
    return result


def meanings(functions: AddressSpace, specs: ValueSpecs, values: Sequence[Any], address: int) -> Mapping[str, str]:
    """Return the meanings of the values in one payload, by the names of the values that have one.

    Args:
        functions: the functions by address.
        specs: the specifications of the values.
        values: the values.
        address: an address in the function.
    """
    names: dict[str, str] = {}
    for spec, enum, value in zip(specs, enums_of(functions, specs, address), values, strict=True):
        if enum and (label := enum_label(enum, value)) is not None:
            names[spec.label] = label
        elif spec.format == "p" and (target := functions.function_at(value)) is not None:
            names[spec.label] = target.name
    return names


def addressed(values: Mapping[str, Any], functions: AddressSpace) -> Mapping[str, str]:
    """Return the functions and variables at the addresses among the values of an event, by the names of the values."""
    targets = {name: functions.function_at(values[name]) for name in ADDRESSES & values.keys()}
    return {name: target.name for name, target in targets.items() if target is not None}


def structures(chunk: Chunk) -> list[tuple[int, ValueSpec, bytes]]:
    """Return the structures in the payloads of a chunk: row, specification and bytes, in the order of the records."""
    rows: list[tuple[int, int, ValueSpec, bytes]] = []
    for group in _groups(chunk):
        places = [number for number, spec in enumerate(group.specs) if spec.format == "t"]
        if not places:
            continue
        begins = (chunk.at[group.rows] * 8 + _HEADER).tolist()
        ends = ((chunk.at[group.rows] + chunk.size[group.rows]) * 8).tolist()
        for row, begin, end in zip(group.rows.tolist(), begins, ends, strict=True):
            values = payloads.decode(group.specs, bytes(chunk.block.data[begin:end]), chunk.order)
            rows += [(row, number, group.specs[number], values[number]) for number in places]
    rows.sort(key=lambda item: item[:2])
    return [(row, spec, data) for row, _, spec, data in rows]


class _BlockBytes:
    """The bytes of a block, from which values are read; every value begins at a multiple of 4 bytes."""

    def __init__(self, chunk: Chunk) -> None:
        self.order = chunk.order
        self.prefix = "<" if chunk.order == "little" else ">"
        self.bytes = np.concatenate([chunk.block.raw.view(np.uint8), np.zeros(32, np.uint8)])
        self.last = len(self.bytes) - _HEADER

    def integers(self, at: Array, size: int, *, signed: bool) -> Array:
        """Return integers of 1, 2, 4 or 8 bytes as 64 bits."""
        kind = "i" if signed else "u"
        if size == 8:
            return self._integers8(at)
        values: Array = self.bytes.view(f"{self.prefix}{kind}{size}")[at // size]
        return values.astype(np.int64 if signed else np.uint64).view(np.uint64)

    def _integers8(self, at: Array) -> Array:
        shift = int(at[0]) % 8
        if (at % 8 == shift).all():
            words = self.bytes[shift : shift + (len(self.bytes) - 8) // 8 * 8].view(f"{self.prefix}u8")
            aligned: Array = words[at // 8].astype(np.uint64, copy=False)
            return aligned
        halves = self.bytes.view(np.uint32)
        pairs = np.stack([halves[at // 4], halves[at // 4 + 1]], axis=1)
        values: Array = pairs.view(f"{self.prefix}u8")[:, 0].astype(np.uint64)
        return values

    def floats(self, at: Array, size: int) -> Array:
        """Return floating-point numbers of 4, 8 or 10 bytes as the 64 bits of doubles."""
        if size == 8:
            return self._integers8(at)
        if size == 4:
            singles: Array = self.bytes.view(f"{self.prefix}f4")[at // 4]
            return singles.astype(np.float64).view(np.uint64)
        raws = [self.bytes[begin : begin + size].tobytes() for begin in at.tolist()]
        return np.array([payloads.decode_float(raw, self.order) for raw in raws], np.float64).view(np.uint64)

    def texts(self, at: Array, length: Array, names: DistinctStrings) -> Array:
        """Return the codes of strings (int32), -1 for null."""
        codes = np.empty(len(at), np.int32)
        for shift in np.unique(at % 8).tolist():
            rows = np.flatnonzero(at % 8 == shift)
            words = self.bytes[shift : shift + (len(self.bytes) - 8) // 8 * 8].view(np.uint64)
            codes[rows] = names.codes(StreamColumn(words, at[rows] // 8, length[rows]))
        return np.where(codes == names.code(_NULL), np.int32(-1), codes)
