"""The fuzz target of validation: traces of all formats are checked against all rules, and reported in every form.

The first byte of an input chooses the format; the rest is an input of the target of that format.  Checks of each input:
validation raises no exception; a file that is read a few bytes at a time has the same findings; every rule is declared;
every report can be parsed, and its text is safe to print.
"""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from fuzz import engine, uftrace
from fuzz.engine import Change, Target, require
from fxtio.errors import FormatError
from fxtio.formats import by_name
from fxtio.rules import rules_of
from fxtio.validate import Validation, reports, validate
from fxtio.validate.listing import text_of
from support.fxt_readings import Trickle

FORMATS = ("coreprofiler", "dcpi", "fxt", "mono", "uftrace")


def check(data: bytes) -> bool:
    """Validate one input, see `Target.check`."""
    name, rest = split(data)
    if not by_name(name).directory:
        validation = validate(rest, format=name)
        trickled = validate(Trickle(rest, 61), format=name)
        require(trickled.counts == validation.counts, "pieces give the same findings")
        return reported(validation, rest)
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "trace"
        target.mkdir()
        for file, content in uftrace.unpacked(rest).items():
            (target / file).write_bytes(content)
        try:
            validation = validate(target, format=name)
        except FormatError:
            return True
        return reported(validation, target)


def split(data: bytes) -> tuple[str, bytes]:
    """Return the format of an input, and the input of its target."""
    return FORMATS[(data[0] if data else 0) % len(FORMATS)], data[1:]


def reported(validation: Validation, target: Any) -> bool:
    """Check that a result can be reported in every form; return whether there were findings."""
    require({*validation.counts} <= {*rules_of(validation.format)}, "every rule is declared")
    require({finding.rule for finding in validation.findings} == {*validation.counts}, "a finding of each rule is kept")
    require(all(line.isprintable() for line in text_of(validation, target)), "the text is safe to print")
    require(len(json.loads(reports.json_of([validation]))["traces"]) == 1, "JSON")
    (run,) = json.loads(reports.sarif_of([validation]))["runs"]
    require(len(run["results"]) == len(validation.findings), "SARIF has a result for each finding")
    failures = ET.fromstring(reports.junit_of([validation])).findall(".//failure")
    require(len(failures) == len(validation.counts), "JUnit has a failure for each rule")
    return not validation.is_valid()


def seeds() -> Iterator[bytes]:
    """Yield the seeds of all formats."""
    for index, name in enumerate(FORMATS):
        for seed in engine.target_of(name).seeds():
            yield bytes([index]) + seed


def mutate(data: bytes, most: int, draw: random.Random, change: Change) -> bytes:
    """Mutate an input as the target of its format does."""
    name, rest = split(data)
    target = engine.target_of(name)
    changed = change(rest, most - 1) if target.mutate is None else target.mutate(rest, most - 1, draw, change)
    return data[:1] + changed


def drawn() -> Any:
    """Return a strategy for the inputs of all formats."""
    from hypothesis import strategies as st

    inputs = [engine.target_of(name).drawn() for name in FORMATS]
    return st.one_of([st.builds(bytes([index]).__add__, drawn_input) for index, drawn_input in enumerate(inputs)])


TARGET = Target(check, seeds, drawn, mutate)
