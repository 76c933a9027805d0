"""A lake of traces: thousands of them as plain Parquet files, which any engine reads, and questions to all of them.

::

    lake = Lake("runs.lake", create=True)
    for outcome in lake.add(["a.fxt", "b.json"], labels={"build": "1a2b"}):
        print(outcome.path, outcome.kind, outcome.reason)
    print(lake.top("label:build"))

`layout` says what is where, `store` where files are, `rows` and `ingest` make them, `catalog` knows those that are
whole, `questions` asks.  `scans` reads traces on the workers of an engine, without a lake; `export` makes tables of
other systems over the files of a lake.
"""

from __future__ import annotations

from fxtio.lake.export import Exported
from fxtio.lake.ingest import ADDED, KNOWN, REFUSED, LakeError, Outcome
from fxtio.lake.lake import Lake, LakeWarning
from fxtio.lake.layout import schema_of
from fxtio.lake.scans import ScanError, scan
from fxtio.lake.store import StoreError

__all__ = [
    "ADDED",
    "KNOWN",
    "REFUSED",
    "Exported",
    "Lake",
    "LakeError",
    "LakeWarning",
    "Outcome",
    "ScanError",
    "StoreError",
    "scan",
    "schema_of",
]
