"""Each rule of the level `interop:perfetto`: Perfetto goes wrong, as the rule says, on the trace that breaks it."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest

import judges
from fxtio.codec.generate import encode
from fxtio.fxt.records import String
from fxtio.fxt.rules.archive import MAX_ERROR
from fxtio.fxt.rules.arguments import MAX_EXACT
from fxtio.rules import rules_of
from judges import perfetto
from judges.perfetto import Perfetto, Slice
from support.broken import write_broken
from support.broken.fxt import THREAD, instant

pytestmark = [pytest.mark.full, pytest.mark.once]


@pytest.fixture(autouse=True, scope="module")
def _judge() -> None:
    judges.require(perfetto.available())


def odd(p: Perfetto) -> list[Slice]:
    """Return the slices beside those that follow the broken record."""
    return [item for item in p.slices() if not 1_000 <= item.ts < 1_005]


def depth_of(p: Perfetto) -> int:
    return sum(1 for item in p.slices() if item.name == "span" and item.dur >= 0)


def inexact_by(p: Perfetto) -> float:
    exact = (1 << 62) * 10**9 // 24_000_000_000
    return min(abs(item.ts - exact) for item in odd(p))


JUDGED: dict[str, Callable[[Perfetto], bool]] = {
    "text.nul": lambda p: [item.name for item in odd(p)] == ["a"],
    "clock.changed": lambda p: min(item.ts for item in p.slices()) == 1_000_000,  # tick 1,000, once a microsecond
    "clock.inexact": lambda p: MAX_ERROR < inexact_by(p) < math.inf,
    "thread.wide": lambda p: {thread.tid for thread in p.threads()} == {THREAD},
    "event.overlap": lambda p: p.errors() == {"slice_drop_overlapping_complete_event": 1},
    "event.child-first": lambda p: [(item.ts, item.dur) for item in odd(p)] == [(100, 50)],
    "event.too-deep": lambda p: depth_of(p) == 512,
    "arg.name-again": lambda p: [item.args for item in odd(p)] == [{"a": 2}],
    "arg.unsigned-large": lambda p: [item.args for item in odd(p)] == [{"a": -(1 << 63)}],
    "arg.nan": lambda p: [item.args for item in odd(p)] == [{"a": None}],
    "counter.not-numeric": lambda p: p.errors() == {"fuchsia_non_numeric_counters": 1},
    "counter.inexact": lambda p: [sample.value for sample in p.counters()] == [float(MAX_EXACT)],
    "async.name": lambda p: [item.dur for item in odd(p)] == [-1],
    "async.shared-id": lambda p: [item.dur for item in odd(p)] == [20, 10],  # the second one has 20, too
    "flow.again": lambda p: p.errors() == {"flow_duplicate_id": 1},
    "flow.before-slice": lambda p: p.errors() == {"flow_no_enclosing_slice": 1},
    "flow.on-instant": lambda p: [flow.name_out for flow in p.flows()] == ["event"],
    "object.process-type": lambda p: p.errors() == {"fuchsia_invalid_event_arg_type": 1},
    "sched.weight": lambda p: p.errors() == {"fuchsia_invalid_event_arg_type": 1} and p.sched() == [],
    "sched.no-object": lambda p: {item.pid for item in p.sched()} == {0},
    "log.not-shown": lambda p: odd(p) == [],
}
"""Whether Perfetto shows what each rule says."""

REFUSED = {"framing.no-magic", "blob.perfetto-garbage", "large.interop", "sched.cpu"}
"""The rules whose broken traces Perfetto does not import."""

RULES = [rule for rule in rules_of("fxt").values() if rule.level == "interop:perfetto"]


def test_every_rule_about_perfetto_is_judged() -> None:
    assert {rule.id for rule in RULES} == {f"fxt.{name}" for name in (*JUDGED, *REFUSED, "provider.again")}


@pytest.mark.parametrize("name", JUDGED)
def test_perfetto_goes_wrong(name: str, tmp_path: Path) -> None:
    path = tmp_path / "broken.fxt"
    write_broken(f"fxt.{name}", path)
    with perfetto.load(path) as p:
        assert JUDGED[name](p), (p.errors(), odd(p))


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_perfetto_refuses(name: str, tmp_path: Path) -> None:
    path = tmp_path / "broken.fxt"
    write_broken(f"fxt.{name}", path)
    with pytest.raises(perfetto.PerfettoImportError):
        perfetto.load(path)


def test_perfetto_forgets_the_strings_of_a_provider_that_comes_again(tmp_path: Path) -> None:
    path = tmp_path / "broken.fxt"
    write_broken("fxt.provider.again", path)
    data = path.read_bytes()
    again = data.rindex(b"another\0") - 8
    string, use = encode(String(3, "name")), encode(instant(name=3))
    for place, lost in ((again, 1), (len(data), 0)):
        with perfetto.load(data[:place] + string + data[place:] + use) as p:
            assert p.errors() == ({"fuchsia_invalid_string_ref": 1} if lost else {})
