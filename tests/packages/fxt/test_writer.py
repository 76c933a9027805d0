"""The writer's contract: what a file holds, where it goes, what is refused and what then becomes of the file.

No judge is needed here: everything is read back in strict mode, where any fault is an error. The tables after the
friendly methods are in `test_writer_tables.py`, columns in `test_writer_bulk.py`.
"""

from __future__ import annotations

import array
import gzip
import io
import lzma
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard

import fxtio
from fxtio.codec.generate import encode
from fxtio.codec.record import Opaque
from fxtio.errors import EncodeError, FormatError
from fxtio.fxt import FxtWriter, Koid
from fxtio.fxt import records as rec
from fxtio.fxt.enums import BlobType
from fxtio.fxt.records import Int32Argument, KoidArgument, NullArgument, StringArgument, Thread
from support.fxt_bad import MIB, memory
from support.limits import PATIENCE

PREAMBLE = [rec.Magic(), rec.ProviderInfo(1, "fxtio"), rec.ProviderSection(1), rec.Initialization(10**9)]
DEFINITIONS = rec.String | rec.ThreadRecord


def written(write: Callable[[FxtWriter], object], **options: Any) -> bytes:
    out = io.BytesIO()
    with fxtio.create(out, format="fxt", **options) as writer:
        write(writer)
    return out.getvalue()


def read(data: bytes) -> list[Any]:
    """Return all records except definitions of slots; raise for any fault."""
    return [record for record in fxtio.open(data, strict=True) if not isinstance(record, DEFINITIONS)]


def instant(name: str, timestamp: int, *args: Any) -> rec.Instant:
    return rec.Instant(timestamp, Thread(1, 2), "", name, args)


# ----------------------------------------------------------------------------------------------------------- preamble


def test_an_empty_trace_has_a_preamble() -> None:
    assert read(written(lambda _: None)) == PREAMBLE


def test_the_preamble_has_the_given_provider_and_clock() -> None:
    clock = {"ticks_per_second": 1, "base_ticks": 2, "wall_clock": 3}
    number, name = 0xFFFF_FFFF, "ü" * 127
    provider = [rec.ProviderInfo(number, name), rec.ProviderSection(number)]
    records = read(written(lambda _: None, provider=name, provider_id=number, **clock))
    assert records == [rec.Magic(), *provider, rec.Initialization(1, 2, 3)]


def test_exact_records_need_no_preamble() -> None:
    record = rec.Instant(1, Thread(1, 2), "", "name", ())
    assert read(written(lambda writer: [writer.put(item) for item in (rec.Magic(), record)])) == [rec.Magic(), record]
    with fxtio.open(written(lambda writer: writer.put(record)), format="fxt") as trace:
        assert list(trace) == [record]
    assert read(written(lambda writer: None)) == PREAMBLE


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"ticks_per_second": 0}, "ticks_per_second"),
        ({"ticks_per_second": -1}, "ticks_per_second"),
        ({"ticks_per_second": 1e9}, "ticks_per_second"),
        ({"ticks_per_second": 1 << 64}, "ticks_per_second"),
        ({"base_ticks": 5}, "base_ticks"),
        ({"wall_clock": -1}, "wall_clock"),
        ({"base_ticks": -1, "wall_clock": 5}, "base_ticks"),
        ({"provider": "x" * 256}, "name_size"),
        ({"provider_id": 1 << 32}, "provider"),
        ({"provider_id": -1}, "provider"),
    ],
)
def test_a_wrong_preamble_creates_no_file(tmp_path: Path, options: dict[str, Any], field: str) -> None:
    path = tmp_path / "trace.fxt"
    with pytest.raises(EncodeError, match=field):
        fxtio.create(path, **options)
    assert not path.exists()


def test_providers_that_cannot_be() -> None:
    def write(writer: FxtWriter) -> None:
        with pytest.raises(EncodeError, match="1 is the id of 'fxtio'"):
            writer.provider("again", 1)
        with pytest.raises(EncodeError, match="name_size"):
            writer.provider("x" * 256)
        with pytest.raises(EncodeError, match="ticks_per_second"):
            writer.provider("stopped", ticks_per_second=0)
        assert writer.provider("next").id == 2
        assert writer.provider("last", 0xFFFF_FFFF).id == 0xFFFF_FFFF
        assert writer.provider("after the last").id == 3  # the smallest id that is free

    assert read(written(write)) == PREAMBLE  # one that writes nothing leaves nothing


