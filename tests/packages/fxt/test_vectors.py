"""The corpus: words that other projects assert, and traces that other programs wrote, with their known meaning.

`expectations.json` and `files.json` were derived without fxtio.  Each of their entries becomes a record here, so that
both directions can be compared; what a vector with a `reason` is about is a test of its own.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections import Counter
from typing import Any

import pytest

from fxtio.codec.generate import encode
from fxtio.codec.parts import Many, Stream, Words
from fxtio.codec.record import Opaque, layout_of
from fxtio.errors import EncodeError
from fxtio.fxt import FxtTrace
from fxtio.fxt import records as rec
from fxtio.fxt.frames import OpaqueGap
from fxtio.fxt.layout import StringRefWord
from fxtio.fxt.records import Thread, ThreadReference
from fxtio.fxt.slots import Clock
from support import fxt_model
from support.checkout import CORPUS
from support.fxt_oracle import ARGUMENT_TYPES, KINDS
from support.fxt_readings import kept_findings, rules
from support.fxt_twins import native, plain, scalar

FXT = CORPUS / "fxt"
VECTORS: dict[str, Any] = {vector["name"]: vector for vector in json.loads((FXT / "vectors.json").read_text("utf-8"))}
EXPECTED: dict[str, Any] = json.loads((FXT / "expectations.json").read_text("utf-8"))
FILES: dict[str, Any] = json.loads((FXT / "files.json").read_text("utf-8"))

SOUND = [name for name, entry in EXPECTED.items() if "reason" not in entry]
IGNORED = "spec/string_index_0"
"""Readers must ignore such a record, so the codec refuses to write one; a raw reading keeps it as `Opaque`."""
ENCODABLE = [name for name in SOUND if name != IGNORED]
REASONS = [name for name, entry in EXPECTED.items() if "reason" in entry]

CLASSES = {kind: cls for cls, (kind, _) in KINDS.items()}
ARGUMENTS = {kind: cls for cls, kind in ARGUMENT_TYPES.items()}
RENAMED = {
    "provider": "provider_id",
    "counter_id": "id",
    "correlation_id": "id",
    "end_timestamp": "end",
    "outgoing_thread": "outgoing",
    "incoming_thread": "incoming",
    "waking_thread": "waking",
    "module_id": "module",
    "start_address": "start",
    "address_range": "range",
}
RENAMED_IN = {
    rec.String: {"value": "text"},
    rec.Blob: {"type": "blob_type"},
    rec.KernelObject: {"type": "object_type"},
    rec.TraceInfo: {"type": "info_type"},
}


def record_of(entry: dict[str, Any]) -> Any:
    """Return the record that an entry of the expectations describes."""
    entry = dict(entry)
    kind = entry.pop("kind")
    if kind in ("unknown", "malformed"):
        return Opaque(bytes.fromhex(entry["raw"]))
    cls = CLASSES[kind]
    extra = entry.pop("extra_words", [])
    if cls is rec.Initialization and extra:
        entry |= {"base_ticks": extra[0], "wall_clock": extra[1]}
    if cls is rec.ProfilerBacktrace:
        entry["flags"] = 0
    parts = dict(layout_of(cls).parts)
    values = {}
    for key, value in entry.items():
        name = RENAMED_IN.get(cls, {}).get(key, RENAMED.get(key, key))
        values[name] = value_of(parts[name], value)
    return cls(**values)


def value_of(part: Any, value: Any) -> Any:
    if isinstance(part, ThreadReference) and isinstance(value, list):
        return Thread(*value) if len(value) == 2 else Thread(value[0], None)
    if isinstance(part, Many):
        return tuple([argument_of(*item) for item in value])
    if isinstance(part, Words):
        return tuple(value)
    if isinstance(part, Stream):
        return value if part.text else bytes.fromhex(value)
    return bytes.fromhex(value) if type(part).__name__ == "Sized" else value


def argument_of(kind: str, name: Any, value: Any) -> Any:
    if kind == "unknown":
        return Opaque(bytes.fromhex(value))
    if kind == "null":
        return rec.NullArgument(name)
    return ARGUMENTS[kind](name, bytes.fromhex(value) if kind == "blob" else value)


def bytes_of(name: str) -> bytes:
    return bytes.fromhex(VECTORS[name]["hex"])


def decoded(data: bytes) -> list[Any]:
    return [scalar(raw, "little") for _, raw in fxt_model.framed_records(data, "little")]


def records_of(name: str) -> list[Any]:
    return [record_of(entry) for entry in EXPECTED[name]["records"]]


# --- Vectors --------------------------------------------------------------------------------------------------------


def test_all_vectors_are_present() -> None:
    assert list(VECTORS) == list(EXPECTED)
    assert len(VECTORS) >= 89
    assert len(REASONS) <= 16
    for vector in VECTORS.values():
        assert (
            struct.pack(f"<{len(vector['words'])}Q", *[int(word, 16) for word in vector["words"]]).hex()
            == vector["hex"]
        )


def test_every_class_has_a_vector() -> None:
    seen = [record for name in SOUND for record in records_of(name)]
    arguments = [argument for record in seen for argument in getattr(record, "args", ())]
    assert {type(argument) for argument in arguments} == set(rec.ARGUMENTS.classes)
    assert {type(record) for record in seen} == set(rec.RECORDS.classes) - {rec.TraceInfo}


@pytest.mark.parametrize("name", ENCODABLE)
def test_a_vector_decodes_to_its_expectation(name: str) -> None:
    data, records = bytes_of(name), records_of(name)
    assert plain(decoded(data)) == plain(records)
    assert b"".join([encode(record) for record in records]) == data
    assert plain(list(FxtTrace(data).records(resolve=False))) == plain(records)


@pytest.mark.parametrize("name", ENCODABLE)
def test_a_vector_in_the_other_byte_order(name: str) -> None:
    records = records_of(name)
    big = [encode(record, "big") for record in records]
    assert plain([scalar(raw, "big") for raw in big]) == plain(records)
    for raw, other in zip(big, fxt_model.framed_records(bytes_of(name), "little"), strict=True):
        assert native(raw[:8], "big") == native(other[1][:8], "little")


def test_a_record_that_must_be_ignored() -> None:
    data = bytes_of(IGNORED)
    assert plain(decoded(data)) == plain(records_of(IGNORED))
    with pytest.raises(EncodeError, match=r"String\.index: 0 does not fit in bits 16\.\.30 \(1 to 32767\)"):
        encode(records_of(IGNORED)[0])
    assert list(FxtTrace(data).records(resolve=False)) == [Opaque(data)]


@pytest.mark.parametrize("name", SOUND)
def test_a_vector_in_a_trace_resolved(name: str) -> None:
    trace = encode(rec.Magic()) + bytes_of(name)
    assert plain(list(FxtTrace(trace))) == plain([entry.record for entry in fxt_model.read(trace)])


# --- Vectors that are not what a writer should write ------------------------------------------------------------------

SEEN: set[str] = set()


def reason(name: str, word: str) -> tuple[bytes, list[Any]]:
    """Return the bytes and the records of a vector whose reason begins with this word."""
    SEEN.add(name)
    assert EXPECTED[name]["reason"].startswith(f"{word}:")
    return bytes_of(name), records_of(name)


def test_a_process_alone_as_thread_of_a_profiler_record() -> None:
    data, records = reason("rust_fxt/profiler_module_pid_only", "variant")
    assert records[0].thread == Thread(123, None)
    assert decoded(data) == records
    assert encode(records[0]) == data


def test_flags_of_a_backtrace() -> None:
    data, records = reason("rust_fxt/profiler_backtrace_flags", "variant")
    flagged = records[0].replace(flags=2)
    assert decoded(data) == [flagged]
    assert encode(flagged) == data


@pytest.mark.parametrize("name", ["rust_fxt/unknown_record_type_14", "ftfrs/invalid_event_type_11"])
def test_unknown_records_are_kept(name: str) -> None:
    data, records = reason(name, "unknown")
    assert isinstance(records[0], Opaque)
    assert decoded(data) == records
    assert list(FxtTrace(data).records(resolve=False)) == records
    assert FxtTrace(data).info.records["Opaque"] == 1
    trace = FxtTrace(data)
    assert len(list(trace)) == len(records)
    unknown = {"fxt.framing.unknown-record", "fxt.event.unknown", "fxt.sched.type", "fxt.framing.unknown-metadata"}
    assert len(unknown & rules(trace.findings).keys()) == 1


def test_unknown_arguments_are_kept() -> None:
    data, records = reason("janestreet/unknown_arg_type_15", "unknown")
    assert any(isinstance(argument, Opaque) for argument in records[-1].args)
    assert decoded(data) == records
    assert b"".join([encode(record) for record in records]) == data
    trace = FxtTrace(data)
    assert list(trace)[-1].args == fxt_model.read(data)[-1].record.args
    assert rules(trace.findings) == {"fxt.arg.unknown": 1}


def test_a_cut_record() -> None:
    data, records = reason("janestreet/truncated_last_word", "malformed")
    left = bytes.fromhex(EXPECTED["janestreet/truncated_last_word"]["left_over"])
    trace = FxtTrace(data)
    assert list(trace.records(resolve=False)) == [*records, OpaqueGap(left)]
    assert kept_findings(trace.findings) == [("fxt.framing.truncated", "error", len(data) - len(left))]
    whole = list(FxtTrace(data + (100).to_bytes(8, "little")))
    assert (whole[-1].timestamp, whole[-1].thread) == (100, Thread(0, 0))


def test_a_thread_that_is_never_bound() -> None:
    data, records = reason("janestreet/unknown_thread_ref", "malformed")
    assert decoded(data) == records
    trace = FxtTrace(data)
    assert list(trace)[-1].thread == 42
    assert [(rule, level) for rule, level, _ in kept_findings(trace.findings)] == [("fxt.thread.undefined", "warning")]


def test_a_provider_name_with_a_wrong_length() -> None:
    data, records = reason("ocaml_trace/second", "malformed")
    assert decoded(data) == records
    trace = FxtTrace(data)
    raw = list(trace.records(resolve=False))
    assert [record for record in raw if isinstance(record, Opaque)] == [raw[3]]
    assert b"".join([encode(record) for record in raw]) == data
    assert [record for record in raw if not isinstance(record, Opaque)] == records[:3] + records[4:]


def test_zero_words_between_records() -> None:
    data, records = reason("quirk/zero_word_padding", "malformed")
    trace = FxtTrace(data)
    assert list(trace) == records
    assert [(rule, level) for rule, level, _ in kept_findings(trace.findings)] == [
        ("fxt.framing.zero-words", "warning")
    ]


@pytest.mark.parametrize("name", [name for name in REASONS if name.startswith("perfetto/ticks_to_ns")])
def test_ticks_to_nanoseconds(name: str) -> None:
    reason(name, "arithmetic")
    expect = VECTORS[name]["expect"]
    clock, ns = Clock(expect["ticks_per_second"]), expect["ns"]
    assert clock.ns(expect["ticks"]) == (ns if ns >= 0 else 4 * 10**19)


@pytest.mark.parametrize("name", [name for name in REASONS if name.startswith("ocaml_trace/inline_ref")])
def test_inline_refs(name: str) -> None:
    reason(name, "arithmetic")
    length, ref = VECTORS[name]["expect"]["length"], VECTORS[name]["expect"]["ref"]
    text = "x" * length or 0  # an empty string is slot 0
    header = native(encode(rec.NullArgument(text)), "little")[0]
    assert rec.NullArgument.words[0].fields["name"].get(header) == ref
    assert int(StringRefWord(index=length, inline=int(length > 0))) == ref


def test_every_reason_was_looked_at() -> None:
    assert set(REASONS) == SEEN


# --- Files ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FILES)
def test_a_file_has_the_expected_counts(name: str) -> None:
    path, expected = FXT / name, FILES[name]
    assert hashlib.sha256(path.read_bytes()).hexdigest() == expected["sha256"]
    trace = FxtTrace(path)
    assert trace.info.size == expected["bytes"]
    counts = Counter(expected["counts"])
    actual = Counter({KINDS[getattr(rec, cls)][0]: count for cls, count in trace.info.records.items()})
    if name == "ftr-counter-malformed.fxt":
        assert actual.pop("counter") == counts.pop("malformed") == 3
    assert actual == counts
    list(trace)
    # ocaml-trace counts the length of the provider's name in words
    odd = {"fxt.provider.name-words"} if name == "ocaml-trace-second.fxt" else set()
    assert set(rules(trace.findings)) == ({"fxt.arg.counter-id-first"} if "malformed" in expected["counts"] else odd)


@pytest.mark.parametrize("name", FILES)
def test_a_copy_of_a_file_is_the_file(name: str) -> None:
    data = (FXT / name).read_bytes()
    assert b"".join([encode(record) for record in FxtTrace(FXT / name).records(resolve=False)]) == data


@pytest.mark.parametrize("name", [name for name, entry in FILES.items() if "records" in entry])
def test_a_small_file_has_the_expected_records(name: str) -> None:
    data = (FXT / name).read_bytes()
    for record, entry in zip(decoded(data), FILES[name]["records"], strict=True):
        if entry["kind"] == "malformed":
            assert isinstance(record, rec.Counter)
            assert record.args == ()
        else:
            assert plain(record) == plain(record_of(entry))


@pytest.mark.full
@pytest.mark.parametrize("name", FILES)
def test_a_file_resolved(name: str) -> None:
    data = (FXT / name).read_bytes()
    assert plain(list(FxtTrace(FXT / name))) == plain([entry.record for entry in fxt_model.read(data)])


def test_the_arguments_of_malformed_counters_are_reported() -> None:
    trace = FxtTrace(FXT / "ftr-counter-malformed.fxt")
    counters = [record for record in trace if isinstance(record, rec.Counter)]
    assert [(counter.args, counter.id) for counter in counters] == [((), 0x10023)] * 3, (
        "the id is found from the record's end"
    )
    assert rules(trace.findings) == {"fxt.arg.counter-id-first": 3}
