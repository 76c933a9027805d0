"""A broken trace for each rule breaks that rule and no other, and sound traces break none.

The room `breaks` of a format writes the broken traces, as `fxtio synth --break` does, and the room `rules` checks a
trace, as `fxtio validate` does.
"""

from __future__ import annotations

import io
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import fxtio
from contract.samples import SAMPLES, Sample
from fxtio.formats import formats
from fxtio.fxt import FxtTrace
from fxtio.fxt.merge import merge
from fxtio.io.sink import open_sink
from fxtio.rules import LEVELS, Rule, rules_of

WITHOUT = {"uftrace"}
"""Formats that have no broken traces yet."""

_EVERYTHING = {
    "fxt.arg.koid-unnamed", "fxt.arg.name-again", "fxt.arg.unsigned-large", "fxt.blob.perfetto-garbage",
    "fxt.flow.on-instant", "fxt.large.interop", "fxt.large.small", "fxt.log.not-shown", "fxt.profiler.flags",
    "fxt.profiler.inline-thread", "fxt.provider.lost", "fxt.provider.name-empty", "fxt.sched.cpu",
    "fxt.sched.no-object", "fxt.sched.order", "fxt.thread.nameless",
}  # fmt: skip

LISTED: dict[str, set[str]] = {
    # These have forms that occur in practice, and values at the limits of their fields.
    "fxt-everything": _EVERYTHING,
    "fxt-everything big-endian": _EVERYTHING,
    "fxt-everything with base ticks only": _EVERYTHING,
    "fxt-program": {"fxt.log.not-shown"},
    "fxt-system": {"fxt.log.not-shown"},
    "fxt-ffx-perfetto-blobs.fxt": {"fxt.blob.perfetto-garbage"},
    "fxt-ffx-symbolize-profiler.fxt": {
        "fxt.clock.none", "fxt.profiler.build-id", "fxt.profiler.inline-thread", "fxt.provider.none",
        "fxt.thread.nameless",
    },
    "fxt-ftr-counter-malformed.fxt": {
        "fxt.arg.counter-id-first", "fxt.clock.inexact", "fxt.provider.none", "fxt.thread.nameless"
    },
    "fxt-ftr-demo.fxt": {"fxt.clock.inexact", "fxt.flow.open", "fxt.provider.none", "fxt.thread.nameless"},
    "fxt-magic-trace.fxt": {"fxt.event.backwards", "fxt.string.empty"},
    "fxt-nixpkgs-tracy.fxt": {"fxt.provider.none", "fxt.thread.nameless"},
    "fxt-ocaml-trace-first.fxt": {"fxt.clock.none", "fxt.provider.none", "fxt.thread.nameless"},
    "fxt-ocaml-trace-second.fxt": {"fxt.provider.name-words", "fxt.provider.none", "fxt.thread.nameless"},
    # These have all records of all dialects.
    "coreprofiler-dialects": {"coreprofiler.line.dialects"},
    "coreprofiler-everything": {"coreprofiler.line.dialects"},
    "coreprofiler-oldest.log": {"coreprofiler.load.module-missing", "coreprofiler.profiling.no-start"},
    "coreprofiler-rewritten.log": {"coreprofiler.source.windows-lines", "coreprofiler.thread.usage-negative"},
    "coreprofiler-torn.log": {"coreprofiler.line.field-form", "coreprofiler.line.no-end"},
    "coreprofiler-unknown-lines.log": {"coreprofiler.line.unknown", "coreprofiler.line.open-quote"},
    "dcpi-crlf.dcpi": {
        "dcpi.header.bytes", "dcpi.header.size", "dcpi.header.value", "dcpi.header.version-form"
    },
    "dcpi-given-specification.dcpi": {"dcpi.header.no-text-start"},
    "dcpi-overlapping.dcpi": {"dcpi.chunk.overlap"},
    "dcpi-torn.dcpi": {"dcpi.chunk.over-end"},
    "dcpi-version-1.dcpi": {"dcpi.body.opaque"},
}  # fmt: skip
"""The rules that synthetic traces and traces of the corpus break, by sample."""

RULES = [rule for name in formats() if name not in WITHOUT for rule in rules_of(name).values()]

CHECKED = [sample for sample in SAMPLES if sample.format.name not in WITHOUT]


def broken_by(name: str, path: Path) -> set[str]:
    """Return the rules that a trace breaks."""
    item = formats()[name]
    with fxtio.open(path, format=name) as trace:
        item.room("rules").check(trace)
        return {*trace.findings.counts}


def broken_when_merged(path: Path) -> set[str]:
    """Return the rules that a Fuchsia trace breaks when it is merged with itself."""
    with FxtTrace(path) as one, FxtTrace(path) as same:
        merge([one, same], open_sink(io.BytesIO()))
        return {*one.findings.counts}


def breaks(name: str) -> dict[str, Any]:
    """Return the functions that write the broken traces of a format, by rule."""
    functions: dict[str, Any] = formats()[name].room("breaks").BREAKS
    return functions


def test_formats_with_broken_traces() -> None:
    assert {name for name, item in formats().items() if find_spec(f"{item.package}.breaks") is None} == WITHOUT


@pytest.mark.parametrize("name", [name for name in formats() if name not in WITHOUT])
def test_every_rule_has_a_broken_trace(name: str) -> None:
    assert [*breaks(name)] == [*rules_of(name)]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_broken_trace_breaks_its_rule_only(rule: Rule, tmp_path: Path) -> None:
    path = tmp_path / f"broken{formats()[rule.format].suffixes[0]}"
    breaks(rule.format)[rule.id](path)
    broken = broken_when_merged(path) if rule.group == "merge" else broken_by(rule.format, path)
    assert broken == {rule.id, *rule.implied}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_rule_is_described(rule: Rule) -> None:
    assert rule.level.partition(":")[0] in LEVELS
    assert rule.found
    assert rule.why.endswith(".")
    assert rule.mend.endswith(".")
    assert rule.section or rule.level != "required"


@pytest.mark.parametrize("sample", CHECKED, ids=str)
def test_a_sound_trace_breaks_no_rule(sample: Sample, tmp_path: Path) -> None:
    assert broken_by(sample.format.name, sample.make(tmp_path)) == LISTED.get(str(sample), set())


def test_listed_samples_exist() -> None:
    assert {*LISTED} <= {str(sample) for sample in CHECKED}
