"""Rules of records that stand alone: objects, scheduling, logs, profiles, blobs, and events without a name."""

from __future__ import annotations

from typing import Any

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.columns import StreamColumn
from fxtio.codec.record import Record
from fxtio.finding import Findings
from fxtio.fxt import records as r
from fxtio.fxt.enums import ArgumentType, BlobType, ObjectType, ThreadState
from fxtio.fxt.layout import MAX_BLOB_BYTES, MAX_RECORD_WORDS, ProfilerMmapWord
from fxtio.fxt.rules.slots import ThreadKoids
from fxtio.fxt.rules.view import MAX_KEPT, View, empty_references, thread_fields
from fxtio.references import Kind, References

MAX_CPUS = 4_096
"""The CPUs that Perfetto can import are below this."""

_NAMED_EVENTS = (
    r.Instant, r.Counter, r.DurationBegin, r.DurationComplete, r.AsyncBegin, r.AsyncInstant, r.AsyncEnd,
)  # fmt: skip
_WEIGHTS = ("incoming_weight", "outgoing_weight", "weight")
_HEXADECIMAL = frozenset(b"0123456789abcdefABCDEF")
_MIN_BUILD_ID = 16  # digits


_KOIDS = (
    Kind("thread", ("thread name",), ("thread",), "thread.nameless",
         text="thread {:,} has no kernel object record with a name"),
    Kind("process", ("process name",), ("process",), "thread.nameless",
         text="process {:,} has no kernel object record with a name"),
    Kind("thread", ("object",), ("scheduled",), "sched.no-object", ignored=(0,),
         text="thread {:,} is scheduled, and has no kernel object record"),
    Kind("object", ("object",), ("argument",), "arg.koid-unnamed", text="koid {:,} has no kernel object record"),
)  # fmt: skip
"""What names koids, and what uses them, as `View.note` has it."""


