"""Views of a batch, for the rules: the places of its records, its references as codes, and reports of faults."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.distinct import DistinctStrings, rows_of_each
from fxtio.codec.record import Record
from fxtio.errors import shown
from fxtio.finding import KEPT_PER_RULE, Findings
from fxtio.fxt.records import Thread
from fxtio.fxt.reference_columns import StringColumn, ThreadColumn
from fxtio.fxt.state import Batch
from fxtio.references import Placed

MAX_KEPT = 65_536
"""The most open spans, operations, threads or objects that a rule remembers between batches."""

Message = str | Callable[[int], str]
"""The message of a finding, empty for that of the rule; or a function that makes it of the number of the fault."""


def report_at(findings: Findings, rule: str, offsets: Array, message: Message) -> None:
    """Add a finding for each of some byte offsets; those that would not be kept are only counted."""
    room = max(1, KEPT_PER_RULE - findings.counts[f"{findings.format}.{rule}"])
    texts = (message if isinstance(message, str) else message(index) for index in range(len(offsets)))
    places = offsets[: room - 1].tolist()
    for offset, text in zip(places, texts, strict=False):
        findings.add(rule, offset, text)
    rest = len(offsets) - len(places)
    if rest:
        findings.add(rule, int(offsets[len(places)]), next(texts), times=rest)


def by_provider(provider: int | Array) -> Sequence[tuple[int, Array | slice]]:
    """Return each provider of some rows with its rows, in ascending order."""
    return [(provider, slice(None))] if isinstance(provider, int) else rows_of_each(provider)


class Keys:
    """Numbers that stand for texts, the same in all batches: codes of strings are not.

    Attributes:
        hashes: the number of each code (uint64), 0 for the empty string; the last one is for the code -1.
    """

    def __init__(self) -> None:
        self.hashes: Array = np.zeros(2, np.uint64)
        self._strings: DistinctStrings | None = None

    def enter(self, strings: DistinctStrings) -> None:
        """Take the strings of a batch."""
        count = len(strings.values)
        if strings is self._strings and len(self.hashes) == count + 1:
            return
        have = len(self.hashes) - 1 if strings is self._strings else 1
        self._strings = strings
        hashes = np.zeros(count + 1, np.uint64)
        hashes[:have] = self.hashes[:have]
        hashes[have:count] = [hash(text) % 2**63 + 1 for text in strings.values[have:]]
        self.hashes = hashes

    def of(self, names: Array, categories: Array) -> Array:
        """Return numbers that stand for names together with categories (codes), 0 for an empty name (uint64)."""
        hashes = self.hashes[names]
        keys: Array = np.maximum(hashes + np.uint64(3) * self.hashes[categories], 1)
        if not hashes.all():
            keys[hashes == 0] = 0
        return keys


class View:
    """A batch, as the rules see it.

    Args:
        batch: the batch.
        keys: stands for texts in all batches.

    Attributes:
        batch: the batch.
        findings: takes the faults.
        present: the classes of the batch's records.
    """

    def __init__(self, batch: Batch, keys: Keys) -> None:
        self.batch = batch
        self.findings = batch.reading.findings
        self.present = frozenset(batch.classes())
        self._keys = keys
        self._names: dict[tuple[type[Record], str], Array] = {}
        self._threads: dict[tuple[type[Record], str], Array] = {}
        self._noted: defaultdict[str, list[Placed]] = defaultdict(list)
        self._argument_names: dict[int, Array] = {}  # the batch keeps the columns, so that their ids stay theirs

    def offsets(self, rows: Array) -> Array:
        """Return the byte offsets of records."""
        return self.batch.frame.at[rows] * 8 + self.batch.frame.base

    def report(self, rule: str, rows: Array, message: Message = "") -> None:
        """Add a finding for each of some records."""
        if len(rows):
            report_at(self.findings, rule, self.offsets(rows), message)

    def note(self, field: str, numbers: Array, rows: Array) -> None:
        """Note numbers that name or use something, with the records that have them."""
        self._noted[field].append((numbers, self.offsets(rows)))

    def noted(self, field: str) -> Placed | None:
        """Return the numbers that were noted, see `fxtio.references.References.add`."""
        parts = self._noted.get(field)
        if parts is None:
            return None
        numbers, offsets = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        order = np.argsort(offsets, kind="stable")
        return numbers[order], offsets[order]

    def codes(self, cls: type[Record], field: str) -> Array:
        """Return the codes of a string reference in all records of a class; -1 is one that is not defined."""
        codes = self._names.get((cls, field))
        if codes is None:
            rows, columns = self.batch.columns(cls)
            codes = self._names[cls, field] = self.batch.string_codes(columns[field], rows)
        return codes

    def threads(self, cls: type[Record], field: str) -> Array:
        """Return the codes of a thread reference in all records of a class; -1 is one that is not defined."""
        codes = self._threads.get((cls, field))
        if codes is None:
            rows, columns = self.batch.columns(cls)
            codes = self._threads[cls, field] = self.batch.thread_codes(columns[field], rows)
        return codes

    def argument_codes(self, column: StringColumn, rows: Array) -> Array:
        """Return the codes of a string reference in arguments of some records; -1 is one that is not defined."""
        codes = self._argument_names.get(id(column))
        if codes is None:
            codes = self._argument_names[id(column)] = self.batch.string_codes(column, rows)
        return codes

    def codes_of(self, *texts: str) -> list[int]:
        """Return the codes of texts; new ones get a code."""
        return [self.batch.strings.code(text) for text in texts]

    def name_keys(self, cls: type[Record]) -> Array:
        """Return for each event of a class a number that stands for its name and category; 0 without a name."""
        names, categories = self.codes(cls, "name"), self.codes(cls, "category")  # some strings are new
        self._keys.enter(self.batch.strings)
        return self._keys.of(names, categories)

    def text(self, code: int) -> str:
        """Return the text of a code for messages."""
        return shown(self.batch.strings.values[code]) if code >= 0 else "a name that is not defined"

    def thread(self, code: int) -> Thread | None:
        """Return the thread of a code; None for -1."""
        return self.batch.threads.values[code] if code >= 0 else None


def string_fields(cls: type[Record], columns: dict[str, Any]) -> list[str]:
    """Return the names of the fields of a class that are references to strings."""
    return [name for name in cls.__struct_fields__ if isinstance(columns.get(name), StringColumn)]


def thread_fields(cls: type[Record], columns: dict[str, Any]) -> list[str]:
    """Return the names of the fields of a class that are references to threads."""
    return [name for name in cls.__struct_fields__ if isinstance(columns.get(name), ThreadColumn)]


def empty_references(column: StringColumn) -> Array:
    """Return the indices of references to the empty string: slot 0, or a text of length 0."""
    if not len(column.slot) or (not len(column.rows) and int(column.slot.min()) > 0):
        return column.rows[:0]
    empty = column.slot == 0
    empty[column.rows] = column.stream.length == 0
    return np.flatnonzero(empty)