def test_the_wall_clock_arrives() -> None:
    wall = datetime(2024, 2, 29, 12, 30, tzinfo=UTC)
    ns = int(wall.timestamp()) * 10**9

    def started_at(**options: Any) -> datetime | None:
        data = written(lambda writer: writer.thread(1, 2).complete("span", 5000, 7000), **options)
        return fxtio.open(data, strict=True).info.started_at

    assert started_at(ticks_per_second=1000, base_ticks=5000, wall_clock=ns) == wall
    assert started_at(ticks_per_second=1000, base_ticks=4000, wall_clock=ns) == wall.replace(second=1)
    assert started_at(ticks_per_second=1000, base_ticks=6000, wall_clock=ns) == wall.replace(minute=29, second=59)
    assert started_at(wall_clock=ns) == wall.replace(microsecond=5)  # the clock was read at tick 0
    assert started_at() is None


# ------------------------------------------------------------------------------------------------------------ targets

COMPRESSED: dict[str, tuple[str | None, Callable[[bytes], bytes]]] = {
    ".fxt": (None, bytes),
    ".fxt.gz": ("gzip", gzip.decompress),
    ".fxt.xz": ("xz", lzma.decompress),
    ".fxt.zst": ("zstd", lambda data: zstandard.ZstdDecompressor().decompressobj().decompress(data)),
}


def write_many(writer: FxtWriter) -> None:
    track = writer.thread(1, 2)
    for number in range(20_000):
        track.instant("name", number, args={"number": number})


@pytest.mark.parametrize("suffix", COMPRESSED)
def test_paths(tmp_path: Path, suffix: str) -> None:
    kind, unpack = COMPRESSED[suffix]
    path = tmp_path / f"trace{suffix}"
    for target in (path, str(path)):
        with fxtio.create(target) as writer:
            write_many(writer)
            position = writer.position
        assert unpack(path.read_bytes()) == written(write_many)
        assert len(written(write_many)) == position
        with fxtio.open(path, strict=True) as trace:
            assert trace.info.compression == kind
            assert trace.info.records["Instant"] == 20_000


def test_the_format_follows_from_the_file_name(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="is of no known format"):
        fxtio.create(tmp_path / "trace.dat")
    fxtio.create(tmp_path / "trace.dat", format="fxt").close()
    with fxtio.open(tmp_path / "trace.dat", strict=True) as trace:
        assert trace.info.format == "fxt"
    with pytest.raises(FormatError, match="no format 'json'"):
        fxtio.create(tmp_path / "trace.fxt", format="json")
    with pytest.raises(FileNotFoundError):
        fxtio.create(tmp_path / "nowhere" / "trace.fxt")
    assert [path.name for path in tmp_path.iterdir()] == ["trace.dat"]


def test_file_objects_stay_open() -> None:
    out = io.BytesIO(b"before")
    out.seek(0, io.SEEK_END)
    with fxtio.create(out, format="fxt") as writer:
        write_many(writer)
    assert out.getvalue() == b"before" + written(write_many)  # and so it was not closed


def test_a_file_object_that_takes_little_at_a_time() -> None:
    class Narrow(io.RawIOBase):
        taken = b""

        def writable(self) -> bool:
            return True

        def write(self, data: Any) -> int:
            self.taken += bytes(data[:1000])
            return min(len(data), 1000)

    out = Narrow()
    with fxtio.create(out, format="fxt") as writer:
        write_many(writer)
        position = writer.position
    assert out.taken == written(write_many)
    assert len(out.taken) == position


@pytest.mark.parametrize("is_raw", [False, True])
def test_a_file_object_that_does_not_tell_how_much_it_takes(is_raw: bool) -> None:
    """It takes all, unless it is a raw stream: such a one, if it does not wait, takes nothing sometimes."""
    taken = []

    class Silent(io.RawIOBase if is_raw else object):  # type: ignore[misc]
        calls = 0

        def write(self, data: Any) -> int | None:
            self.calls += 1
            if is_raw and self.calls % 2:
                return None
            taken.append(bytes(data))
            assert len(taken) < 100
            return len(data) if is_raw else None

        def flush(self) -> None:
            pass

    with fxtio.create(Silent(), format="fxt") as writer:
        write_many(writer)
    assert b"".join(taken) == written(write_many)


def test_invalid_targets_are_refused() -> None:
    with pytest.raises(FormatError, match="text"):
        fxtio.create(io.StringIO(), format="fxt")
    with pytest.raises(FormatError, match="int"):
        fxtio.create(5, format="fxt")


