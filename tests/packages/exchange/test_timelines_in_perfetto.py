"""Traces of the formats that Perfetto does not read, converted for it: it shows the same slices."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import judges
from fxtio import open_timeline, synth
from fxtio.formats import by_name
from judges import perfetto
from support.checkout import CORPUS
from support.conversion import export

pytestmark = [pytest.mark.full, pytest.mark.once]

UFTRACE = (
    "args-all-v013",
    "exec-v013",
    "fork-v013",
    "signal-longjmp-v013",
    "synth-events",
    "synth-lost",
    "thread-v019",
)
SHAPES = (("uftrace", "program"), ("uftrace", "everything"), ("mono", "calls"))
"""Those without samples, which the exporter shows as slices, too."""


@pytest.fixture(autouse=True, scope="module")
def _judge() -> None:
    judges.require(perfetto.available())


def check(path: Path, folder: Path) -> None:
    """Check that Perfetto has the slices, with their depths."""
    with open_timeline(path) as timeline:
        export(timeline, "perfetto", folder / "out.pftrace")
        tables = timeline.tables("slices")
    expected = Counter[Any]()
    for row in tables["slices"].rows():
        if row["duration"]:  # others cannot be told from instants
            expected[row["start"], row["depth"], row["name"], row["duration"]] += 1
    with perfetto.load(folder / "out.pftrace") as p:
        actual = Counter[Any]((each.ts, each.depth, each.name, each.dur) for each in p.slices() if each.dur > 0)
    assert actual == expected
    assert expected.total() > 0


@pytest.mark.parametrize("name", UFTRACE)
def test_uftrace(name: str, tmp_path: Path) -> None:
    check(CORPUS / "uftrace" / name, tmp_path)


@pytest.mark.parametrize(("format", "shape"), SHAPES)
def test_shapes(format: str, shape: str, tmp_path: Path) -> None:
    path = tmp_path / f"t{by_name(format).suffixes[0]}"
    synth.write(path, shape, format=format, events=4000, seed=3)
    check(path, tmp_path)