class Contents:
    """The rules of koids, objects, scheduling, logs, profiles, blobs, and of the names of events."""

    def __init__(self) -> None:
        self._threads = ThreadKoids()
        self._koids: References | None = None
        self._last_object = 0
        self._running: dict[int, tuple[int, int]] = {}  # the last time and incoming thread of each CPU
        self._modules: dict[int, Array] = {}  # by provider: whether each module id was described
        self._packets = _Packets()
        self._logs = 0
        self._first_log = 0

    def enter(self, view: View) -> None:
        """Check a batch."""
        for cls in view.batch.classes():
            rows, columns = view.batch.columns(cls)
            if cls in _NAMED_EVENTS:
                empty = rows[empty_references(columns["name"])]
                view.report("event.name-empty", empty)
            for field in thread_fields(cls, columns):
                self._threads.enter(view, cls, rows, view.threads(cls, field))
        for check, classes in (
            (self._check_objects, (r.KernelObject,)),
            (self._check_switches, (r.ContextSwitch,)),
            (self._check_wakeups, (r.ThreadWakeup,)),
            (self._check_legacy, (r.LegacyContextSwitch,)),
            (self._check_logs, (r.Log,)),
            (self._check_modules, (r.ProfilerModule, r.ProfilerMmap)),
            (self._check_backtraces, (r.ProfilerBacktrace,)),
            (self._check_blobs, (r.Blob,)),
            (self._check_large, (r.LargeBlob, r.LargeBlobNoMetadata)),
        ):
            if view.present.intersection(classes):
                check(view)
        if self._koids is None:
            self._koids = References(_KOIDS, view.findings, most_defined=MAX_KEPT + 1, most_undefined=MAX_KEPT)
        self._koids.add(view.noted)

    def finish(self, findings: Findings) -> None:
        """Check what only the end of the trace decides."""
        if self._koids is not None:
            self._koids.finish()
            if self._koids.is_full:
                message = f"more than {MAX_KEPT:,} objects; what refers to the others is not checked"
                findings.add("object.too-many", self._last_object, message)
        if self._logs:
            message = "Perfetto does not show log records"
            findings.add("log.not-shown", self._first_log, message, times=self._logs)

    # ---- objects

    def _check_objects(self, view: View) -> None:
        rows, columns = view.batch.columns(r.KernelObject)
        kinds, koids = columns["object_type"], columns["koid"]
        codes = view.codes(r.KernelObject, "name")
        view.note("object", koids, rows)
        for field, kind in (("process name", ObjectType.PROCESS), ("thread name", ObjectType.THREAD)):
            own = (codes != 0) & (kinds == kind)
            view.note(field, koids[own], rows[own])
        self._last_object = int(view.offsets(rows[-1:])[0]) if len(rows) else self._last_object
        self._check_processes(view, rows[kinds == ObjectType.THREAD])

    def _check_processes(self, view: View, threads: Array) -> None:
        """Check the argument `process` of kernel objects that are threads."""
        owners, kinds, names = _arguments(view, r.KernelObject)
        is_process = np.isin(names, view.codes_of("process"))
        right = owners[is_process & (kinds == ArgumentType.KOID)]
        wrong = owners[is_process & (kinds != ArgumentType.KOID)]
        view.report("object.process-type", np.intersect1d(wrong, threads))
        without = np.setdiff1d(threads, np.concatenate([right, wrong]))
        view.report("object.no-process", without)

    # ---- scheduling

    def _check_switches(self, view: View) -> None:
        rows, columns = view.batch.columns(r.ContextSwitch)
        _check_cpus(view, rows, columns["cpu"])
        _check_weights(view, r.ContextSwitch)
        view.note("scheduled", columns["outgoing"], rows)
        view.note("scheduled", columns["incoming"], rows)
        self._check_order(view, rows, columns)

    def _check_wakeups(self, view: View) -> None:
        rows, columns = view.batch.columns(r.ThreadWakeup)
        _check_cpus(view, rows, columns["cpu"])
        _check_weights(view, r.ThreadWakeup)
        view.note("scheduled", columns["waking"], rows)

    def _check_legacy(self, view: View) -> None:
        rows, columns = view.batch.columns(r.LegacyContextSwitch)
        running = rows[columns["outgoing_state"] == ThreadState.RUNNING]
        view.report("sched.running", running)

    def _check_order(self, view: View, rows: Array, columns: Any) -> None:
        """Report threads that leave a CPU on which another one ran."""
        if not len(rows):
            return
        cpu, ticks = columns["cpu"].astype(np.int64), columns["timestamp"]
        order = np.lexsort((ticks, cpu))
        outgoing, incoming = columns["outgoing"][order], columns["incoming"][order]
        before = np.empty(len(order), np.uint64)
        before[1:] = incoming[:-1]
        starts = np.flatnonzero(np.diff(cpu[order], prepend=-1))
        ends = np.append(starts[1:], len(order)) - 1
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            number = int(cpu[order[start]])
            time, running = self._running.get(number, (0, int(outgoing[start])))
            before[start] = running if time <= int(ticks[order[start]]) else outgoing[start]
            if time <= int(ticks[order[end]]):  # of switches at the same time, the last one counts
                self._running[number] = int(ticks[order[end]]), int(incoming[end])
        wrong = np.flatnonzero(outgoing != before)
        if len(wrong):
            wrong = wrong[np.argsort(rows[order[wrong]], kind="stable")]
            view.report(
                "sched.order",
                rows[order[wrong]],
                lambda index: f"thread {outgoing[wrong[index]]} leaves a CPU on which {before[wrong[index]]} ran",
            )

    # ---- logs and profiles

    def _check_logs(self, view: View) -> None:
        rows, _ = view.batch.columns(r.Log)
        if len(rows) and not self._logs:
            self._first_log = view.batch.frame.offset(int(rows[0]))
        self._logs += len(rows)

    def _check_modules(self, view: View) -> None:
        rows, columns = view.batch.columns(r.ProfilerModule)
        if len(rows):
            ids = columns["build_id"].to_bytes()
            text = np.array([len(one) >= _MIN_BUILD_ID and _HEXADECIMAL.issuperset(one) for one in ids], bool)
            view.report("profiler.build-id", rows[text])
        self._check_short(view, r.ProfilerModule)
        self._check_short(view, r.ProfilerMmap)
        maps, mapped = view.batch.columns(r.ProfilerMmap)
        self._check_described(view, rows, columns["module"], maps, mapped["module"])

    def _check_described(self, view: View, rows: Array, modules: Array, maps: Array, mapped: Array) -> None:
        """Report mappings of modules that no record before them describes."""
        owners = np.broadcast_to(view.batch.provider_of(maps), len(maps))
        own = np.broadcast_to(view.batch.provider_of(rows), len(rows))
        size = ProfilerMmapWord.fields["module"].mask + 1
        for number in np.union1d(owners, own).tolist():
            described = self._modules.setdefault(number, np.zeros(size, bool))
            since = np.where(described, -1, len(view.batch))
            mine = own == number
            np.minimum.at(since, modules[mine].astype(np.int64), rows[mine])
            wrong = (owners == number) & (since[mapped.astype(np.int64)] > maps)
            view.report("profiler.module", maps[wrong])
            described[modules[mine]] = True

    def _check_backtraces(self, view: View) -> None:
        rows, columns = view.batch.columns(r.ProfilerBacktrace)
        view.report("profiler.flags", rows[columns["flags"] != 0])
        self._check_short(view, r.ProfilerBacktrace)

    def _check_short(self, view: View, cls: type[Record]) -> None:
        rows, columns = view.batch.columns(cls)
        column = columns["thread"]
        if len(column.rows):
            short = rows[column.rows[~column.has_thread]]
            view.report("profiler.inline-thread", short)

    # ---- blobs

    def _check_blobs(self, view: View) -> None:
        rows, columns = view.batch.columns(r.Blob)
        lengths = columns["payload"].length
        message = f"a blob of more than {MAX_BLOB_BYTES:,} bytes"
        view.report("blob.too-long", rows[lengths > MAX_BLOB_BYTES], message)
        packets = np.flatnonzero(columns["blob_type"] == BlobType.PERFETTO)
        payloads: StreamColumn = columns["payload"].take(packets)
        for row, payload in zip(rows[packets], payloads.to_bytes(), strict=True):
            if self._packets.add(payload):
                message = "blobs of type 3 are no Perfetto packets from here on"
                view.report("blob.perfetto-garbage", np.array([row]), message)

    def _check_large(self, view: View) -> None:
        for cls in (r.LargeBlob, r.LargeBlobNoMetadata):
            rows, columns = view.batch.columns(cls)
            size = view.batch.frame.size[rows]
            message = f"a large record of more than {MAX_RECORD_WORDS:,} words"
            view.report("large.interop", rows[size > MAX_RECORD_WORDS], message)
            if cls is r.LargeBlobNoMetadata:
                small = rows[columns["payload"].length <= MAX_BLOB_BYTES]
                view.report("large.small", small, f"a blob of at most {MAX_BLOB_BYTES:,} bytes in a large record")