def test_standard_output() -> None:
    code = """
import fxtio
with fxtio.create("-", format="fxt") as writer:
    writer.thread(1, 2).instant("name", 5)
print("after")
"""
    run = subprocess.run([sys.executable, "-P", "-c", code], check=True, capture_output=True, timeout=PATIENCE)
    trace, behind, rest = run.stdout.partition(b"after")
    assert (behind, rest.strip()) == (b"after", b"")
    assert read(trace) == [*PREAMBLE, instant("name", 5)]


# ----------------------------------------------------------------------------------------------------------- lifecycle


def test_closing_twice(tmp_path: Path) -> None:
    path = tmp_path / "trace.fxt"
    writer = fxtio.create(path)
    writer.thread(1, 2).instant("name", 5)
    writer.close()
    size = path.stat().st_size
    writer.close()
    with writer:
        pass
    assert path.stat().st_size == size
    assert read(path.read_bytes()) == [*PREAMBLE, instant("name", 5)]


AFTER_CLOSE: dict[str, Callable[[FxtWriter], object]] = {
    "event": lambda writer: writer.thread(1, 2).instant("name", 6),
    "log": lambda writer: writer.thread(1, 2).log("message", 6),
    "named thread": lambda writer: writer.thread(1, 2, "name"),
    "other provider": lambda writer: writer.provider("other").thread(1, 2).instant("name", 6),
    "object": lambda writer: writer.main.kernel_object(1, 2, "name"),
    "switch": lambda writer: writer.main.context_switch(1, 2, 3, 4, 5),
    "bulk": lambda writer: writer.main.write_events("instant", timestamp=[6], thread=writer.thread(1, 2), name="name"),
    "exact": lambda writer: writer.put(rec.Magic()),
}


@pytest.mark.parametrize("after", AFTER_CLOSE.values(), ids=AFTER_CLOSE)
def test_writing_after_the_end(after: Callable[[FxtWriter], object]) -> None:
    out = io.BytesIO()
    writer = fxtio.create(out, format="fxt")
    writer.thread(1, 2).instant("name", 5)
    writer.close()
    whole = out.getvalue()
    with pytest.raises(ValueError, match="the writer is closed"):
        after(writer)
    writer.close()
    assert out.getvalue() == whole


def test_an_exception_keeps_the_records_written_before() -> None:
    out = io.BytesIO()

    def fail() -> None:
        with fxtio.create(out, format="fxt") as writer:
            writer.thread(1, 2).instant("name", 5)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert read(out.getvalue()) == [*PREAMBLE, instant("name", 5)]


def test_an_error_of_the_file_comes_through() -> None:
    class Full(io.BytesIO):
        def write(self, data: Any) -> int:
            raise OSError("no space left")

    writer = fxtio.create(Full(), format="fxt")
    writer.thread(1, 2).instant("name", 5)  # still waits in memory
    with pytest.raises(OSError, match="no space left"):
        writer.flush()
    with pytest.raises(OSError, match="no space left"):
        writer.close()
    writer.close()


def test_flush_and_position() -> None:
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        assert writer.position == 0
        writer.thread(1, 2).instant("name", 5)
        assert writer.position > len(out.getvalue()) == 0
        writer.flush()
        assert writer.position == len(out.getvalue())
        assert read(out.getvalue()) == [*PREAMBLE, instant("name", 5)]
        writer.thread(1, 2).instant("name", 6)
    assert read(out.getvalue()) == [*PREAMBLE, instant("name", 5), instant("name", 6)]


# -------------------------------------------------------------------------------------------------------- all methods


