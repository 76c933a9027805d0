"""Rules of arguments, and of counters, whose values are arguments."""

from __future__ import annotations

import numpy as np

from fxtio import _native
from fxtio.arrays import Array
from fxtio.codec.columns import Members, lane
from fxtio.codec.record import Record
from fxtio.fxt import records as r
from fxtio.fxt.enums import ArgumentType
from fxtio.fxt.layout import ArgumentWord, StringRefWord
from fxtio.fxt.records import INTEGER_LIMITS, Int32Argument, Uint32Argument
from fxtio.fxt.reference_columns import LEAST_INLINE
from fxtio.fxt.rules.view import View, empty_references

MAX_EXACT = 2**53
"""The greatest integer up to which a double holds all integers."""

_NUMERIC = (ArgumentType.INT32, ArgumentType.UINT32, ArgumentType.INT64, ArgumentType.UINT64, ArgumentType.DOUBLE)
_WORD_INTEGERS = {
    ArgumentType.INT64: INTEGER_LIMITS[Int32Argument],
    ArgumentType.UINT64: INTEGER_LIMITS[Uint32Argument],
}
_SIGN = np.uint64(2**63)
_REFERENCE = ArgumentWord.fields["name"]


class Arguments:
    """The rules of the groups arg and counter."""

    def enter(self, view: View) -> None:
        """Check a batch."""
        for cls in view.batch.classes():
            rows, members = view.batch.arguments(cls)
            if len(members.many.kind):
                self._check(view, cls, rows, members)
            if cls is r.Counter:
                _check_counters(view, rows, members)

    def _check(self, view: View, cls: type[Record], rows: Array, members: Members) -> None:
        counts = members.many.count
        _check_names(view, rows, members)
        for kind, indices, columns in members.groups:
            if not columns:
                continue
            empty = empty_references(columns["name"])
            if len(empty):
                view.report("arg.name-empty", _owners(rows, counts, indices, empty))
            if kind in _WORD_INTEGERS:
                least, most = _WORD_INTEGERS[ArgumentType(kind)]
                value = columns["value"]
                narrow = np.flatnonzero((value >= least) & (value <= most))
                message = f"a 64-bit integer from {least:,} to {most:,} fits in 32 bits"
                view.report("arg.narrow", _owners(rows, counts, indices, narrow), message)
            if kind in (ArgumentType.UINT64, ArgumentType.KOID):
                large = np.flatnonzero(columns["value"] >= _SIGN)
                message = "a number of 2**63 or more, which Perfetto shows as negative"
                view.report("arg.unsigned-large", _owners(rows, counts, indices, large), message)
            if kind == ArgumentType.DOUBLE:
                nan = np.flatnonzero(np.isnan(columns["value"]))
                view.report("arg.nan", _owners(rows, counts, indices, nan))
            if kind == ArgumentType.KOID and cls is not r.KernelObject:
                view.note("argument", columns["value"], _owners(rows, counts, indices, slice(None)))


def _owners(rows: Array, counts: Array, indices: Array | slice, members: Array | slice) -> Array:
    """Return the records of some arguments of a kind."""
    owners: Array = np.repeat(rows, counts)[indices][members]
    return owners


def _check_names(view: View, rows: Array, members: Members) -> None:
    """Report records with two arguments of the same name."""
    most = int(members.many.count.max())
    if most < 2:
        return
    header = np.empty(len(members.many.at), np.uint64)
    _native.gather(view.batch.frame.block.words, members.many.at, 0, header)
    name = lane(header, _REFERENCE)
    owners = None
    for distance in range(1, most):
        same = np.flatnonzero(name[distance:] == name[:-distance])
        if not len(same):
            continue
        if owners is None:
            owners = np.repeat(np.arange(len(rows)), members.many.count)
        same = same[owners[same] == owners[same + distance]]
        same = same[(name[same] < LEAST_INLINE) | _same_text(view, members, same, same + distance, name)]
        view.report("arg.name-again", rows[owners[same]])


def _same_text(view: View, members: Members, some: Array, other: Array, name: Array) -> Array:
    """Return for pairs of arguments with references of the same value whether inline names are the same."""
    data = view.batch.frame.block.data
    result = np.zeros(len(some), bool)
    for place, (left, right) in enumerate(zip(some.tolist(), other.tolist(), strict=True)):
        length = int(StringRefWord.fields["index"].get(int(name[left])))
        begin, end = (int(members.many.at[index] + 1) * 8 for index in (left, right))
        result[place] = data[begin : begin + length] == data[end : end + length]
    return result


def _check_counters(view: View, rows: Array, members: Members) -> None:
    counts, kinds = members.many.count, members.many.kind
    if len(counts) and int(counts.min()) == 0:
        empty = counts == 0
        empty[members.many.broken] = False
        view.report("counter.no-value", rows[empty])
    numeric = np.zeros(256, bool)
    numeric[list(_NUMERIC)] = True
    other = np.flatnonzero(~numeric[kinds.view(np.uint8)])
    view.report("counter.not-numeric", _owners(rows, counts, slice(None), other))
    for kind, indices, columns in members.groups:
        if kind in _WORD_INTEGERS:
            value = columns["value"]
            over = value > MAX_EXACT if kind == ArgumentType.UINT64 else np.abs(value) > MAX_EXACT
            message = "the value is over 2**53, and Perfetto makes a double of it"
            view.report("counter.inexact", _owners(rows, counts, indices, np.flatnonzero(over)), message)
