"""Declares version 1 of the layout of a lake: its Parquet files, which are named after the content of the traces.

    LAKE/_fxtio_lake.json                            {"version": 1}
    LAKE/traces/ID.parquet                           one row about a trace, written last
    LAKE/slices/day=DAY/program=PROGRAM/ID.parquet   its slices; likewise instants, counters, args, logs and samples
    LAKE/kept/ID/NAME                                the trace itself, if it is kept

A trace is part of the lake when its file in `traces` is there, which is written last.  Files are never changed: what
has the same content has the same name, so any number of writers can add traces, be killed, and run again.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from fxtio.schema import TEXT, ColumnSpec
from fxtio.shared_folders import open_regular
from fxtio.timeline.schema import TABLES as TIMELINE

if TYPE_CHECKING:
    from pyarrow import Schema

VERSION = 1
"""The version of the layout: a reader of it takes files with further columns as well."""

MARKER = "_fxtio_lake.json"
"""The file that makes a folder a lake."""

SUFFIX = ".parquet"
TRACES = "traces"
"""The table with a row for each trace."""

KEPT = "kept"
"""The folder of traces themselves, of those that were added so."""

MAX_PROGRAM = 200
"""The most bytes of a program in names of files, where it is percent-encoded; more are cut off."""

NO_DAY = "1970-01-01"
"""The day of traces whose wall clock is not known."""

_PLACE = {
    "trace": ColumnSpec(TEXT, "the id of the trace"),
    "process": ColumnSpec(TEXT, "the name of the process, null if it has none"),
    "pid": ColumnSpec("int64", "its number; -1 without a process"),
    "thread": ColumnSpec(TEXT, "the name of the thread, null if it has none"),
    "tid": ColumnSpec("int64", "its number; -1 without a thread"),
}
_TRACK = {"track": ColumnSpec(TEXT, "the name of the track, null if it is that of the thread or process")}


def _of(table: str, *left_out: str) -> dict[str, ColumnSpec]:
    """Return the columns of a table of the timeline, except some."""
    return {name: spec for name, spec in TIMELINE[table].items() if name not in left_out}


TABLES: dict[str, dict[str, ColumnSpec]] = {
    "slices": _PLACE | _TRACK | _of("slices", "track", "ticks"),
    "instants": _PLACE | _TRACK | _of("instants", "track", "ticks"),
    "counters": _PLACE | _TRACK | _of("counters", "track"),
    "args": {
        "trace": _PLACE["trace"],
        **_of("args", "bits", "text"),
        "integer": ColumnSpec("int64", "the value of a whole number, 0 for all others"),
        "number": ColumnSpec("float64", "the value of a number, NaN for all others"),
        "text": TIMELINE["args"]["text"],
    },
    "logs": _PLACE | _of("logs", "thread"),
    "samples": _PLACE
    | _of("samples", "thread", "stack")
    | {
        "function": ColumnSpec(TEXT, "the innermost function, null if the stack is empty"),
        "stack": ColumnSpec(TEXT, "the functions of the stack, the outermost first, with semicolons between"),
    },
}
"""The tables of events, and their columns; `day` and `program` are in the names of the files.

