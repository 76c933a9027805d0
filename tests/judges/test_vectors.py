"""The corpus's expectations, checked by a judge: the PyPI reader must agree with expectations.json on each vector.

`derive.py` and fxtio are both ours and could share a misreading. The PyPI reader wants every reference bound, so each
vector gets a preamble that registers the strings and threads it refers to, under texts and koids made from the index.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

import judges
from judges import pypi_fxt

CORPUS = Path(__file__).parents[1] / "corpus" / "fxt"
VECTORS: dict[str, str] = {
    vector["name"]: vector["hex"] for vector in json.loads((CORPUS / "vectors.json").read_text("utf-8"))
}
EXPECTATIONS: dict[str, Any] = json.loads((CORPUS / "expectations.json").read_text("utf-8"))
SOUND = [name for name, entry in EXPECTATIONS.items() if "reason" not in entry]

MAGIC = 0x0016547846040010
STATE = {"magic", "provider_info", "provider_section", "provider_event", "initialization", "string", "thread"}
LEFT_OUT = {"legacy_context_switch", "profiler_module", "profiler_mmap", "profiler_backtrace"}
ARGUMENTS = {"null", "int32", "uint32", "int64", "uint64", "double", "string", "pointer", "koid", "bool", "blob"}
RENAMED = {
    "timestamp": "timestamp_ns",
    "end_timestamp": "end_ns",
    "process": "process_id",
    "koid": "id",
    "cpu": "cpu_id",
    "outgoing_state": "outgoing_thread_state",
    "outgoing_thread": "outgoing_thread_id",
    "incoming_thread": "incoming_thread_id",
    "waking_thread": "waking_thread_id",
}


class Tables:
    """The meaning of the references of a vector, and a preamble that defines them."""

    def __init__(self) -> None:
        self.preamble = struct.pack("<4Q", MAGIC, 0x00077770_00010010, 0x21, 10**9)  # a nameless provider, 1e9 ticks/s
        self.texts: dict[int, str] = {0: ""}
        self.threads: dict[int, tuple[int, int]] = {}
        self.rate = 10**9

    def note(self, record: dict[str, Any]) -> None:
        """Follow a record of the vector's own that changes the state."""
        if record["kind"] == "initialization":
            self.rate = record["ticks_per_second"]
        elif record["kind"] == "string" and record["index"]:
            self.texts[record["index"]] = record["value"]
        elif record["kind"] == "thread":
            self.threads[record["index"]] = (record["process"], record["thread"])

    def text(self, ref: int | str) -> str:
        if isinstance(ref, str):
            return ref
        if ref not in self.texts:
            self.texts[ref] = text = f"text {ref}"
            size = 1 + -(-len(text) // 8)
            header = 2 | size << 4 | ref << 16 | len(text) << 32
            self.preamble += struct.pack("<Q", header) + text.encode().ljust(8 * (size - 1), b"\0")
        return self.texts[ref]

    def thread(self, ref: int | list[int]) -> tuple[int, int]:
        if isinstance(ref, list):
            return ref[0], ref[-1]
        if ref not in self.threads:
            self.threads[ref] = (1000 + ref, 2000 + ref)
            self.preamble += struct.pack("<3Q", 3 | 3 << 4 | ref << 16, *self.threads[ref])
        return self.threads[ref]

    def resolve(self, key: str, value: Any) -> Any:
        """Return the value that the reader must return for a field of an expectation."""
        if key in ("category", "name"):
            return self.text(value)
        if key == "args":
            return {self.text(name): self.text(v) if kind == "string" else v for kind, name, v in value}
        if key == "thread":
            return self.thread(value)
        if key == "process":
            return self.thread(value)[0]
        if key in ("timestamp", "end_timestamp"):
            return value * 10**9 // self.rate
        return bytes.fromhex(value) if key == "payload" else value


def readable(record: dict[str, Any]) -> bool:
    """Return whether the reader supports records of this kind."""
    if record["kind"] == "kernel_object":
        return record["type"] in (1, 2)
    return record["kind"] not in STATE | LEFT_OUT


def refused(records: list[dict[str, Any]]) -> bool:
    """Return whether the reader is known to raise an error: blob arguments, and text that is not UTF-8."""
    text = json.dumps([record for record in records if readable(record)], ensure_ascii=False)
    has_blob = any(kind == "blob" for record in records for kind, _, _ in record.get("args", []))
    return has_blob or any("\udc80" <= character <= "\udcff" for character in text)


@pytest.mark.full
@pytest.mark.parametrize("name", SOUND)
def test_the_pypi_reader_agrees(name: str) -> None:
    judges.require(pypi_fxt.available())
    records = EXPECTATIONS[name]["records"]
    tables = Tables()
    expected = []
    for record in records:
        tables.note(record)
        if readable(record):
            expected.append({RENAMED.get(key, key): tables.resolve(key, value) for key, value in record.items()})
    trace = tables.preamble + bytes.fromhex(VECTORS[name])
    if name == "libfxt/provider_section":
        with pytest.raises(pypi_fxt.PypiFxtError, match="ProviderSection before ProviderInfo"):
            pypi_fxt.read(trace)
    elif name == "quirk/provider_buffer_full":
        with pytest.raises(pypi_fxt.PypiFxtError, match="ProviderEvent before ProviderInfo"):
            pypi_fxt.read(trace)
    elif refused(records):
        with pytest.raises(pypi_fxt.PypiFxtError):
            pypi_fxt.read(trace)
    else:
        assert pypi_fxt.read(trace).records == expected


def test_sound_vectors_cover_every_kind() -> None:
    records = [record for name in SOUND for record in EXPECTATIONS[name]["records"]]
    kinds = {record["kind"] for record in records}
    arguments = {kind for record in records for kind, _, _ in record.get("args", [])}
    assert kinds == STATE | LEFT_OUT | set(pypi_fxt.KINDS.values())
    assert arguments == ARGUMENTS
