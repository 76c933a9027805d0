"""The timeline of DCPI profiles: samples by address, weighted with the period."""

from __future__ import annotations

from pathlib import Path

import pytest

import fxtio
from fxtio.codec.integers import MAX_INT64
from fxtio.dcpi.reader import DcpiTrace
from support.checkout import CORPUS

FILES = sorted((CORPUS / "dcpi").glob("*.dcpi"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_samples_are_those_of_the_table(path: Path) -> None:
    with DcpiTrace(path) as trace:
        header, rows = trace.header, list(trace.table("samples").rows())
    with fxtio.open_timeline(path) as timeline:
        tables = timeline.tables("samples", "stacks", "frames", "slices")
    weight = header.period if header.get("event") and header.period else 1
    frames, stacks = tables["frames"], tables["stacks"]
    actual = [
        (int(frames["address"][stacks["frame"][row["stack"]]]), row["count"], row["unit"])
        for row in tables["samples"].rows()
    ]
    unit = "cycles" if weight > 1 else "samples"
    assert actual == [
        (row["text_offset"] if row["address"] is None else row["address"], row["count"] * weight, unit) for row in rows
    ]
    assert set(frames["module"]) <= {header.get("path") or header.get("image")}
    assert set(stacks["parent"].tolist()) <= {-1}
    assert set(tables["samples"]["time"].tolist()) <= {0}
    assert tables["slices"].num_rows == 0


def profile(*lines: str) -> bytes:
    header = "\n".join(["version pdb-0.07", "image x", *lines, "samples"]).encode() + b"\n"
    padding = b" " * (-len(header) % 4)
    body = (0).to_bytes(4, "little") + (1).to_bytes(4, "little") + (2**32 - 1).to_bytes(4, "little")
    return header[:-1] + padding + b"\n" + body


@pytest.mark.parametrize(
    ("lines", "unit", "count"),
    [
        (("event cycles", "period 62000"), "cycles", (2**32 - 1) * 62000),
        (("event cycles",), "samples", 2**32 - 1),
        (("period 62000",), "samples", 2**32 - 1),
        (("event cycles", f"period {2**63 - 1}"), "cycles", MAX_INT64),
    ],
)
def test_a_sample_weighs_its_period(lines: tuple[str, ...], unit: str, count: int) -> None:
    with fxtio.open_timeline(profile(*lines), format="dcpi") as timeline:
        [row] = timeline.table("samples").rows()
    assert (row["unit"], row["count"]) == (unit, count)
