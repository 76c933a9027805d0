"""Derives `expectations.json` and `files.json`: what each vector and each small trace of the corpus means.

The specification restated once more, in the plainest way: a cursor over 64-bit words, one function for each record
type, and plain dicts as the result. It shares no code and no idea with fxtio, so that a misreading in fxtio cannot
repeat itself here. It is slow and complete rather than clever. README.md explains the form of its output.

    python tests/corpus/fxt/derive.py            write the files anew
    python tests/corpus/fxt/derive.py --check    only compare; exit status 1 if they differ

What no program can derive is written by hand in vectors.json: `reason` says why a vector is not what a writer that
follows the specification would have written.
"""

from __future__ import annotations

import hashlib
import json
import struct
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

HERE = Path(__file__).parent
Record: TypeAlias = dict[str, Any]
SMALL_FILE = 700  # bytes; of larger traces only the counts are written down

# fmt: off
EVENTS = [  # by event type
    "instant", "counter", "duration_begin", "duration_end", "duration_complete", "async_begin", "async_instant",
    "async_end", "flow_begin", "flow_step", "flow_end",
]
ARGUMENTS = [  # by argument type
    "null", "int32", "uint32", "int64", "uint64", "double", "string", "pointer", "koid", "bool", "blob",
]
# fmt: on


class MalformedError(Exception):
    """The record cannot be what its header says."""


def bits(word: int, first: int, last: int) -> int:
    """The bits [first .. last] of a word, both inclusive, as the specification numbers them."""
    return word >> first & (1 << last - first + 1) - 1


