"""Hypothesis strategies for the oracle's dicts: every kind of record and argument, within the format's ranges.

Strategy: the ranges are written once more here, as plain numbers of bits, so that a wrong width in a declaration shows
up as a value that the oracle refuses. Lengths stay small; the largest ones are for single tests.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from hypothesis import strategies as st

from oracle.fxt_words import ByteOrder, Record

Strategy = st.SearchStrategy[Any]


def unsigned(bits: int, *, first: int = 0) -> Strategy:
    """Return any value of this many bits, and often the ends of the range."""
    last = 2**bits - 1
    return st.sampled_from([first, last]) | st.integers(first, last)


def signed(bits: int) -> Strategy:
    first, last = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    return st.sampled_from([first, -1, last]) | st.integers(first, last)


u64 = unsigned(64)
content = st.binary(max_size=20)
string_refs = st.fixed_dictionaries({"index": unsigned(15)}) | st.fixed_dictionaries({"inline": content})
thread_indexes = st.fixed_dictionaries({"index": unsigned(8, first=1)})
processes = st.fixed_dictionaries({"process": u64})
thread_refs = thread_indexes | st.fixed_dictionaries({"process": u64, "thread": u64})
process_refs = thread_indexes | processes

ARGUMENT_VALUES: dict[str, dict[str, Strategy]] = {
    "null": {},
    "int32": {"value": signed(32)},
    "uint32": {"value": unsigned(32)},
    "int64": {"value": signed(64)},
    "uint64": {"value": u64},
    "double": {"bits": u64},
    "string": {"value": string_refs},
    "pointer": {"value": u64},
    "koid": {"value": u64},
    "bool": {"value": st.booleans()},
    "blob": {"value": content},
}


@st.composite
def unknown(draw: st.DrawFn, byteorder: ByteOrder, first_words: Strategy) -> bytes:
    """Generate raw words after a header word whose size field is put in here, at bits 4 to 15."""
    rest = draw(st.binary(max_size=3).map(lambda seed: seed * 8))
    header = draw(first_words) & ~0xFFF0 | (1 + len(rest) // 8) << 4
    return int(header).to_bytes(8, byteorder) + rest


def arguments(byteorder: ByteOrder) -> Strategy:
    known_types = [
        st.fixed_dictionaries({"type": st.just(name), "name": string_refs, **value})
        for name, value in ARGUMENT_VALUES.items()
    ]
    other_types = st.builds(lambda upper, kind: upper << 16 | kind, unsigned(48), st.integers(11, 15))
    others = st.fixed_dictionaries({"type": st.just("unknown"), "raw": unknown(byteorder, other_types)})
    return st.lists(st.one_of(*known_types, others), max_size=4)


EVENT_SPECIFICS: dict[str, dict[str, Strategy]] = {
    "instant": {},
    "counter": {"counter_id": u64},
    "duration_begin": {},
    "duration_end": {},
    "duration_complete": {"end_time": u64},
    "async_begin": {"async_correlation_id": u64},
    "async_instant": {"async_correlation_id": u64},
    "async_end": {"async_correlation_id": u64},
    "flow_begin": {"flow_correlation_id": u64},
    "flow_step": {"flow_correlation_id": u64},
    "flow_end": {"flow_correlation_id": u64},
}

PROFILER_SPECIFICS: dict[str, dict[str, Strategy]] = {
    "profiler_module": {"module_id": unsigned(16), "module_name": content, "build_id": content},
    "profiler_mmap": {
        "module_id": unsigned(16),
        "flags": unsigned(3),
        "start_address": u64,
        "address_range": u64,
        "vaddr": u64,
    },
    "profiler_backtrace": {"backtrace_data": content.map(lambda data: data * 8)},
}


def unknown_first_words() -> Strategy:
    """Return header words of no known kind: a free record type, or a free subtype of a known one. Size bits are 0."""
    above_16 = unsigned(48)
    above_20 = unsigned(44)
    return st.one_of(
        st.builds(lambda upper, kind: upper << 16 | kind, above_16, st.integers(11, 14)),
        st.builds(lambda upper, kind: upper << 20 | kind << 16 | 0, above_20, st.sampled_from([0, *range(5, 16)])),
        st.builds(lambda upper, kind: upper << 20 | kind << 16 | 4, above_20, st.integers(11, 15)),
        st.builds(lambda upper, kind: upper << 20 | kind << 16 | 10, above_20, st.integers(3, 15)),
        st.builds(lambda middle, kind: kind << 60 | middle << 16 | 8, above_20, st.integers(3, 15)),
        st.builds(lambda upper, kind: upper << 40 | kind << 36 | 15, unsigned(24), st.integers(1, 15)),
        st.builds(lambda upper, kind: upper << 44 | kind << 40 | 15, unsigned(20), st.integers(2, 15)),
    )


def _events(args: Strategy) -> dict[str, dict[str, Strategy]]:
    common = {"timestamp": u64, "thread": thread_refs, "category": string_refs, "name": string_refs, "args": args}
    return {name: common | specific for name, specific in EVENT_SPECIFICS.items()}


def _profiling(args: Strategy) -> dict[str, dict[str, Strategy]]:
    on_cpu = {"timestamp": u64, "cpu_number": unsigned(16), "args": args}
    return {
        "context_switch": on_cpu
        | {"outgoing_thread_state": unsigned(4), "outgoing_thread_id": u64, "incoming_thread_id": u64},
        "thread_wakeup": on_cpu | {"waking_thread_id": u64},
        "legacy_context_switch": {
            "timestamp": u64,
            "cpu_number": unsigned(8),
            "outgoing_thread_state": unsigned(4),
            "outgoing_thread": thread_refs,
            "incoming_thread": thread_refs,
            "outgoing_thread_priority": unsigned(8),
            "incoming_thread_priority": unsigned(8),
        },
    } | {name: {"timestamp": u64, "thread": thread_refs} | specific for name, specific in PROFILER_SPECIFICS.items()}


def _other(args: Strategy) -> dict[str, dict[str, Strategy]]:
    return {
        "magic": {},
        "provider_info": {"provider_id": unsigned(32), "provider_name": content},
        "provider_section": {"provider_id": unsigned(32)},
        "provider_event": {"provider_id": unsigned(32), "event_id": unsigned(4)},
        "trace_info": {
            "trace_info_type": unsigned(4, first=1),
            "varies": unsigned(40),
            "payload": content.map(lambda data: data * 8),
        },
        "initialization": {"ticks_per_second": u64},
        "string": {"string_index": unsigned(15), "string_value": content},
        "thread": {"thread_index": unsigned(8), "process_id": u64, "thread_id": u64},
        "blob": {"blob_name": string_refs, "blob_type": unsigned(8), "payload": content},
        "userspace_object": {"pointer": u64, "process": process_refs, "name": string_refs, "args": args},
        "kernel_object": {"kernel_object_type": unsigned(8), "koid": u64, "name": string_refs, "args": args},
        "log": {"timestamp": u64, "thread": thread_refs, "log_message": content},
        "large_blob": {
            "timestamp": u64,
            "thread": thread_refs,
            "category": string_refs,
            "name": string_refs,
            "args": args,
            "payload": content,
        },
        "large_blob_no_metadata": {"category": string_refs, "name": string_refs, "payload": content},
    }


def records(byteorder: ByteOrder = "little") -> st.SearchStrategy[Record]:
    """Return dicts of every kind, as `oracle.fxt.build_record` takes them."""
    return st.one_of(*records_by_kind(byteorder).values())


@cache
def records_by_kind(byteorder: ByteOrder = "little") -> dict[str, st.SearchStrategy[Record]]:
    """Return a strategy for each kind, extensions included."""
    args = arguments(byteorder)
    fields = _other(args) | _events(args) | _profiling(args)
    by_kind: dict[str, st.SearchStrategy[Record]] = {
        name: st.fixed_dictionaries({"kind": st.just(name), **values}) for name, values in fields.items()
    }
    raw = unknown(byteorder, unknown_first_words())
    by_kind["unknown"] = st.fixed_dictionaries({"kind": st.just("unknown"), "raw": raw})

    def extended(name: str, extension: dict[str, Strategy]) -> None:
        by_kind[name] |= st.fixed_dictionaries({"kind": st.just(name), **fields[name], **extension})

    extended("instant", {"scope": u64})
    extended("initialization", {"base_ticks": u64, "wall_clock_ns": u64})
    for profiler in PROFILER_SPECIFICS:
        extended(profiler, {"thread": processes, "pid_only": st.just(True)})
    return by_kind
