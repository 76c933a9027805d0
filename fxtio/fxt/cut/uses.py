"""The definitions that records refer to.

A kernel finds the slots to which events refer; those of other records, and of events whose arguments have other
content than a number or a text, are taken from their columns.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

from fxtio import _native
from fxtio.arrays import Array
from fxtio.codec.columns import ManyColumn, members_of
from fxtio.codec.record import Record
from fxtio.fxt.cut.fields import EVENTS
from fxtio.fxt.enums import ArgumentType
from fxtio.fxt.layout import EventWord
from fxtio.fxt.plain import argument_rules, header_fields, tail_words
from fxtio.fxt.records import ARGUMENTS, KINDS, RECORDS, String, ThreadRecord
from fxtio.fxt.reference_columns import LEAST_INLINE, Definitions, StringColumn, ThreadColumn
from fxtio.fxt.state import Batch
from fxtio.timeline.schema import ArgumentKind

DEFINERS: tuple[type[Record], ...] = (String, ThreadRecord)
"""The classes of records that define slots."""

Used = tuple[Array, list[tuple[int, int]]]
"""The definitions of a batch that are used (indices, ascending); and the providers and slots of those that are used but
were made before the batch."""

_SLOTS = 1 << 16  # more slots than a provider has
_NAMED = (LEAST_INLINE, EventWord.fields["thread"].mask + 1)  # the slots that references can name, see `DEFINERS`
_ROWS = 1 << 40  # more records than a batch can have


class Uses:
    """Finds the definitions that records refer to."""

    def __init__(self) -> None:
        self._tails = np.full(len(RECORDS.classes), -1, np.int8)
        for cls in EVENTS:
            self._tails[KINDS[cls]] = tail_words(cls)
        self._rules = header_fields(), argument_rules(dict.fromkeys(ArgumentType, ArgumentKind.NULL))
        self._kernel = _native.find_uses if _native.IMPLEMENTATION == "c" else None

    def find(self, batch: Batch, taken: Array, own: list[Definitions]) -> list[Used]:
        """Find the definitions that the records use that are taken over.

        Args:
            batch: the batch.
            taken: the records that are taken over (bool).
            own: for each of `DEFINERS`, the definitions of this batch, in the order of the file.

        Returns:
            For each of `DEFINERS`, what is used of it.
        """
        by_events = self._of_events(batch, taken, own)
        if by_events is None:
            return [_of_records(batch, cls, taken, made, ()) for cls, made in zip(DEFINERS, own, strict=True)]
        found = []
        for cls, made, (used, earlier) in zip(DEFINERS, own, by_events, strict=True):
            others, before = _of_records(batch, cls, taken, made, EVENTS)
            found.append((np.union1d(used, others), sorted({*earlier, *before})))
        return found

    def _of_events(self, batch: Batch, taken: Array, own: list[Definitions]) -> list[Used] | None:
        """Return what the events use; None if it must be taken from their columns."""
        if self._kernel is None or not isinstance(batch.provider, int):
            return None
        frame, provider = batch.frame, batch.provider
        tables = []
        for made, slots in zip(own, _NAMED, strict=True):
            used, earlier = np.zeros(len(made.row), np.int8), np.zeros(slots, np.int8)
            now = np.empty(slots if len(used) else 0, np.int64)
            tables += [made.row, made.slot, now, used, earlier]
        places = frame.block.words, frame.at, frame.size, frame.kind, taken
        if not self._kernel(*places, *self._rules, self._tails, *tables):
            return None
        return [
            (np.flatnonzero(used), [(provider, slot) for slot in np.flatnonzero(earlier).tolist()])
            for used, earlier in (tables[3:5], tables[8:10])
        ]


def _of_records(
    batch: Batch, cls: type[Record], taken: Array, definitions: Definitions, skipped: Collection[type[Record]]
) -> Used:
    """Return which definitions of a batch the records use that are taken over, and what else they use.

    Args:
        batch: the batch.
        cls: the class of the definitions.
        taken: the records that are taken over (bool).
        definitions: the definitions of this batch.
        skipped: the classes of records that are passed over.

    Returns:
        The numbers of the definitions (int64); and the distinct pairs of a provider and a slot, of uses that are
        defined before the batch.
    """
    own = definitions.provider.astype(np.int64) * _SLOTS + definitions.slot
    within: list[tuple[Array, Array]] = []
    outside: list[Array] = []
    alone: list[Array] = []  # the slots of the uses, if there is one provider
    with_rows = not isinstance(batch.provider, int) or len(own) > 0
    for slots, rows in _references(batch, cls, taken, skipped, with_rows=with_rows):
        if rows is None:
            alone.append(slots)
            continue
        pairs = np.broadcast_to(batch.provider, len(batch))[rows].astype(np.int64) * _SLOTS + slots
        may_be_own = np.isin(pairs, own)
        within.append((pairs[may_be_own], rows[may_be_own]))
        outside.append(np.unique(pairs[~may_be_own]))
    if not within:
        provider = batch.provider if isinstance(batch.provider, int) else 0
        used = np.zeros(_SLOTS if alone else 0, bool)
        for slots in alone:
            used[slots] = True
        return np.empty(0, np.int64), [(provider, slot) for slot in np.flatnonzero(used).tolist() if slot]
    pairs, rows = (np.concatenate(column) for column in zip(*within, strict=True))
    used, is_defined = _last_before(own, definitions.row, pairs, rows)
    earlier = np.unique(np.concatenate([*outside, pairs[~is_defined]]))
    return used, [(pair // _SLOTS, pair % _SLOTS) for pair in earlier.tolist() if pair % _SLOTS]


def _references(
    batch: Batch, cls: type[Record], taken: Array, skipped: Collection[type[Record]], *, with_rows: bool
) -> Iterator[tuple[Array, Array | None]]:
    """Yield slots that records which are taken over refer to, and on request the numbers of these records.

    A slot 0 is not a reference.  Records of the classes `skipped` are passed over.
    """
    column_type: type[StringColumn | ThreadColumn] = StringColumn if cls is String else ThreadColumn
    arguments: list[tuple[Array, ...]] = []
    for record in batch.classes():
        if record in skipped or not taken[batch.rows(record)].any():
            continue
        rows, columns = batch.columns(record)
        is_taken = taken[rows]
        which = slice(None) if is_taken.all() else np.flatnonzero(is_taken)
        for column in columns.values():
            if isinstance(column, column_type):
                yield column.slot[which], rows[which] if with_rows else None
        if cls is String and "args" in columns and len(columns["args"].at):
            many: ManyColumn = columns["args"]
            of_taken = np.flatnonzero(np.repeat(is_taken, many.count))
            owners = np.repeat(rows, many.count)[of_taken] if with_rows else of_taken[:0]
            arguments.append((many.at[of_taken], many.size[of_taken], many.kind[of_taken], owners))
    if arguments:
        at, size, kind, owners = (np.concatenate(column) for column in zip(*arguments, strict=True))
        together = ManyColumn(np.ones(len(at), np.int64), at, size, kind, at[:0])
        members = members_of(ARGUMENTS, batch.frame.block, together)
        if with_rows:
            owners = np.repeat(owners, members.many.count)
        for _, indices, fields in members.groups:
            for column in fields.values():
                if isinstance(column, StringColumn):
                    yield column.slot, owners[indices] if with_rows else None


def _last_before(own: Array, own_rows: Array, pairs: Array, rows: Array) -> tuple[Array, Array]:
    """Return which definitions some uses refer to, and which of the uses refer to one.

    Args:
        own: the slots that are defined, with their providers (int64).
        own_rows: the numbers of the records that define them.
        pairs: the slots that are used, with their providers (int64).
        rows: the numbers of the records that use them.

    Returns:
        The numbers of the definitions (int64), and whether a definition is before each use (bool).
    """
    order = np.lexsort((own_rows, own))
    distinct = np.unique(own)
    keys = np.searchsorted(distinct, own[order]) * _ROWS + own_rows[order]
    index = np.searchsorted(keys, np.searchsorted(distinct, pairs) * _ROWS + rows) - 1
    is_defined = (index >= 0) & (own[order][index] == pairs)
    return np.unique(order[index[is_defined]]), is_defined