Rows of one trace refer to each other by the numbers that they have in its timeline, see `fxtio.timeline.schema`.
"""

_FOLDERS = frozenset({TRACES, *TABLES})
_DIGITS = frozenset("0123456789abcdef")

TRACE_COLUMNS: dict[str, tuple[str, str]] = {
    "id": ("string", "BLAKE2b-128 of the content, in hexadecimal digits"),
    "url": ("string", "the path where it was read, absolute; of one that is kept, its path or URL in the lake"),
    "program": ("string", "the name of its first process, or else its format"),
    "host": ("string", "the label `host` or `host.name`, null if there is none"),
    "labels": ("labels", "all labels: a text for each name"),
    "format": ("string", "the format of the trace"),
    "bytes": ("int64", "its size as it is stored"),
    "start": ("int64", "its time 0 in nanoseconds since the Unix epoch, null where that is not known"),
    "duration": ("int64", "from its first event to its last one, in nanoseconds"),
    **{table: ("int64", f"the number of its rows in `{table}`") for table in TABLES},
    "findings": ("int64", "the number of faults that reading it found"),
    "losses": ("numbers", "what its timeline cannot show, and how often"),
    "files": ("numbers", "the sizes of its files of other tables, by table, in bytes"),
    "schema": ("int64", "the version of the layout"),
    "names": ("texts", "the names of its slices, null if they are many or not known"),
}
"""The columns of `traces`: types of Arrow, a list of `texts`, or a map from texts to texts (`labels`) or `numbers`."""

LATER = ("names",)
"""The columns of `traces` that rows of earlier versions of fxtio lack, where they are null."""


def is_lake(url: str | os.PathLike[str]) -> bool:
    """Return whether there is a lake in a folder; a URL is taken for that of a lake."""
    return "://" in os.fspath(url) or (Path(url) / MARKER).is_file()


def schema_of(table: str) -> Schema:
    """Return the columns of a table as Arrow has them; the last ones of events are in the names of the files."""
    import pyarrow as pa

    if table == TRACES:
        text = pa.string()
        nested = {"texts": pa.list_(text), "labels": pa.map_(text, text), "numbers": pa.map_(text, pa.int64())}
        return pa.schema([(name, nested.get(kind) or getattr(pa, kind)()) for name, (kind, _) in TRACE_COLUMNS.items()])
    types = {name: "string" if spec.dtype == TEXT else spec.dtype for name, spec in TABLES[table].items()}
    types |= {"day": "date32", "program": "string"}
    return pa.schema([(name, getattr(pa, kind)()) for name, kind in types.items()])


def moment_of(start: int) -> datetime:
    """Return the moment of a time in nanoseconds since the Unix epoch, to the second (UTC)."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=start // 1_000_000_000)


def day_of(start: int | None) -> str:
    """Return the day of a time in nanoseconds since the Unix epoch (UTC), `NO_DAY` where it is not known."""
    return NO_DAY if start is None else moment_of(start).date().isoformat()


def name_of(table: str, identity: str, *, day: str = "", program: str = "") -> str:
    """Return the name of a file of a trace, relative to the lake."""
    if table == TRACES:
        return f"{TRACES}/{identity}{SUFFIX}"
    return f"{table}/day={day}/program={_quoted(program)}/{identity}{SUFFIX}"


def file_of(table: str, row: Mapping[str, Any]) -> str:
    """Return the name of a file of events of a trace, relative to the lake, by its row in `traces`."""
    return name_of(table, row["id"], day=day_of(row["start"]), program=row["program"])


def kept_name(identity: str, path: Path) -> str:
    """Return the name under which a trace itself is kept, relative to the lake; if it is a directory, that of this."""
    return f"{KEPT}/{identity}/{_quoted(os.fsencode(path.resolve().name).decode('utf-8', 'replace'))}"


def _quoted(program: str) -> str:
    """Return a text as names of files have it."""
    characters, left = [], MAX_PROGRAM
    for character in program:
        characters.append(quote(character, safe=""))
        left -= len(characters[-1])
        if left < 0:
            return "".join(characters[:-1])
    return "".join(characters)


def identity_of(path: Path) -> tuple[str, int]:
    """Return the id of a trace by the content of its file, or of the files of its directory, and its size in bytes.

    Raises:
        OSError: it cannot be read.
    """
    digest, size = hashlib.blake2b(digest_size=16), 0
    for name, file in files_of(path):
        if name:
            digest.update(b"%d:%b%d:" % (len(name), name, file.stat().st_size))
        with open(open_regular(file), "rb") as stream:
            while data := stream.read(1 << 20):
                digest.update(data)
                size += len(data)
    return digest.hexdigest(), size


def files_of(path: Path) -> Iterator[tuple[bytes, Path]]:
    """Yield the file itself without a name, or those of a directory with theirs, in the order of the names."""
    if not path.is_dir():
        yield b"", path
        return
    names = sorted(os.fsencode(each.relative_to(path)) for each in path.rglob("*") if each.is_file())
    yield from ((name, path / os.fsdecode(name)) for name in names)


def is_identity(text: str) -> bool:
    """Return whether a text has the form of an id."""
    return len(text) == 32 and _DIGITS.issuperset(text)


def identity_in(name: str) -> str | None:
    """Return the id of the trace that a file of a lake is of, by its name; None if it is of none."""
    parts = name.split("/")
    if parts[0] == KEPT:
        identity = parts[1] if len(parts) > 2 else ""
    else:
        identity = parts[-1].removesuffix(SUFFIX) if parts[0] in _FOLDERS and parts[-1].endswith(SUFFIX) else ""
    return identity if is_identity(identity) else None


def host_of(labels: Mapping[str, str]) -> str | None:
    """Return the host that labels name."""
    return labels.get("host") or labels.get("host.name")
