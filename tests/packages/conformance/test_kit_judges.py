"""The conformance kit, judged by programs of other projects: they read its valid cases as the descriptions say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import judges
from judges import mono, perfetto, pypi_fxt
from support.checkout import CHECKOUT

pytestmark = [pytest.mark.full, pytest.mark.once]

CASES = CHECKOUT / "conformance" / "cases"
EVENT_SLICES = {"instant", "duration-begin", "duration-complete", "async-begin", "async-instant"}
"""Records of which Perfetto makes a slice each."""

UNLISTED = ("-name", "root-register", "root-unregister")
"""Ends of the types of events that mprof-report does not count."""


def valid_cases(format_name: str) -> list[Path]:
    paths = sorted(CASES.glob(f"{format_name}/*/*.json"))
    return [path for path in paths if json.loads(path.read_text("utf-8"))["verdict"] == "valid"]


def expected(path: Path) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))["expect"]["records"]
    return records


def slices_of(path: Path) -> int:
    """Return how many slices Perfetto shall make; it loses what comes after a record of 4,096 words or more."""
    if "fxt.large.interop" in json.loads(path.read_text("utf-8")).get("remarks", []):
        return 0
    return sum(record["type"] in EVENT_SLICES for record in expected(path))


def test_perfetto_reads_valid_traces() -> None:
    judges.require(perfetto.available())
    refused = {}
    for path in valid_cases("fxt"):
        try:
            with perfetto.load(path.with_name(f"{path.stem}.fxt").read_bytes()) as p:
                assert p.errors() == {}, path.stem
                assert len(p.slices()) == slices_of(path), path.stem
        except perfetto.PerfettoImportError as error:
            refused[path.stem] = str(error)
    assert {name: "Unknown trace type" in text for name, text in refused.items()} == {
        "big-endian": True,
        "big-endian-rebound": True,
    }


def test_the_package_fxt_reads_valid_traces() -> None:
    judges.require(pypi_fxt.available())
    refused = {}
    for path in valid_cases("fxt"):
        try:
            pypi_fxt.read(path.with_name(f"{path.stem}.fxt").read_bytes())
        except pypi_fxt.PypiFxtError as error:
            refused[path.stem] = str(error)
    blobs, later = "invalid argument type 10", "invalid argument type 11"  # it knows neither blobs nor later types
    assert refused == {
        "argument-blob": blobs,
        "argument-blob-max": blobs,
        "arguments-15": blobs,
        "every-record": blobs,
        "argument-unknown": later,
    }


@pytest.mark.skipif(
    mono.PROGRAM is None and not mono.REQUIRED, reason="needs mprof-report, of the Debian package mono-utils"
)
def test_mprof_report_reads_valid_recordings() -> None:
    for path in valid_cases("mono"):
        header, *records = expected(path)
        events = [record["type"] for record in records if record["type"] != "buffer"]
        if "image-unload" in events and int(header["format"]) >= 16:
            continue  # it reads a text too many, and loses its way
        text = mono.report(path.with_name(f"{path.stem}.mlpd"), "--reports=header,stats")
        counted = sum(count for count, *_ in mono.stats_of(text).values())
        assert counted == sum(not kind.endswith(UNLISTED) for kind in events), path.stem