def test_every_friendly_record() -> None:
    def write(writer: FxtWriter) -> None:
        main, track, other = writer.main, writer.thread(1, 2), writer.thread(3, 4)
        track.log("message", 5)
        main.userspace_object(1 << 63, 7, "object", {"a": None})
        main.kernel_object(17, 5, "job", {"a": Koid(6)})
        main.context_switch(8, 9, 10, 11, 3, {"outgoing_weight": 1})
        main.thread_wakeup(12, 13, 14, {"weight": 2})
        main.legacy_context_switch(15, 16, track, other, 4, 17, 18)
        main.module(19, 20, 21, "module", b"build id")
        main.mmap(22, 23, 24, 25, 26, 27)
        main.backtrace(28, 29, 30, iter([31, (1 << 64) - 1]))
        main.buffer_filled_up()
        track.large_blob("large", b"bytes", 32, category="cat", args={"a": "text"})

    assert read(written(write))[4:] == [
        rec.Log(5, Thread(1, 2), "message"),
        rec.UserspaceObject(1 << 63, Thread(7, None), "object", (NullArgument("a"),)),
        rec.KernelObject(17, 5, "job", (KoidArgument("a", 6),)),
        rec.ContextSwitch(9, 3, 8, 10, 11, (Int32Argument("outgoing_weight", 1),)),
        rec.ThreadWakeup(13, 12, 14, (Int32Argument("weight", 2),)),
        rec.LegacyContextSwitch(16, 4, 17, 18, 15, Thread(1, 2), Thread(3, 4)),
        rec.ProfilerModule(21, 19, Thread(20, 0), "module", b"build id"),
        rec.ProfilerMmap(24, 5, 22, Thread(23, 0), 25, 26, 27),
        rec.ProfilerBacktrace(0, 28, Thread(29, 30), (31, (1 << 64) - 1)),
        rec.ProviderEvent(1, 0),
        rec.LargeBlob("cat", "large", 32, Thread(1, 2), (StringArgument("a", "text"),), b"bytes"),
    ]


@pytest.mark.parametrize("blob_type", BlobType)
def test_the_memory_for_a_blob_of_any_size(blob_type: BlobType) -> None:
    data = bytes(8 * MIB)
    with fxtio.create(os.devnull, format="fxt") as writer, memory(MIB // 2):
        writer.main.blob("name", data, blob_type)
        assert writer.position > len(data)


@pytest.mark.parametrize("size", [0, 1, 8, 32_000, 32_001, 64_000, 1_000_003])
@pytest.mark.parametrize("blob_type", BlobType)
def test_blobs(size: int, blob_type: BlobType) -> None:
    data = bytes(number * 7 % 256 for number in range(1009)) * (size // 1009 + 1)
    data = data[:size]

    def write(writer: FxtWriter) -> None:
        writer.main.blob("name", data, blob_type)
        writer.thread(1, 2).instant("after", 1)

    *blobs, last = read(written(write))[4:]
    assert last == instant("after", 1)
    if blob_type == BlobType.DATA and size > 32_000:  # a large blob has no type
        assert blobs == [rec.LargeBlobNoMetadata("", "name", data)]
    else:
        assert {(blob.name, blob.blob_type) for blob in blobs} == {("name", blob_type)}
        assert b"".join([blob.payload for blob in blobs]) == data
        assert [len(blob.payload) for blob in blobs[:-1]] == [32_000] * (len(blobs) - 1)


def test_nothing_of_a_divided_blob_is_written_if_its_type_is_refused() -> None:
    def write(writer: FxtWriter) -> None:
        wrong: list[Any] = [256, -1, None, "3", 10**5000, np.array([1, 2])]
        for blob_type in wrong:
            with pytest.raises(EncodeError, match="blob_type"):
                writer.main.blob("name", bytes(100_000), blob_type)

    assert read(written(write)) == PREAMBLE


@pytest.mark.parametrize("data", [bytearray(b"12345678"), memoryview(b"12345678"), array.array("i", [1, 2])])
def test_every_buffer_of_bytes_can_be_a_blob(data: Any) -> None:
    def write(writer: FxtWriter) -> None:
        writer.main.blob("name", data)
        writer.thread(1, 2).large_blob("name", data, 1)

    assert [record.payload for record in read(written(write))[4:]] == [bytes(data)] * 2


@pytest.mark.parametrize("data", ["text", 5, None, [1, 2], memoryview(b"12345678")[::2]])
def test_invalid_blobs_are_refused(data: Any) -> None:
    def write(writer: FxtWriter) -> None:
        with pytest.raises(EncodeError, match="data"):
            writer.main.blob("name", data)
        with pytest.raises(EncodeError, match="data"):
            writer.thread(1, 2).large_blob("name", data, 1)

    assert read(written(write)) == PREAMBLE


BIG_ENDIAN = Opaque(encode(rec.Log(5, Thread(1, 2), "message"), "big"))
TWO_RECORDS = Opaque(encode(rec.Magic()) * 2)
NO_SIZE = Opaque(bytes(8))


@pytest.mark.parametrize(
    "record",
    [NullArgument("a"), Thread(1, 2), None, b"bytes", Opaque(b""), Opaque(b"1234"), BIG_ENDIAN, TWO_RECORDS, NO_SIZE],
)
def test_put_refuses_other_objects(record: Any) -> None:
    def write(writer: FxtWriter) -> None:
        with pytest.raises(EncodeError):
            writer.put(record)

    assert read(written(write)) == PREAMBLE
