"""The tables that a trace has, by name: each a function from a batch to columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fxtio.codec.columns import ManyColumn
from fxtio.codec.record import Record
from fxtio.fxt import records as r
from fxtio.fxt.batch import Batch
from fxtio.fxt.columns import Builder, Finish, Made, finish_args, finish_events, in_order
from fxtio.fxt.enums import ArgumentType, BlobType, ObjectType, SchedulingType, ThreadState
from fxtio.table import Bytes, Categories, Column, Derived, Growing, Optional, Table

Array = np.ndarray[Any, Any]
Make = Callable[[Builder], Made]


def _events(builder: Builder) -> Made:
    return builder.events[0]


def _args(builder: Builder) -> Made:
    return builder.args(builder.events[1])


def _strings(builder: Builder) -> Made:
    rows, columns = builder.batch.columns(r.String)
    text = builder.texts(columns["text"])
    return {**builder.common(rows), "index": columns["index"], "text": text}


def _threads(builder: Builder) -> Made:
    rows, columns = builder.batch.columns(r.ThreadRecord)
    return {**builder.common(rows), **columns}


def _logs(builder: Builder) -> Made:
    rows, columns = builder.batch.columns(r.Log)
    made = builder.common(rows) | builder.timed(columns["timestamp"], rows)
    made["process"], made["thread"] = builder.koids(columns["thread"], rows)
    made["message"] = builder.texts(columns["message"])
    return made


def _objects(builder: Builder) -> Made:
    rows, columns = builder.batch.columns(r.KernelObject)
    kernel = builder.common(rows)
    kernel["space"] = Categories(np.zeros(len(rows), np.int32), ["kernel", "userspace"])
    kernel["type"] = _named(columns["object_type"], ObjectType)
    kernel["id"] = columns["koid"]
    kernel["name"] = builder.names(columns["name"], rows)
    kernel["process"] = _argument(builder, rows, columns["args"], "process", ArgumentType.KOID, np.uint64)
    users, columns = builder.batch.columns(r.UserspaceObject)
    user = builder.common(users)
    user["space"] = Categories(np.ones(len(users), np.int32), ["kernel", "userspace"])
    user["type"] = Categories(np.full(len(users), -1, np.int32), kernel["type"].values)
    user["id"] = columns["pointer"]
    user["name"] = builder.names(columns["name"], users)
    process = builder.koids(columns["process"], users)[0]
    user["process"] = Optional(process, np.ones(len(users), bool))
    return in_order([(rows, kernel), (users, user)])


def _object_args(builder: Builder) -> Made:
    owners = [builder.batch.columns(cls) for cls in (r.KernelObject, r.UserspaceObject)]
    return builder.args([(rows, columns["args"]) for rows, columns in owners])


def _blobs(builder: Builder) -> Made:
    pieces = []
    for cls in (r.Blob, r.LargeBlob, r.LargeBlobNoMetadata):
        rows, columns = builder.batch.columns(cls)
        made = builder.common(rows)
        none = np.full(len(rows), -1, np.int32)
        names = builder.batch.names.values
        made["category"] = (
            builder.names(columns["category"], rows) if "category" in columns else Categories(none, names)
        )
        made["name"] = builder.names(columns["name"], rows)
        kinds = columns.get("blob_type", np.zeros(len(rows), np.uint8))
        made["type"] = _named(kinds, BlobType)
        made["size"] = columns["payload"].length
        made["payload"] = Bytes(columns["payload"].to_bytes())
        pieces.append((rows, made))
    return in_order(pieces)


def _scheduling(builder: Builder) -> Made:
    makers: dict[type[Record], Callable[[Builder, Array, Any], Made]] = {
        r.LegacyContextSwitch: _legacy_switch,
        r.ContextSwitch: _switch,
        r.ThreadWakeup: _wakeup,
    }
    pieces = []
    for cls, make in makers.items():
        rows, columns = builder.batch.columns(cls)
        made = builder.common(rows)
        code = cls.words[0].fields["scheduling_type"].value
        made["type"] = _named(np.full(len(rows), code), SchedulingType)
        made |= builder.timed(columns["timestamp"], rows)
        made["cpu"] = columns["cpu"].astype(np.uint16)
        pieces.append((rows, made | make(builder, rows, columns)))
    return in_order(pieces)


def _legacy_switch(builder: Builder, rows: Array, columns: Any) -> Made:
    everywhere = np.ones(len(rows), bool)
    out_process, out_thread = builder.koids(columns["outgoing"], rows)
    in_process, in_thread = builder.koids(columns["incoming"], rows)
    return {
        "outgoing_process": Optional(out_process, everywhere),
        "outgoing_thread": Optional(out_thread, everywhere),
        "incoming_process": Optional(in_process, everywhere),
        "incoming_thread": in_thread,
        "outgoing_state": _named(columns["outgoing_state"], ThreadState),
        "outgoing_priority": Optional(columns["outgoing_priority"].astype(np.int32), everywhere),
        "incoming_priority": Optional(columns["incoming_priority"].astype(np.int32), everywhere),
        "waker": Optional(np.zeros(len(rows), np.uint64), ~everywhere),
    }


def _switch(builder: Builder, rows: Array, columns: Any) -> Made:
    nowhere = np.zeros(len(rows), bool)
    unknown = Optional(np.zeros(len(rows), np.uint64), nowhere)
    weights = [
        _argument(builder, rows, columns["args"], name, ArgumentType.INT32, np.int32)
        for name in ("outgoing_weight", "incoming_weight")
    ]
    return {
        "outgoing_process": unknown,
        "outgoing_thread": Optional(columns["outgoing"], ~nowhere),
        "incoming_process": unknown,
        "incoming_thread": columns["incoming"],
        "outgoing_state": _named(columns["outgoing_state"], ThreadState),
        "outgoing_priority": weights[0],
        "incoming_priority": weights[1],
        "waker": unknown,
    }


def _wakeup(builder: Builder, rows: Array, columns: Any) -> Made:
    unknown = Optional(np.zeros(len(rows), np.uint64), np.zeros(len(rows), bool))
    return {
        "outgoing_process": unknown,
        "outgoing_thread": unknown,
        "incoming_process": unknown,
        "incoming_thread": columns["waking"],
        "outgoing_state": _named(np.full(len(rows), -1), ThreadState),
        "outgoing_priority": Optional(unknown.values.astype(np.int32), unknown.present),
        "incoming_priority": _argument(builder, rows, columns["args"], "weight", ArgumentType.INT32, np.int32),
        "waker": _argument(builder, rows, columns["args"], "waker", ArgumentType.KOID, np.uint64),
    }


def _scheduling_args(builder: Builder) -> Made:
    every = [builder.batch.columns(cls) for cls in (r.ContextSwitch, r.ThreadWakeup)]
    legacy, _ = builder.batch.columns(r.LegacyContextSwitch)
    empty = np.empty(0, np.int64)
    none = ManyColumn(np.zeros(len(legacy), np.int64), empty, empty, empty.astype(np.int8), empty)
    owners = [(rows, columns["args"]) for rows, columns in every]
    return builder.args([*owners, (legacy, none)])


def _modules(builder: Builder) -> Made:
    rows, columns = builder.batch.columns(r.ProfilerModule)
    made = _profiler(builder, rows, columns)
    made["name"] = builder.texts(columns["name"])
    made["build_id"] = Bytes(columns["build_id"].to_bytes())
    return made


def _mmaps(builder: Builder) -> Made:
    rows, columns = builder.batch.columns(r.ProfilerMmap)
    made = _profiler(builder, rows, columns)
    return made | {name: columns[name] for name in ("flags", "start", "range", "vaddr")}


def _backtraces(builder: Builder) -> Made:
    rows, columns = builder.batch.columns(r.ProfilerBacktrace)
    return _profiler(builder, rows, columns) | {"frames": columns["frames"].count}


def _frames(builder: Builder) -> Made:
    frames = builder.batch.columns(r.ProfilerBacktrace)[1]["frames"]
    begins = np.cumsum(frames.count) - frames.count
    depth = np.arange(int(frames.count.sum())) - np.repeat(begins, frames.count)
    return {
        "counts": frames.count,
        "depth": depth,
        "address": frames.words[np.repeat(frames.at, frames.count) + depth],
    }


def _finish_frames(made: Made, batch: Batch) -> dict[str, Column | Derived]:
    counts = made.pop("counts")
    return {"backtrace": Derived(lambda: np.repeat(np.arange(len(counts)), counts)), **made}


def _profiler(builder: Builder, rows: Array, columns: Any) -> Made:
    made = builder.common(rows) | builder.timed(columns["timestamp"], rows)
    made["process"], made["thread"] = builder.koids(columns["thread"], rows)
    if "module" in columns:
        made["module"] = columns["module"]
    return made


def _named(values: Array, names: Any) -> Categories:
    """Numbers as the names that an enumeration has for them; one without a name is told as a number."""
    known = {member.value: member.name.lower() for member in names}
    labels = [known.get(value, str(value)) for value in range(256)]
    return Categories(values.astype(np.int32), labels)


def _argument(builder: Builder, rows: Array, column: ManyColumn, name: str, kind: ArgumentType, dtype: Any) -> Optional:
    """The value of the argument of this name and type, for the rows that have it."""
    made = builder.args([(rows, column)])
    values, present = np.zeros(len(rows), dtype), np.zeros(len(rows), bool)
    hit = made["name"].is_in(name) & (made["type"].codes == kind)
    owners = np.repeat(np.arange(len(rows)), made["counts"])[hit]
    values[owners] = made["bits"][hit].astype(dtype)
    present[owners] = True
    return Optional(values, present)


TABLES: dict[str, tuple[Make, Finish | None]] = {
    "events": (_events, finish_events),
    "args": (_args, finish_args("event")),
    "strings": (_strings, None),
    "threads": (_threads, None),
    "objects": (_objects, None),
    "object_args": (_object_args, finish_args("object")),
    "logs": (_logs, None),
    "blobs": (_blobs, None),
    "scheduling": (_scheduling, None),
    "scheduling_args": (_scheduling_args, finish_args("scheduling")),
    "modules": (_modules, None),
    "mmaps": (_mmaps, None),
    "backtraces": (_backtraces, None),
    "frames": (_frames, _finish_frames),
}
"""Every table: what a batch contributes, and (where that is not the table already) what makes the columns of it."""


class Collector:
    """Puts the tables of many batches together.

    Args:
        names: which tables.
        share: how much of the whole the batches so far are (0 to 1, 0 unknown), asked now and then: a guess of the
            final size saves growing.
    """

    def __init__(self, names: tuple[str, ...], share: Callable[[], float] = lambda: 0.0) -> None:
        unknown = [name for name in names if name not in TABLES]
        if unknown:
            raise KeyError(f"no table {unknown[0]!r}; there are {', '.join(TABLES)}")
        self._columns: dict[str, dict[str, Growing]] = {name: {} for name in names}
        self._share = share

    def add(self, builder: Builder) -> None:
        """Take in the next batch."""
        share = self._share()
        for name, columns in self._columns.items():
            for column, piece in TABLES[name][0](builder).items():
                columns.setdefault(column, Growing()).append(piece, share)

    def tables(self, last: Batch) -> dict[str, Table]:
        """The tables.

        Args:
            last: the batch that was added last; its names and threads are those that all codes mean.
        """
        made = {}
        for name, columns in self._columns.items():
            finish = TABLES[name][1]
            whole = {column: growing.column() for column, growing in columns.items()}
            made[name] = Table(finish(whole, last) if finish else whole)
        return made
