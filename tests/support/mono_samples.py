"""Recordings for the tests: the corpus, files made here, files recorded by Mono."""

from __future__ import annotations

import gzip
import io
import shutil
import subprocess
from pathlib import Path
from typing import Any

import msgspec

from fxtio.mono.headers import StreamHeader
from fxtio.mono.reader import MonoTrace
from fxtio.mono.writer import MonoWriter, header_for
from support.checkout import CORPUS
from support.limits import PATIENCE

FILES = sorted(path for path in (CORPUS / "mono").iterdir() if path.name.endswith((".mlpd", ".mlpd.gz")))
RECORDED = [path for path in FILES if "v1" not in path.name]

PROGRAMS = CORPUS.parent / "judges" / "mono_programs"

HAS_MONO = all(map(shutil.which, ("mono", "mcs", "mprof-report")))


def content(path: Path) -> bytes:
    """Return a file's bytes, decompressed."""
    data = path.read_bytes()
    return gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data


def copied(trace: MonoTrace) -> bytes:
    """Return the bytes of a file that is written again, record by record."""
    out = io.BytesIO()
    with MonoWriter(out) as writer:
        for record in trace.records(resolve=False):
            writer.put(record)
    return out.getvalue()


def copied_whole(trace: MonoTrace) -> bytes:
    """Return the bytes that `MonoWriter.copy` writes."""
    out = io.BytesIO()
    with MonoWriter(out) as writer:
        writer.copy(trace)
    return out.getvalue()


def header(data_version: int = 17, pointer_size: int = 8) -> StreamHeader:
    """Return the header of files made here."""
    return msgspec.structs.replace(header_for(data_version, pointer_size), startup_time=0)


def written(data_version: int, events: list[Any], *, pointer_size: int = 8, thread: int = 1) -> bytes:
    """Return a recording of these events in one buffer or more."""
    out = io.BytesIO()
    with MonoWriter(out, header=header(data_version, pointer_size)) as writer:
        for event in events:
            writer.put(event, thread=thread)
    return out.getvalue()


def compiled(folder: Path) -> Path:
    """Compile the program of `mono_programs` and return its path."""
    program = folder / "work.exe"
    source = PROGRAMS / "work.cs"
    subprocess.run(["mcs", f"-out:{program}", str(source)], check=True, capture_output=True, timeout=PATIENCE)
    return program


def recorded(program: Path, options: str, out: Path, *arguments: str) -> Path:
    """Record a program with Mono and these options; return the path of the recording."""
    profile = f"--profile=log:{options},output={out}"
    subprocess.run(["mono", profile, str(program), *arguments], check=True, capture_output=True, timeout=PATIENCE)
    return out
