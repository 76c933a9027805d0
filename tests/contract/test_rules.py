"""A broken trace for each rule breaks that rule and no other, and sound traces break none.

The broken traces are those of the conformance kit, which `fxtio synth --break` copies, and for what the kit lacks
those of `support.broken`; the room `rules` checks a trace, as `fxtio validate` does.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

import fxtio
from contract.samples import SAMPLES, Sample
from fxtio.formats import formats
from fxtio.fxt import FxtTrace
from fxtio.fxt.merge import merge_to
from fxtio.io.sink import open_sink
from fxtio.rules import LEVELS, Rule, rules_of
from support.broken import broken_rules, write_broken

_EVERYTHING = {
    "fxt.arg.name-again", "fxt.arg.unsigned-large", "fxt.blob.perfetto-garbage", "fxt.large.interop", "fxt.large.small",
    "fxt.log.not-shown", "fxt.profiler.flags", "fxt.profiler.inline-thread", "fxt.provider.lost",
    "fxt.provider.name-empty", "fxt.sched.cpu", "fxt.sched.order",
}  # fmt: skip

_OLD_MONO = {"mono.counter.performance", "mono.monitor.no-contention"}
_MONO = {"mono.image.unload", "mono.counter.performance"}

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
    # Mono itself synchronizes late, and these have events that are rare on purpose.
    "mono-everything": {*_MONO, "mono.text.empty-name", "mono.counter.text"},
    "mono-alloc-zip.mlpd": {"mono.sync.earlier-event", "mono.vtable.late"},
    "mono-i386-heap.mlpd.gz": {"mono.sync.earlier-event"},
    "mono-minimal-v17.mlpd": {"mono.thread.undefined"},
    **{f"mono-synth-v{version}{part}.mlpd": _OLD_MONO for version in (13, 14) for part in ("", "-nocov")},
    **{f"mono-synth-v{version}.mlpd": _OLD_MONO | _MONO for version in (16, 17)},
    # It has all records of all dialects.
    "coreprofiler-everything": {"coreprofiler.line.dialects", "coreprofiler.thread.os-number"},
    "coreprofiler-oldest.log": {"coreprofiler.load.module-missing", "coreprofiler.profiling.no-start"},
    "coreprofiler-rewritten.log": {
        "coreprofiler.source.windows-lines", "coreprofiler.thread.usage-negative", "coreprofiler.thread.os-number"
    },
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
    # It has lost records, calls without an end, and events with any data.
    "uftrace-everything": {
        "uftrace.event.data", "uftrace.event.unknown-id", "uftrace.record.entry-without-exit", "uftrace.record.lost",
    },
}  # fmt: skip
"""The rules that synthetic traces and traces of the corpus break, by sample."""

RULES = [rule for name in formats() for rule in rules_of(name).values()]

OPTIONS: dict[str, dict[str, Any]] = {"uftrace.source.cut": {"max_bytes": 32}}
"""How a trace is read that breaks a rule only if it is read so."""


TABLES = {"mono.stack.text": "sample_stacks"}
"""The table that has to be made before a rule is found broken, which is about a limit of that table."""


def without_demangler() -> Any:
    return patch("fxtio.uftrace.demangle._library", lambda: None)


CIRCUMSTANCES: dict[str, Callable[[], Any]] = {"uftrace.argspec.no-demangler": without_demangler}
"""What a trace needs to break a rule that is about the machine on which it is read."""


def broken_by(name: str, path: Path, table: str | None = None, **options: Any) -> set[str]:
    """Return the rules that a trace breaks."""
    item = formats()[name]
    with fxtio.open(path, format=name, **options) as trace:
        if table is None:
            item.rules.check(trace)
        else:
            trace.table(table)
        return {*trace.findings.counts}


def broken_when_merged(path: Path) -> set[str]:
    """Return the rules that a Fuchsia trace breaks when it is merged with itself."""
    with FxtTrace(path) as one, FxtTrace(path) as same:
        merge_to([one, same], open_sink(io.BytesIO()))
        return {*one.findings.counts}


@pytest.mark.parametrize("name", list(formats()))
def test_every_rule_has_a_broken_trace(name: str) -> None:
    assert {*broken_rules(name)} == {*rules_of(name)}


LONG = {"uftrace.session.too-many", "uftrace.symbol.too-many"}
"""Rules that only traces break that take long to read."""


@pytest.mark.parametrize(
    "rule",
    [pytest.param(rule, id=rule.id, marks=[pytest.mark.full] if rule.id in LONG else []) for rule in RULES],
)
def test_a_broken_trace_breaks_its_rule_only(rule: Rule, tmp_path: Path) -> None:
    path = tmp_path / f"broken{formats()[rule.format].suffixes[0]}"
    write_broken(rule.id, path)
    with CIRCUMSTANCES.get(rule.id, nullcontext)():
        if rule.group == "merge":
            broken = broken_when_merged(path)
        else:
            broken = broken_by(rule.format, path, TABLES.get(rule.id), **OPTIONS.get(rule.id, {}))
    assert broken == {rule.id, *rule.implied}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_rule_is_described(rule: Rule) -> None:
    assert rule.level.partition(":")[0] in LEVELS
    assert rule.summary
    assert rule.why.endswith(".")
    assert rule.fix.endswith(".")
    assert rule.section or rule.level != "required"
    assert not (rule.quote and not rule.section)
    if rule.level == "required":
        assert bool(rule.quote) != bool(rule.basis), "the words that demand it, or what else demands it"


@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_a_sound_trace_breaks_no_rule(sample: Sample, tmp_path: Path) -> None:
    assert broken_by(sample.format.name, sample.make(tmp_path)) == LISTED.get(str(sample), set())


def test_listed_samples_exist() -> None:
    assert {*LISTED} <= {str(sample) for sample in SAMPLES}
