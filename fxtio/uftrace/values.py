"""The values in the payloads of a chunk of records, as columns.

Records whose payloads have the same specifications are decoded together, value by value; a cursor for each record
skips strings, which differ in length.  Enumerations and pointers also have a meaning: the name of the value, and the
function or variable at the address.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from fxtio import _native
from fxtio.codec.columns import StreamColumn
from fxtio.codec.strings import DistinctStrings
from fxtio.uftrace import payloads
from fxtio.uftrace.argspec import EnumNames, ValueSpec, ValueSpecs, enum_label
from fxtio.uftrace.enums import RecordType
from fxtio.uftrace.events import ADDRESSES
from fxtio.uftrace.frames import Chunk
from fxtio.uftrace.layout import RecordWord
from fxtio.uftrace.state import AddressSpace

Array = np.ndarray[Any, Any]

FORMATS = "diuxocpefsSt"
"""The letters of value formats, by code."""

_FIELDS = RecordWord.fields
_HEADER = 16
_NULL = payloads.NULL.decode("utf-8", "surrogateescape")


@dataclass(slots=True)
class ValueColumns:
    """The values in the payloads of a chunk.

    Attributes:
        row: the row of the record in the chunk (int64).
        label: the code of the name of the value, such as `arg1` (int32).
        format: the code in `FORMATS` (int8).
        size: the size of the value in bytes; 0 for a string, whose length precedes it (int16).
        bits: an integer, sign-extended if it is signed, or a double, as 64 bits (uint64); 0 for strings and structures.
        text: the code of a string, or -1 (int32).
        type: the code of the name of the enumeration or structure, or -1 (int32).
        meaning: the code of the name of an enumeration's value, or of what is at an address, or -1 (int32).
    """

    row: Array
    label: Array
    format: Array
    size: Array
    bits: Array
    text: Array
    type: Array
    meaning: Array

    @classmethod
    def empty(cls) -> ValueColumns:
        """Return no values."""
        rows, codes = np.empty(0, np.int64), np.empty(0, np.int32)
        return cls(
            rows, codes, codes.astype(np.int8), codes.astype(np.int16), rows.view(np.uint64), codes, codes, codes
        )

    @classmethod
    def joined(cls, parts: list[ValueColumns]) -> ValueColumns:
        """Return the values of all parts in the order of the records."""
        if len(parts) == 1:
            return parts[0]
        columns = {item.name: np.concatenate([getattr(part, item.name) for part in parts]) for item in fields(cls)}
        order = np.argsort(columns["row"], kind="stable")
        return cls(**{name: column[order] for name, column in columns.items()})


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
    codes, first = np.empty(len(rows), np.int32), np.empty(len(rows), np.int64)
    count = _native.distinct(key, codes, first, payloads.SEED)
    members: dict[tuple[Any, ...], list[int]] = {}
    found: dict[tuple[Any, ...], tuple[ValueSpecs, tuple[EnumNames, ...]]] = {}
    for code, value in enumerate(key[first[:count]].tolist()):
        address, is_exit = divmod(value, 2)
        specs = chunk.functions.specs_at(address, is_exit=bool(is_exit))
        if specs:
            enums = enums_of(chunk.functions, specs, address)
            group = (specs, *(id(names) for names in enums if names))
            found.setdefault(group, (specs, enums))
            members.setdefault(group, []).append(code)
    for group, numbers in members.items():
        chosen = rows if len(numbers) == count else rows[np.isin(codes, np.array(numbers, np.int32))]
        yield _Group(*found[group], chosen)


def enums_of(functions: AddressSpace, specs: ValueSpecs, address: int) -> tuple[EnumNames, ...]:
    """Return, for each specification of the function at an address, the names of the values of its enumeration."""
    if not any(spec.format == "e" for spec in specs):
        return ({},) * len(specs)
    index = functions.index(address)
    return tuple(functions.enum(index, spec.type) if spec.format == "e" else {} for spec in specs)


def payload_columns(chunk: Chunk, names: DistinctStrings) -> ValueColumns:
    """Return the values in the payloads of a chunk."""
    data: _BlockBytes | None = None
    parts = []
    for group in _groups(chunk):
        data = data or _BlockBytes(chunk)
        parts.append(_group_columns(data, chunk, group, names))
    return ValueColumns.joined(parts) if parts else ValueColumns.empty()


def _group_columns(data: _BlockBytes, chunk: Chunk, group: _Group, names: DistinctStrings) -> ValueColumns:
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
            meaning[:, number] = _meanings(spec, group.enums[number], bits[:, number], chunk.functions, names)
        at = at + (size + 3) // 4 * 4
    label = np.array([names.code(spec.label) for spec in specs], np.int32)
    letter = np.array([FORMATS.index(spec.format) for spec in specs], np.int8)
    sizes = np.array([spec.size for spec in specs], np.int16)
    types = np.array([names.code(spec.type) if spec.type else -1 for spec in specs], np.int32)
    return ValueColumns(
        np.repeat(rows, shape[1]), np.tile(label, shape[0]), np.tile(letter, shape[0]), np.tile(sizes, shape[0]),
        bits.reshape(-1), text.reshape(-1), np.tile(types, shape[0]), meaning.reshape(-1),
    )  # fmt: skip


def _meanings(
    spec: ValueSpec, enum: EnumNames, values: Array, functions: AddressSpace, names: DistinctStrings
) -> Array | int:
    """Return the codes of the meanings of integers (int32), -1 where they have none."""
    if spec.format == "p":
        return symbol_codes(values, functions, names)
    if spec.format != "e" or not enum:
        return -1
    distinct, inverse = np.unique(values.view(np.int64), return_inverse=True)
    labels = [enum_label(enum, value) for value in distinct.tolist()]
    codes: Array = np.array([-1 if text is None else names.code(text) for text in labels], np.int32)[inverse]
    return codes


def symbol_codes(addresses: Array, functions: AddressSpace, names: DistinctStrings) -> Array:
    """Return the codes of the names of functions and variables at addresses (int32), -1 where there are none."""
    row = np.searchsorted(functions.begin, addresses, "right") - 1
    inside = (row >= 0) & (addresses < np.append(functions.end, np.uint64(0))[row])
    codes = np.full(len(addresses), -1, np.int32)
    distinct, inverse = np.unique(row[inside], return_inverse=True)
    texts = [names.code(functions.function(index).name) for index in distinct.tolist()]
    codes[inside] = np.array(texts, np.int32)[inverse]
    return codes


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


@dataclass(slots=True)
class Structures:
    """The structures in the payloads of a chunk.

    Attributes:
        row: the row of the record in the chunk, of each structure.
        label: the names of the values, such as `arg1`.
        type: the names of the types of the structures.
        data: the bytes.
    """

    row: list[int]
    label: list[str]
    type: list[str]
    data: list[bytes]


def structures(chunk: Chunk) -> Structures:
    """Return the structures in the payloads of a chunk, in the order of the records."""
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
    return Structures(
        [row for row, _, _, _ in rows], [spec.label for _, _, spec, _ in rows], [spec.type for _, _, spec, _ in rows],
        [data for _, _, _, data in rows],
    )  # fmt: skip


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
