"""FXT event records for the oracle: one common declaration, then what each event type appends to it."""

from __future__ import annotations

from typing import Any

from oracle.fxt_arguments import arguments
from oracle.fxt_words import (
    Layout,
    Word,
    if_more,
    kind,
    length,
    size,
    string_ref,
    string_ref_field,
    thread_ref,
    thread_ref_field,
    u64,
)


def event(name: str, event_type: int, *specific: Any, optional: tuple[str, ...] = ()) -> Layout:
    """spec: Event record (record type = 4), with its 'event-type specific data'."""
    return Layout(
        name,
        Word(
            "header",
            kind(0, 3, "record_type", 4),
            size(4, 15),
            kind(16, 19, "event_type", event_type),
            length(20, 23, "number_of_arguments", of="args"),
            thread_ref_field(24, 31, "thread"),
            string_ref_field(32, 47, "category"),
            string_ref_field(48, 63, "name"),
        ),
        "timestamp" / u64,
        thread_ref("thread"),
        string_ref("category"),
        string_ref("name"),
        arguments,
        *specific,
        optional=optional,
    )


EVENTS = [
    event("instant", 0, if_more("scope", u64), optional=("scope",)),  # extension: 0 thread, 1 process, 2 global
    event("counter", 1, "counter_id" / u64),
    event("duration_begin", 2),
    event("duration_end", 3),
    event("duration_complete", 4, "end_time" / u64),
    event("async_begin", 5, "async_correlation_id" / u64),
    event("async_instant", 6, "async_correlation_id" / u64),
    event("async_end", 7, "async_correlation_id" / u64),
    event("flow_begin", 8, "flow_correlation_id" / u64),
    event("flow_step", 9, "flow_correlation_id" / u64),
    event("flow_end", 10, "flow_correlation_id" / u64),
]