class Cursor:
    """Reads words and streams one after another."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def bytes_left(self) -> int:
        return len(self.data) - self.at

    def take(self, size: int) -> bytes:
        if size > self.bytes_left():
            raise MalformedError("its content is longer than its size")
        self.at += size
        return self.data[self.at - size : self.at]

    def word(self) -> int:
        return int.from_bytes(self.take(8), "little")

    def stream(self, size: int) -> bytes:
        return self.take(-(-size // 8) * 8)[:size]

    def text(self, size: int) -> str:
        return self.stream(size).decode("utf-8", "surrogateescape")

    def string(self, ref: int) -> int | str:
        """An index into the string table, or the text that stands here. 0 is the empty string."""
        return self.text(ref & 0x7FFF) if ref & 0x8000 else ref

    def thread(self, ref: int) -> int | list[int]:
        """An index into the thread table, or the [process, thread] that stands here."""
        return ref or [self.word(), self.word()]

    def arguments(self, count: int) -> list[list[Any]]:
        return [self.argument() for _ in range(count)]

    def argument(self) -> list[Any]:
        start = self.at
        header = self.word()
        size = 8 * bits(header, 4, 15)
        if size == 0:
            raise MalformedError("an argument has size 0")
        inside = Cursor(self.data[start : start + size])
        inside.at = 8
        name = inside.string(bits(header, 16, 31))
        self.at = start
        raw = self.take(size)
        kind = bits(header, 0, 3)
        if kind >= len(ARGUMENTS):
            return ["unknown", name, raw.hex()]
        value = argument_value(ARGUMENTS[kind], header, inside)
        if inside.bytes_left():
            raise MalformedError("an argument is shorter than its size")
        return [ARGUMENTS[kind], name, value]


def argument_value(kind: str, header: int, inside: Cursor) -> Any:
    """The value of an argument; `inside` stands behind its name."""
    high = bits(header, 32, 63)
    if kind == "null":
        return None
    if kind == "int32":
        return high - (1 << 32) if high >> 31 else high
    if kind == "uint32":
        return high
    if kind == "int64":
        return struct.unpack("<q", inside.take(8))[0]
    if kind == "double":
        return struct.unpack("<d", inside.take(8))[0]
    if kind == "string":
        return inside.string(bits(header, 32, 47))
    if kind == "bool":
        return bool(bits(header, 32, 32))
    if kind == "blob":
        return inside.stream(high).hex()
    return inside.word()  # uint64, pointer, koid


def metadata(header: int, body: Cursor) -> Record:
    kind = bits(header, 16, 19)
    provider = bits(header, 20, 51)
    if kind == 1:
        return {"kind": "provider_info", "provider": provider, "name": body.text(bits(header, 52, 59))}
    if kind == 2:
        return {"kind": "provider_section", "provider": provider}
    if kind == 3:
        return {"kind": "provider_event", "provider": provider, "event": bits(header, 52, 55)}
    if kind == 4 and header == 0x0016547846040010:
        return {"kind": "magic"}
    if kind == 4:
        return {"kind": "trace_info", "type": bits(header, 20, 23), "data": bits(header, 24, 63)}
    return {"kind": "unknown"}


def initialization(header: int, body: Cursor) -> Record:
    return {"kind": "initialization", "ticks_per_second": body.word()}


def string(header: int, body: Cursor) -> Record:
    return {"kind": "string", "index": bits(header, 16, 30), "value": body.text(bits(header, 32, 46))}


def thread(header: int, body: Cursor) -> Record:
    return {"kind": "thread", "index": bits(header, 16, 23), "process": body.word(), "thread": body.word()}


def event(header: int, body: Cursor) -> Record:
    number = bits(header, 16, 19)
    if number >= len(EVENTS):
        return {"kind": "unknown"}
    kind = EVENTS[number]
    record = {
        "kind": kind,
        "timestamp": body.word(),
        "thread": body.thread(bits(header, 24, 31)),
        "category": body.string(bits(header, 32, 47)),
        "name": body.string(bits(header, 48, 63)),
        "args": body.arguments(bits(header, 20, 23)),
    }
    if kind == "counter":
        record["counter_id"] = body.word()
    elif kind == "duration_complete":
        record["end_timestamp"] = body.word()
    elif kind.startswith(("async", "flow")):
        record["correlation_id"] = body.word()
    return record


def blob(header: int, body: Cursor) -> Record:
    name = body.string(bits(header, 16, 31))
    payload = body.stream(bits(header, 32, 46))
    return {"kind": "blob", "name": name, "type": bits(header, 48, 55), "payload": payload.hex()}


def userspace_object(header: int, body: Cursor) -> Record:
    return {
        "kind": "userspace_object",
        "pointer": body.word(),
        "process": bits(header, 16, 23) or [body.word()],
        "name": body.string(bits(header, 24, 39)),
        "args": body.arguments(bits(header, 40, 43)),
    }


def kernel_object(header: int, body: Cursor) -> Record:
    return {
        "kind": "kernel_object",
        "type": bits(header, 16, 23),
        "koid": body.word(),
        "name": body.string(bits(header, 24, 39)),
        "args": body.arguments(bits(header, 40, 43)),
    }


def scheduling(header: int, body: Cursor) -> Record:
    kind = bits(header, 60, 63)
    if kind == 0:
        return {
            "kind": "legacy_context_switch",
            "cpu": bits(header, 16, 23),
            "outgoing_state": bits(header, 24, 27),
            "outgoing_priority": bits(header, 44, 51),
            "incoming_priority": bits(header, 52, 59),
            "timestamp": body.word(),
            "outgoing_thread": body.thread(bits(header, 28, 35)),
            "incoming_thread": body.thread(bits(header, 36, 43)),
        }
    if kind == 1:
        return {
            "kind": "context_switch",
            "cpu": bits(header, 20, 35),
            "outgoing_state": bits(header, 36, 39),
            "timestamp": body.word(),
            "outgoing_thread": body.word(),
            "incoming_thread": body.word(),
            "args": body.arguments(bits(header, 16, 19)),
        }
    if kind == 2:
        return {
            "kind": "thread_wakeup",
            "cpu": bits(header, 20, 35),
            "timestamp": body.word(),
            "waking_thread": body.word(),
            "args": body.arguments(bits(header, 16, 19)),
        }
    return {"kind": "unknown"}


def log(header: int, body: Cursor) -> Record:
    return {
        "kind": "log",
        "timestamp": body.word(),
        "thread": body.thread(bits(header, 32, 39)),
        "message": body.text(bits(header, 16, 30)),
    }


def profiler(header: int, body: Cursor) -> Record:
    kind = bits(header, 16, 19)
    if kind > 2:
        return {"kind": "unknown"}
    name_size, build_size = bits(header, 44, 51), bits(header, 52, 59)
    words = (-(-name_size // 8) - (-build_size // 8), 3, bits(header, 28, 35))[kind]
    record: Record = {"kind": ("profiler_module", "profiler_mmap", "profiler_backtrace")[kind]}
    record["timestamp"] = body.word()
    thread_ref = bits(header, 20, 27)
    if thread_ref == 0 and body.bytes_left() == 8 * (words + 1):
        record["thread"] = [body.word()]  # not in the specification: some writers leave the thread out
    else:
        record["thread"] = body.thread(thread_ref)
    if kind == 2:
        return record | {"frames": [body.word() for _ in range(words)]}
    record["module_id"] = bits(header, 28, 43)
    if kind == 0:
        return record | {"name": body.text(name_size), "build_id": body.stream(build_size).hex()}
    record["flags"] = bits(header, 44, 46)
    return record | {"start_address": body.word(), "address_range": body.word(), "vaddr": body.word()}


def large(header: int, body: Cursor) -> Record:
    form = bits(header, 40, 43)
    if bits(header, 36, 39) != 0 or form > 1:
        return {"kind": "unknown"}
    word = body.word()
    record: Record = {"kind": ("large_blob", "large_blob_no_metadata")[form]}
    record["category"] = body.string(bits(word, 0, 15))
    record["name"] = body.string(bits(word, 16, 31))
    if form == 0:
        record["timestamp"] = body.word()
        record["thread"] = body.thread(bits(word, 36, 43))
        record["args"] = body.arguments(bits(word, 32, 35))
    record["payload"] = body.stream(body.word()).hex()
    return record


RECORDS: dict[int, Callable[[int, Cursor], Record]] = {
    0: metadata,
    1: initialization,
    2: string,
    3: thread,
    4: event,
    5: blob,
    6: userspace_object,
    7: kernel_object,
    8: scheduling,
    9: log,
    10: profiler,
    15: large,
}


def decode_record(data: bytes) -> Record:
    """One whole record. `raw` is added to what is unknown or malformed, `extra_words` to what is longer than needed."""
    body = Cursor(data)
    header = body.word()
    decode = RECORDS.get(bits(header, 0, 3))
    try:
        record: Record = decode(header, body) if decode else {"kind": "unknown"}
    except MalformedError as error:
        return {"kind": "malformed", "why": str(error), "raw": data.hex()}
    if record["kind"] == "unknown":
        return record | {"type": bits(header, 0, 3), "raw": data.hex()}
    if body.bytes_left():
        record["extra_words"] = [body.word() for _ in range(body.bytes_left() // 8)]
    return record


def decode(data: bytes) -> Record:
    """All records of a trace, and what is left over at its end (`left_over`)."""
    records = []
    at = 0
    while len(data) - at >= 8:
        header = int.from_bytes(data[at : at + 8], "little")
        if header == 0:  # not a record
            at += 8
            continue
        words = bits(header, 4, 35) if bits(header, 0, 3) == 15 else bits(header, 4, 15)
        if words == 0 or 8 * words > len(data) - at:
            break
        records.append(decode_record(data[at : at + 8 * words]))
        at += 8 * words
    return {"records": records} | ({"left_over": data[at:].hex()} if at < len(data) else {})


def vector_expectations() -> Record:
    expectations = {}
    for vector in json.loads((HERE / "vectors.json").read_text("utf-8")):
        name, data = vector["name"], bytes.fromhex(vector["hex"])
        words = b"".join(int(word, 16).to_bytes(8, "little") for word in vector["words"])
        assert data == words, name
        expectations[name] = decode(data) | ({"reason": vector["reason"]} if "reason" in vector else {})
    return expectations


def file_expectations() -> Record:
    expectations = {}
    for path in sorted(HERE.glob("*.fxt")):
        data = path.read_bytes()
        entry: Record = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        decoded = decode(data)
        entry["counts"] = dict(sorted(Counter(record["kind"] for record in decoded["records"]).items()))
        expectations[path.name] = entry | (decoded if len(data) < SMALL_FILE else {})
    return expectations


def as_text(expectations: Record) -> str:
    """JSON with a line for each record, so that a change can be read in a diff."""
    entries = []
    for name, entry in expectations.items():
        parts = []
        for key, value in entry.items():
            if key == "records" and value:
                lines = ",\n   ".join(json.dumps(record) for record in value)
                parts.append(f"  {json.dumps(key)}: [\n   {lines}\n  ]")
            else:
                parts.append(f"  {json.dumps(key)}: {json.dumps(value)}")
        entries.append(f" {json.dumps(name)}: {{\n" + ",\n".join(parts) + "\n }")
    return "{\n" + ",\n".join(entries) + "\n}\n"


def main() -> int:
    status = 0
    for name, expectations in (("expectations.json", vector_expectations()), ("files.json", file_expectations())):
        path, text = HERE / name, as_text(expectations)
        if "--check" not in sys.argv[1:]:
            path.write_text(text, "utf-8", newline="\n")
        elif not path.is_file() or path.read_text("utf-8") != text:
            print(f"{name} is not what derive.py makes of the corpus", file=sys.stderr)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