def _arguments(view: View, cls: type[Record]) -> tuple[Array, Array, Array]:
    """Return for all arguments of the records of a class the record, the kind, and the code of the name."""
    rows, members = view.batch.arguments(cls)
    owners = np.repeat(rows, members.many.count)
    names = np.full(len(owners), -1, np.int64)
    for _, indices, columns in members.groups:
        if columns:
            names[indices] = view.argument_codes(columns["name"], owners[indices])
    return owners, members.many.kind, names


def _check_cpus(view: View, rows: Array, cpus: Array) -> None:
    view.report("sched.cpu", rows[cpus >= MAX_CPUS], f"a CPU of {MAX_CPUS:,} or more")


def _check_weights(view: View, cls: type[Record]) -> None:
    """Report weights that are not 32-bit signed integers."""
    owners, kinds, names = _arguments(view, cls)
    if len(owners):
        wrong = np.isin(names, view.codes_of(*_WEIGHTS)) & (kinds != ArgumentType.INT32)
        view.report("sched.weight", np.unique(owners[wrong]))


class _Packets:
    """The Perfetto packets in blobs: whether the bytes so far are fields of the message `Trace`."""

    TAG = 0x0A  # field 1, a message

    def __init__(self) -> None:
        self._left = 0  # bytes of the packet that are still to come
        self._head = b""  # tag and length of a packet, as far as they are there
        self._is_bad = False

    def add(self, payload: bytes) -> bool:
        """Add bytes; return whether they are the first that are not packets."""
        at = min(self._left, len(payload))
        self._left -= at
        while at < len(payload) and not self._is_bad:
            self._head += payload[at : at + 1]
            at += 1
            is_long = len(self._head) > 1 and self._head[-1] >= 0x80
            self._is_bad = self._head[0] != self.TAG or (is_long and len(self._head) > 6)
            if self._is_bad:
                return True
            if len(self._head) > 1 and not is_long:
                size = sum(byte % 128 * 128**place for place, byte in enumerate(self._head[1:]))
                step = min(size, len(payload) - at)
                self._left, self._head = size - step, b""
                at += step
        return False
