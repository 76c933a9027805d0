"""Several traces as an archive that Perfetto shows on one clock, each as a machine with a name of its own.

The archive is a tar file of Perfetto traces, and of a manifest that says what to add to the times of each.

https://perfetto.dev/docs/reference/perfetto-manifest
"""

from __future__ import annotations

import io
import json
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, cast

from fxtio.exchange.convert import Losses, convert
from fxtio.io.sink import whole_file
from fxtio.io.source import without_compression
from fxtio.report import distinct_names, printable
from fxtio.timeline.together import Placed

MANIFEST = "perfetto_manifest.json"
_CLOCK = "BOOTTIME"  # that of the traces as they are exported


def is_archive(name: str) -> bool:
    """Return whether a file has the name of an archive, which may be compressed."""
    return without_compression(name).endswith(".tar")


def write_archive(traces: Sequence[Placed], target: str | Path) -> Losses:
    """Write an archive of traces that have their places.

    Args:
        traces: the traces, at least one.
        target: a path (`.gz`, `.zst` and `.xz` compress), or `-` for standard output.

    Returns:
        What was lost, of all traces.

    Raises:
        UntimedError: a trace has no times.
        DecodeError: a trace was opened with `strict`, and has a fault.
        OSError: the archive cannot be written.
    """
    losses = Losses()
    names = distinct_names(printable(Path(each.timeline.name).name) or "trace" for each in traces)
    with (
        tempfile.TemporaryDirectory(prefix="fxtio-") as folder,
        whole_file(target) as sink,
        tarfile.open(fileobj=cast("IO[bytes]", sink), mode="w|") as archive,
    ):
        manifest = json.dumps(_manifest(traces, names)).encode()
        _add(archive, MANIFEST, io.BytesIO(manifest), len(manifest))
        for name, each in zip(names, traces, strict=True):
            part = Path(folder, "part")
            losses += convert(each.timeline, part, to="perfetto")
            with part.open("rb") as file:
                _add(archive, _member(name), file, part.stat().st_size)
    return losses


def _member(name: str) -> str:
    """Return the name of the file of a trace."""
    return f"{name}.pftrace"


def _manifest(traces: Sequence[Placed], names: Sequence[str]) -> dict[str, Any]:
    """Return what says how traces lie beside each other: beside the one whose times stay as they are.

    Perfetto drops what is before that one's time 0, so it is the one to whose times least is added: nothing.
    """
    first = min(range(len(traces)), key=lambda number: traces[number].shift)
    files: list[dict[str, Any]] = [{"path": _member(name), "machine": {"name": name}} for name in names]
    for number, (file, each) in enumerate(zip(files, traces, strict=True)):
        if number != first:
            beside = {"file": files[first]["path"], "clock": _CLOCK}
            file["clocks"] = {"clock": _CLOCK, "sync_to": beside, "offset_ns": each.shift}
    trace_time = {"clock": _CLOCK, "file": files[first]["path"]}
    return {"perfetto_manifest": {"version": 1, "trace_time": trace_time, "files": files}}


def _add(archive: tarfile.TarFile, name: str, file: IO[bytes], size: int) -> None:
    """Add a file with a size (bytes) to an archive."""
    member = tarfile.TarInfo(name)
    member.size = size
    archive.addfile(member, file)
