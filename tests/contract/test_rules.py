"""A broken trace for each rule breaks that rule and no other, and sound traces break none.

The room `breaks` of a format writes the broken traces, as `fxtio synth --break` does, and the room `rules` checks a
trace, as `fxtio validate` does.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

import fxtio
from contract.samples import SAMPLES, Sample
from fxtio.formats import formats
from fxtio.rules import LEVELS, Rule, rules_of

ROOMS = ("rules", "breaks")

WITHOUT = {"fxt", "mono"}
"""Formats whose rules are not yet complete."""

LISTED: dict[str, set[str]] = {
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
    # It has times and chunks of all kinds.
    "dcpi-everything": {
        "dcpi.header.epoch-form", "dcpi.chunk.mergeable", "dcpi.chunk.padded", "dcpi.chunk.zeros"
    },
    "dcpi-given-specification.dcpi": {"dcpi.header.no-text-start", "dcpi.header.no-version"},
    "dcpi-later-times.dcpi": {"dcpi.header.epoch-form"},
    "dcpi-overlapping.dcpi": {"dcpi.chunk.overlap"},
    "dcpi-torn.dcpi": {"dcpi.chunk.over-end"},
    "dcpi-version-1.dcpi": {"dcpi.body.opaque"},
    # Their symbol files were cut down to the functions that are called.
    **{
        f"uftrace-{name}-v013": {"uftrace.symbol.count"}
        for name in ("args-all", "auto-args-cpp", "dlopen", "estimate", "exec", "fork", "watch-cpu")
    },
    **{
        f"uftrace-{name}-v013": {"uftrace.argspec.trigger-format", "uftrace.symbol.count"}
        for name in ("broken-trigger-retval", "read-args")
    },
    "uftrace-signal-longjmp-v013": {
        "uftrace.record.entry-without-exit", "uftrace.record.exit-without-entry", "uftrace.symbol.count",
    },
    "uftrace-old-v05-fork": {"uftrace.record.depth-jump", "uftrace.symbol.no-file", "uftrace.task.binary"},
    **{
        f"uftrace-synth-{name}": {"uftrace.info.no-date"} for name in ("args", "big-endian", "extern", "multi", "perf")
    },
    "uftrace-synth-class32": {"uftrace.info.no-date", "uftrace.record.first-depth"},
    "uftrace-synth-deep-wrap": {"uftrace.info.no-date", "uftrace.record.wrapped-depth"},
    "uftrace-synth-events": {"uftrace.event.unknown-id", "uftrace.info.no-date"},
    "uftrace-synth-lost": {"uftrace.info.no-date", "uftrace.record.lost"},
    # These have lost records, calls without an end, and events with any data.
    "uftrace-mixed": {"uftrace.record.lost"},
    **{
        f"uftrace-{name}": {
            "uftrace.event.data", "uftrace.event.unknown-id", "uftrace.record.entry-without-exit",
            "uftrace.record.lost",
        }
        for name in ("everything", "everything-32", "everything-big")
    },
}  # fmt: skip
"""The rules that synthetic traces and traces of the corpus break, by sample."""

RULES = [rule for name in formats() if name not in WITHOUT for rule in rules_of(name).values()]

CHECKED = [sample for sample in SAMPLES if sample.format.name not in WITHOUT]


OPTIONS: dict[str, dict[str, Any]] = {"uftrace.source.cut": {"max_bytes": 32}}
"""How a trace is read that breaks a rule only if it is read so."""


def without_demangler() -> Any:
    return patch("fxtio.uftrace.demangle._library", lambda: None)


CIRCUMSTANCES: dict[str, Callable[[], Any]] = {"uftrace.argspec.no-demangler": without_demangler}
"""What a trace needs to break a rule that is about the machine on which it is read."""


def broken_by(name: str, path: Path, **options: Any) -> set[str]:
    """Return the rules that a trace breaks."""
    item = formats()[name]
    with fxtio.open(path, format=name, **options) as trace:
        item.rules.check(trace)
        return {*trace.findings.counts}


def test_formats_without_rules() -> None:
    rooms = {name: [find_spec(f"{item.package}.{room}") for room in ROOMS] for name, item in formats().items()}
    assert {name for name, specs in rooms.items() if None in specs} <= WITHOUT


@pytest.mark.parametrize("name", [name for name in formats() if name not in WITHOUT])
def test_every_rule_has_a_broken_trace(name: str) -> None:
    assert {*formats()[name].breaks.BREAKS} == {*rules_of(name)}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_broken_trace_breaks_its_rule_only(rule: Rule, tmp_path: Path) -> None:
    path = tmp_path / f"broken{formats()[rule.format].suffixes[0]}"
    formats()[rule.format].breaks.BREAKS[rule.id](path)
    with CIRCUMSTANCES.get(rule.id, nullcontext)():
        assert broken_by(rule.format, path, **OPTIONS.get(rule.id, {})) == {rule.id, *rule.implied}


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
