"""Calls of the FXT writer."""

from __future__ import annotations

from typing import Any

import numpy as np

from contract.calls.case import Call, Opened
from fxtio.fxt import records as r
from fxtio.fxt.enums import BlobType, ObjectType
from fxtio.fxt.records import Koid, Pointer, Thread
from fxtio.fxt.writer import FxtWriter, Provider, Track

OPTIONS: list[dict[str, Any]] = [
    {
        "provider": "main",
        "provider_id": 7,
        "ticks_per_second": 10**9,
        "base_ticks": 3,
        "wall_clock": 10**18,
        "order": "big",
    }
]
WRITERS: list[dict[str, Any]] = [{}]
FINDINGS = frozenset({"fxt.time.overflow"})
WRITES_NOTHING = frozenset({"FxtWriter.flush"})
UNCHECKED = frozenset({"FxtWriter.put"})
IGNORED = frozenset[str]()

ARGS: dict[str, Any] = {
    "none": None, "bool": True, "small": 1, "large": 2**63, "float": 0.5, "text": "text", "bytes": b"bytes",
    "koid": Koid(3), "pointer": Pointer(4),
}  # fmt: skip

TABLES: dict[str, dict[str, list[Any]]] = {
    "objects": {
        "kind": ["kernel", "userspace"], "type": ["thread", None], "id": [3, 4], "name": ["new", "text"],
        "process": [5, 6],
    },
    "logs": {"ticks": [5], "process": [1], "thread": [2], "message": ["text"]},
    "blobs": {
        "name": ["a", "b", "c"], "payload": [b"data", b"more", b"most"], "type": ["last_branch", None, None],
        "category": [None, "c", "c"], "ticks": [None, None, 5], "process": [None, None, 1], "thread": [None, None, 2],
    },
    "scheduling": {
        "type": ["context_switch", "legacy_context_switch", "thread_wakeup"], "ticks": [5, 6, 7], "cpu": [1, 2, 3],
        "outgoing_process": [None, 1, None], "outgoing_thread": [2, 3, None], "incoming_process": [None, 4, None],
        "incoming_thread": [5, 6, 7], "outgoing_state": ["running", "blocked", None],
        "outgoing_priority": [1, 2, None], "incoming_priority": [3, 4, 5], "waker": [None, None, 6],
    },
    "modules": {
        "ticks": [5], "process": [1], "thread": [2], "module": [3], "name": ["new"], "build_id": [b"build"],
    },
    "mmaps": {
        "ticks": [5], "process": [1], "thread": [2], "module": [3], "flags": [4], "address": [4096], "size": [8192],
        "vaddr": [6],
    },
}  # fmt: skip
"""Rows of every table but `events`."""


def begin(writer: FxtWriter) -> Opened:
    """Write an event, and make a provider and a track."""
    provider = writer.provider("other", 9, ticks_per_second=10**6)
    track = provider.thread(1, 2, "thread", "process")
    track.instant("first", 5, category="category", args={"a": "b"})
    return Opened(writer, (provider, track))


def end(opened: Opened) -> None:
    """Write events that use the string and thread tables, with both providers."""
    _, track = opened.objects
    track.complete("name", 20, 30, category="another", args={"last": "string"})
    opened.writer.thread(5, 6).instant("name", 7)
    track.instant("first", 40, category="category", args={"a": "b"})


def use(opened: Opened, call: Call, result: Any) -> None:
    """Use the provider or track that a call returned."""
    if isinstance(result, Provider):
        result = result.thread(1, 2)
    if isinstance(result, Track):
        result.instant("used", 10)


def calls(opened: Opened) -> list[Call]:
    """Return at least one valid call of each public method."""
    writer = opened.writer
    provider, track = opened.objects
    other = provider.thread(7, 8)
    result = [
        Call(writer, "provider", "third", 11, ticks_per_second=1000),
        Call(writer, "thread", 3, 4, "main", "program"),
        Call(writer, "flush"),
        Call(writer, "put", r.ThreadWakeup(1, 2, 3, ())),
        Call(writer, "put", r.Log(5, Thread(1, 2), "text")),
        Call(writer, "put", r.KernelObject(1, 2, "name", ())),
        *(Call(writer, "write_table", name, table) for name, table in TABLES.items()),
        Call(
            writer, "write_table", "events",
            {
                "type": ["duration_begin"], "ticks": [5], "process": [1], "thread": [2], "category": ["c"],
                "name": ["n"], "args": {"a": [1], "b": ["text"]},
            },
        ),
        Call(provider, "thread", 3, 4, "main", "program"),
        Call(provider, "kernel_object", ObjectType.THREAD, 3, "new", ARGS),
        Call(provider, "userspace_object", 3, 4, "new", {"new": "text"}),
        Call(provider, "blob", "new", b"data", BlobType.PERFETTO),
        Call(provider, "blob", "new", bytes(40_000), 2),
        Call(provider, "context_switch", 10, 1, 2, 3, 2, {"incoming_weight": 5}),
        Call(provider, "thread_wakeup", 10, 1, 2, {"weight": 5}),
        Call(provider, "legacy_context_switch", 10, 1, track, other, 2, 3, 4),
        Call(provider, "module", 10, 1, 2, "new", b"build"),
        Call(provider, "mmap", 10, 1, 2, 4096, 8192, 0, 5),
        Call(provider, "backtrace", 10, 1, 2, [3, 4]),
        Call(provider, "buffer_filled_up"),
        Call(
            provider, "write_events", "duration_complete", timestamp=[10, 11], thread=track, name="new", category="c",
            end=[12, 13], args={"number": [1, 2], "text": (["a", "b"], [0, 1])},
        ),
        Call(
            provider, "write_events", "counter", timestamp=np.array([10, 11]), thread=([track, other], [0, 1]),
            name=(["new", "newer"], [0, 1]), id=[1, 2], args={"number": [1.0, 2.0]},
        ),
        Call(provider, "write_mixed", {"kind": "instant", "timestamp": [10], "thread": track, "name": "new"}),
        Call(track, "complete", "new", 10, 15, category="c", args=ARGS),
        Call(track, "counter", "new", 10, {"value": 1, "other": 2.5}, id=3, category="c"),
        Call(track, "log", "text", 10),
        Call(track, "large_blob", "new", b"data", 10, category="c", args={"new": "text"}),
    ]  # fmt: skip
    result += [
        Call(track, method, "new", 10, category="c", args={"new": "text"}) for method in ("instant", "begin", "end")
    ]
    kinds = ("async_begin", "async_instant", "async_end", "flow_begin", "flow_step", "flow_end")
    return result + [Call(track, method, "new", 10, 3, category="c", args={"new": "text"}) for method in kinds]
