"""Turns arguments and instants by which recordings describe spans of OpenTelemetry into members of spans of OTLP.

`fxtio.otel` has the names of these arguments and instants.
"""

from __future__ import annotations

from collections.abc import Set
from typing import NamedTuple

import numpy as np

from fxtio import otel
from fxtio.arrays import Array
from fxtio.codec.byte_columns import ByteColumn
from fxtio.exchange.otlp_ids import given_ids
from fxtio.timeline.arguments import ArgumentRows
from fxtio.timeline.parts import Names
from fxtio.timeline.schema import ArgumentKind

MEMBERS = EVENTS, LINKS, ATTRIBUTES = ("events", "links", "attributes")
"""The members of spans to which instants belong."""


class SpanFacts(NamedTuple):
    """Holds what their arguments say of some slices, in arrays with an item for each slice.

    Attributes:
        kind: the numbers of their kinds in OTLP (int64).
        name: the codes of their names (int32).
        status: the numbers of their status in OTLP, 0 if it is not set (int64).
        message: the codes of the reasons of errors, -1 where none is given (int32).
        arguments: their arguments, without those that say this.
    """

    kind: Array
    name: Array
    status: Array
    message: Array
    arguments: ArgumentRows


class PointFacts(NamedTuple):
    """Holds what some instants say of spans.

    Attributes:
        rows: for each of `MEMBERS` the rows of the instants that belong to it (int64).
        owner: for each the id of its span, None where that is the slice around it.
        trace: the ids of the traces of those that are links.
        span: the ids of the spans to which they lead.
        arguments: their arguments, without those that say this.
    """

    rows: dict[str, Array]
    owner: list[bytes | None]
    trace: ByteColumn
    span: ByteColumn
    arguments: ArgumentRows


class Facts:
    """Finds what arguments and instants say of spans; `names` are those of the timeline."""

    def __init__(self, names: Names) -> None:
        self._names = names
        used = (otel.KIND, otel.STATUS, otel.MESSAGE, otel.NAME, otel.OWNER, otel.LINK, otel.MORE)
        self._codes = {name: names.code(name) for name in used}  # before there are too many names
        self._kinds, self._statuses = (np.array([*map(names.code, each)]) for each in (otel.KINDS, otel.STATUSES))

    def of_slices(self, name: Array, arguments: ArgumentRows) -> SpanFacts:
        """Return what is said of slices with these names, given by codes, in their arguments."""
        if not self._are_used(arguments):
            count = len(name)
            nothing = np.full(count, -1, np.int32)
            return SpanFacts(np.ones(count, np.int64), name, np.zeros(count, np.int64), nothing, arguments)
        texts = {each: self._texts(arguments, each, len(name)) for each in (otel.KIND, otel.STATUS)}
        kind, status = _places(texts[otel.KIND], self._kinds), _places(texts[otel.STATUS], self._statuses)
        texts = {otel.KIND: kind - 1, otel.STATUS: status - 1}
        texts |= {each: self._texts(arguments, each, len(name)) for each in (otel.MESSAGE, otel.NAME)}
        other = texts[otel.NAME]
        return SpanFacts(
            np.maximum(kind, 1), np.where(other >= 0, other, name), status, texts[otel.MESSAGE],
            self._without(arguments, texts),
        )  # fmt: skip

    def span_ids(self, arguments: ArgumentRows) -> set[bytes]:
        """Return the ids of spans that slices have as arguments."""
        trace, span, _ = given_ids(self._names, arguments).values()
        return {span[row] for row in trace.keys() & span.keys()}

    def have_owners(self, arguments: ArgumentRows) -> bool:
        """Return whether any instants may say in which spans they are."""
        return bool((arguments.name == self._codes[otel.OWNER]).any())

    def of_instants(self, name: Array, arguments: ArgumentRows, spans: Set[bytes]) -> PointFacts:
        """Return what is said of instants with these names, given by codes, in their arguments.

        Args:
            name: the codes of the names.
            arguments: the arguments.
            spans: the ids of the spans in which they may say that they are; those of others are arguments like all.
        """
        given = given_ids(self._names, arguments) if (name == self._codes[otel.LINK]).any() else {}
        trace, span = (given.get(each, {}) for each in (otel.TRACE_ID, otel.SPAN_ID))
        has_ids = np.zeros(len(name), bool)
        has_ids[[*(trace.keys() & span.keys())]] = True
        is_link = (name == self._codes[otel.LINK]) & has_ids
        links = np.flatnonzero(is_link)
        owner = self._texts(arguments, otel.OWNER, len(name))
        ids = {code: self._names.values[code].encode("utf-8", "replace") for code in {*owner.tolist()} if code >= 0}
        owner[~np.isin(owner, [code for code, text in ids.items() if text in spans])] = -1
        arguments = self._without(arguments, {otel.OWNER: owner})
        is_more = (name == self._codes[otel.MORE]) & (np.bincount(arguments.row, minlength=len(name)) > 0)
        if len(links):
            codes = [self._names.code(each) for each in (otel.TRACE_ID, otel.SPAN_ID)]
            arguments = arguments.take(~(is_link[arguments.row] & np.isin(arguments.name, codes)))
        rows = (np.flatnonzero(~is_link & ~is_more), links, np.flatnonzero(is_more))
        return PointFacts(
            dict(zip(MEMBERS, rows, strict=True)),
            [ids.get(code) for code in owner.tolist()],
            ByteColumn.of(trace[row] for row in links.tolist()),
            ByteColumn.of(span[row] for row in links.tolist()),
            arguments,
        )

    def _are_used(self, arguments: ArgumentRows) -> bool:
        """Return whether any of the arguments may say something."""
        return bool(np.isin(arguments.name, [*self._codes.values()]).any())

    def _texts(self, arguments: ArgumentRows, name: str, count: int) -> Array:
        """Return the code of the text that each of some rows has as an argument (int32), -1 where it has none."""
        found = (arguments.name == self._codes[name]) & (arguments.kind == ArgumentKind.TEXT)
        column = np.full(count, -1, np.int32)
        column[arguments.row[found]] = arguments.text[found]
        return column

    def _without(self, arguments: ArgumentRows, said: dict[str, Array]) -> ArgumentRows:
        """Return arguments without those with these names, in the rows where the column of the name is not negative."""
        is_said = np.zeros(len(arguments), bool)
        for name, column in said.items():
            is_said |= (arguments.name == self._codes[name]) & (column[arguments.row] >= 0)
        return arguments.take(~is_said) if is_said.any() else arguments


def _places(codes: Array, listed: Array) -> Array:
    """Return for each code its place in a list, from 1 on; 0 if it is not there (int64)."""
    found = codes[:, None] == listed
    return np.where(found.any(axis=1), found.argmax(axis=1) + 1, 0)
