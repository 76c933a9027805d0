"""Rules of the tables of strings and threads: definitions that are empty, too late, useless, or ambiguous."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.distinct import DistinctStrings
from fxtio.codec.record import Record
from fxtio.finding import Findings
from fxtio.fxt import records as r
from fxtio.fxt.enums import ArgumentType
from fxtio.fxt.faults import has_misplaced_boolean
from fxtio.fxt.reference_columns import StringColumn
from fxtio.fxt.rules.view import MAX_KEPT, View, by_provider, report_at, string_fields
from fxtio.fxt.slots import Definitions

MIN_UNUSED = 8
"""From this many strings on, it is reported if most of them are not used."""

MAX_SLOTS = 2**20
"""The most slots of all providers together that are checked for use; a provider that needs more is left out."""

_MIN_SLOTS = 256

MIN_REDEFINED = 32
"""From this many definitions on, an index is reported that is redefined nearly as often as it is used."""

_NO_OFFSET = -1
_NO_ROWS: Array = np.empty(0, np.int64)

_WITHOUT_THREAD = (r.ProfilerModule, r.ProfilerMmap)
"""The classes whose thread koid is 0, since they concern a whole process.  spec: Module record, Mmap record"""


class _Slots:
    """The string table of a provider, as far as the greatest slot that occurred.

    Attributes:
        defined: how often each slot was defined.
        used: how often it was used, as far as that is counted.
        first: the offset of the first definition of each slot, -1 for none.
        undefined: the offset of the first use of each slot that was not defined there, -1 for none.
        is_left_out: there is no room for the table, so that it is empty.
    """

    def __init__(self) -> None:
        self.defined = self.used = self.first = self.undefined = _NO_ROWS
        self.is_left_out = False

    def grow(self, size: int) -> None:
        """Add slots up to `size`."""
        more = (0, size - len(self))
        self.defined, self.used = np.pad(self.defined, more), np.pad(self.used, more)
        self.first = np.pad(self.first, more, constant_values=_NO_OFFSET)
        self.undefined = np.pad(self.undefined, more, constant_values=_NO_OFFSET)

    def leave_out(self) -> None:
        """Drop all slots, for good."""
        self.defined = self.used = self.first = self.undefined = _NO_ROWS
        self.is_left_out = True

    def __len__(self) -> int:
        return len(self.used)

    def count(self, slots: Array) -> None:
        """Count the uses of slots; those that the table does not have were not defined yet."""
        if len(slots) and int(slots.max()) >= len(self):
            slots = slots[slots < len(self)]
        if len(slots) < len(self.used) // 8:
            np.add.at(self.used, slots, 1)
        else:
            self.used += np.bincount(slots, minlength=len(self.used))

    def needs_uses(self) -> bool:
        """Return whether it matters which slots are used: some are not used yet, or are defined again and again."""
        return bool(((self.defined > 0) & (self.used == 0)).any()) or int(self.defined.max(initial=0)) > 1


class Strings:
    """The rules of the group string, and of the text of strings."""

    def __init__(self) -> None:
        self._slots: dict[int, _Slots] = {}
        self._with_nul: Array = np.zeros(1, bool)
        self._strings: DistinctStrings | None = None
        self._counted: set[int] = set()  # the providers whose uses of strings are counted in this batch
        self._defined = 0  # all slots below it are defined

    def enter(self, view: View) -> None:
        """Check a batch."""
        definitions = view.batch.string_slots.definitions
        if len(definitions.slot):
            self._check_definitions(view, definitions)
        self._counted = {number for number, table in self._slots.items() if table.needs_uses()}
        self._defined = 0 if len(definitions.slot) else view.batch.string_slots.defined(view.batch.provider)
        for cls in view.batch.classes():
            rows, columns = view.batch.columns(cls)
            for name in string_fields(cls, columns):
                if not self._is_plain(columns[name]):
                    self._check_references(view, rows, columns[name], view.codes(cls, name))
            members_rows, members = view.batch.arguments(cls)
            if len(members.many.kind):
                owners = None
                for kind, indices, argument in members.groups:
                    known = has_misplaced_boolean(argument) if kind == ArgumentType.BOOL else _NO_ROWS
                    for column in argument.values():
                        if isinstance(column, StringColumn) and not self._is_plain(column):
                            if owners is None:
                                owners = np.repeat(members_rows, members.many.count)
                            mine = owners[indices]
                            self._check_references(view, mine, column, view.argument_codes(column, mine), known)
        if len(definitions.slot):
            self._check_later(view, definitions)

    def _is_plain(self, column: StringColumn) -> bool:
        """Return whether all references are to slots that are defined, and their number does not matter."""
        if self._counted or len(column.rows):
            return False
        return not len(column.slot) or int(column.slot.max()) < self._defined

    def _table(self, provider: int, slots: Array) -> _Slots | None:
        """Return the table of a provider, with room for some slots; None if it is left out."""
        table = self._slots.setdefault(provider, _Slots())
        most = int(slots.max(initial=0))
        if most >= len(table) and not table.is_left_out:
            size = max(_MIN_SLOTS, 1 << most.bit_length())
            others = sum(len(each) for each in self._slots.values()) - len(table)
            if others + size > MAX_SLOTS:
                table.leave_out()
            else:
                table.grow(size)
        return None if table.is_left_out else table

    # ---- definitions

    def _check_definitions(self, view: View, definitions: Definitions) -> None:
        is_text = np.isin(definitions.row, view.batch.rows(r.String))  # the others are resets of a provider
        texts = definitions.take(is_text)
        provider, slot, row, code = texts.provider, texts.slot, texts.row, texts.code
        empty = code == 0
        view.report("string.empty", row[empty], lambda index: f"string {slot[empty][index]} is empty")
        same = code == view.batch.string_slots.codes(provider, slot, row - 1)
        view.report(
            "string.again",
            row[same],
            lambda index: f"string {slot[same][index]} is defined again as {view.text(int(code[same][index]))}",
        )
        nul = self._nul(view)[code]
        view.report("text.nul", row[nul], lambda index: f"a NUL in {view.text(int(code[nul][index]))}")
        offsets = view.offsets(row)
        for number, mine in by_provider(provider):
            table = self._table(number, slot[mine])
            if table is None:
                continue
            table.defined += np.bincount(slot[mine], minlength=len(table))
            initial = table.first[slot[mine]] == _NO_OFFSET
            table.first[slot[mine][initial][::-1]] = offsets[mine][initial][::-1]

    def _check_later(self, view: View, definitions: Definitions) -> None:
        """Report strings that are defined after their use."""
        offsets = view.offsets(definitions.row)
        for number, mine in by_provider(definitions.provider):
            table, slots = self._slots.get(number, _Slots()), definitions.slot[mine]
            inside = slots < len(table)
            last = np.full(len(table), _NO_OFFSET, np.int64)
            last[slots[inside]] = offsets[mine][inside]
            late = np.flatnonzero((table.undefined != _NO_OFFSET) & (last > table.undefined))
            uses = table.undefined[late]
            table.undefined[late] = _NO_OFFSET
            if len(late):
                text = "string {} is used here, and defined only later"
                report_at(view.findings, "string.later", uses, partial(_text_of, text, late))

    def _nul(self, view: View) -> Array:
        """Return for each code of a string whether it has a NUL; the last one is for the code -1."""
        strings = view.batch.strings
        if strings is not self._strings or len(self._with_nul) != len(strings.values) + 1:
            have = len(self._with_nul) - 1 if strings is self._strings else 0
            self._strings = strings
            fresh = ["\0" in text for text in strings.values[have:]]
            self._with_nul = np.concatenate([self._with_nul[:have], np.array([*fresh, False], bool)])
        return self._with_nul

    # ---- uses

    def _check_references(
        self, view: View, rows: Array, column: StringColumn, codes: Array, known: Array = _NO_ROWS
    ) -> None:
        """Note which slots are used, and check texts that stand inline, except for those whose NUL is `known`."""
        if not len(rows):
            return
        if len(column.rows):
            nul = self._nul(view)[codes[column.rows]]
            if len(known):
                nul &= ~np.isin(column.rows, known)
            view.report(
                "text.nul",
                rows[column.rows[nul]],
                lambda index: f"a NUL in {view.text(int(codes[column.rows[nul]][index]))}",
            )
        provider = view.batch.provider_of(rows)
        if int(codes.min()) < 0:
            self._note_undefined(view, rows, column.slot, codes < 0, provider)
        for number, mine in by_provider(provider) if self._counted else ():
            if number in self._counted:
                self._slots[number].count(column.slot[mine])

    def _note_undefined(self, view: View, rows: Array, slots: Array, undefined: Array, provider: Any) -> None:
        provider = provider if isinstance(provider, int) else provider[undefined]
        offsets = view.offsets(rows[undefined])
        for number, mine in by_provider(provider):
            slot = slots[undefined][mine]
            table = self._table(number, slot)
            if table is None:
                continue
            initial = table.undefined[slot] == _NO_OFFSET
            table.undefined[slot[initial][::-1]] = offsets[mine][initial][::-1]

    def finish(self, findings: Findings) -> None:
        """Check what only the end of the trace decides."""
        for table in self._slots.values():
            defined = table.defined > 0
            unused = np.flatnonzero(defined & (table.used == 0))
            count = int(np.count_nonzero(defined))
            if count >= MIN_UNUSED and 2 * len(unused) > count:
                message = f"{len(unused):,} of {count:,} strings are never used"
                findings.add("string.unused", int(table.first[unused].min()), message)
            busy = np.flatnonzero((table.defined >= MIN_REDEFINED) & (table.used < 2 * table.defined))
            for slot in busy.tolist():
                message = f"string {slot} is defined {table.defined[slot]:,} times and used {table.used[slot]:,} times"
                findings.add("string.thrash", int(table.first[slot]), message)


def _text_of(text: str, numbers: Array, index: int) -> str:
    """Return a text with a number filled in."""
    return text.format(numbers[index])


class ThreadKoids:
    """Notes the koids of threads and processes, and reports those that Perfetto cannot tell apart."""

    def __init__(self) -> None:
        self._known: dict[str, set[int]] = {"process": set(), "thread": set()}
        self._low: dict[tuple[str, int], int] = {}
        self._seen: Array = np.zeros(0, bool)
        self._list: Any = None

    def enter(self, view: View, cls: type[Record], rows: Array, codes: Array) -> None:
        """Note the threads of records of a class."""
        threads = view.batch.threads
        if threads is not self._list or len(self._seen) != len(threads.values) + 1:
            have = len(self._seen) - 1 if threads is self._list else 0
            self._list = threads
            self._seen = np.concatenate([self._seen[:have], np.zeros(len(threads.values) + 1 - have, bool)])
            self._seen[-1] = True  # the code of a thread that is not defined
        if self._seen.all():
            return
        fresh = ~self._seen[codes]
        if fresh.any():
            where, first = np.unique(codes[fresh], return_index=True)
            self._seen[where] = True
            for code, row in zip(where.tolist(), rows[fresh][first].tolist(), strict=True):
                thread = threads.values[code]
                self._add(view, "process", thread.process, row)
                if thread.thread is not None and (thread.thread or cls not in _WITHOUT_THREAD):
                    self._add(view, "thread", thread.thread, row)

    def _add(self, view: View, what: str, koid: int, row: int) -> None:
        known = self._known[what]
        if koid in known or len(known) >= MAX_KEPT:
            return
        known.add(koid)
        view.note(what, np.array([koid], np.uint64), np.array([row]))
        other = self._low.setdefault((what, koid % 2**32), koid)
        if other != koid:
            message = f"the {what} koids {other:,} and {koid:,} are equal in their low 32 bits"
            view.report("thread.wide", np.array([row]), message)
