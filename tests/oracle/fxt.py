"""The Fuchsia trace format, restated with construct from the specification text: bytes to dicts and back.

Strategy: the declarations are in `fxt_words` (encoding primitives), `fxt_arguments`, `fxt_events`, `fxt_profiling` and
`fxt_records`; here they get a narrow door. Anything that the specification forbids raises `OracleError`: non-zero
reserved bits or padding, a size that does not match the content, words left over. `build_record` parses what it has
built, and refuses any dict that its own bytes would not say again.

A record is a dict with its "kind" and the specification's names:

    magic
    provider_info           provider_id provider_name
    provider_section        provider_id
    provider_event          provider_id event_id
    trace_info              trace_info_type varies (bits 24 to 63) payload (all further words as they are)
    initialization          ticks_per_second [base_ticks wall_clock_ns]
    string                  string_index string_value
    thread                  thread_index process_id thread_id
    all events              timestamp thread category name args, and of these
      instant               [scope]
      counter               counter_id
      duration_begin, duration_end
      duration_complete     end_time
      async_begin, async_instant, async_end     async_correlation_id
      flow_begin, flow_step, flow_end           flow_correlation_id
    blob                    blob_name blob_type payload
    userspace_object        pointer process name args
    kernel_object           kernel_object_type koid name args
    context_switch          timestamp cpu_number outgoing_thread_state outgoing_thread_id incoming_thread_id args
    thread_wakeup           timestamp cpu_number waking_thread_id args
    legacy_context_switch   timestamp cpu_number outgoing_thread_state outgoing_thread incoming_thread
                            outgoing_thread_priority incoming_thread_priority
    log                     timestamp thread log_message
    profiler_module         timestamp thread module_id module_name build_id [pid_only]
    profiler_mmap           timestamp thread module_id flags start_address address_range vaddr [pid_only]
    profiler_backtrace      timestamp thread backtrace_data (a stream by the specification, so bytes) [pid_only]
    large_blob              timestamp thread category name args payload
    large_blob_no_metadata  category name payload
    unknown                 raw

A string ref is {"index": n} or {"inline": bytes}. A thread ref is {"index": n} or {"process": p, "thread": t}; a
userspace object's, and any with "pid_only", is {"index": n} or {"process": p}. An argument is {"type", "name",
"value"}; a null argument has no value, a double has "bits" (its 64-bit pattern), an unknown one only "raw".
"""

from __future__ import annotations

from io import BytesIO

from construct import ConstructError

from oracle.fxt_records import RECORD
from oracle.fxt_words import ByteOrder, OracleError, Record, require

__all__ = ["OracleError", "build_record", "parse_record", "split"]


def parse_record(data: bytes, byteorder: ByteOrder = "little") -> Record:
    """Return the dict of exactly one whole record. Raise OracleError when the specification forbids these bytes."""
    frames = split(data, byteorder)
    require(len(frames) == 1, f"one whole record expected, not {len(frames)}")
    try:
        return RECORD.parse(data, byteorder=byteorder)  # type: ignore[no-any-return]
    except ConstructError as error:
        raise OracleError(f"not allowed by the specification: {error}") from error


def build_record(record: Record, byteorder: ByteOrder = "little") -> bytes:
    """Return the bytes of a record. Raise OracleError when the format cannot represent the dict."""
    try:
        data: bytes = RECORD.build(record, byteorder=byteorder)
    except (ConstructError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise OracleError(f"not a record: {error!r}") from error
    require(parse_record(data, byteorder) == record, "the bytes built from this dict say something else")
    return data


def split(data: bytes, byteorder: ByteOrder = "little") -> list[bytes]:
    """Return all records of a trace, cut by their size fields. Raise OracleError where a size is zero or too large."""
    rest = BytesIO(data)
    frames = []
    while rest.tell() < len(data):
        frames.append(RECORD.cut(rest, byteorder))
    return frames
