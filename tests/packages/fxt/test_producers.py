"""Traces with the defects that other producers are known for, written as these write them: each is told by name.

`also` of a rule names the producers.  A real trace is in the corpus where there is one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from fxtio.codec.generate import encode
from fxtio.codec.record import Record
from fxtio.fxt import FxtTrace
from fxtio.fxt import layout as w
from fxtio.fxt import records as r
from fxtio.fxt.enums import ObjectType
from fxtio.fxt.records import Thread
from fxtio.fxt.rules import check
from fxtio.rules import rule
from support.broken.fxt import changed, header, words

pytestmark = pytest.mark.once

NS = 1_000_000_000
LAST_SLOT = w.MAX_STRING_SLOT
THREAD = r.ThreadRecord(1, 100, 101)
NAMES = (
    r.KernelObject(ObjectType.PROCESS, 100, "app", ()),
    r.KernelObject(ObjectType.THREAD, 101, "main", (r.KoidArgument("process", 100),)),
)

Part = Record | bytes


def padded(text: bytes) -> bytes:
    return text + bytes(-len(text) % 8)


def inline(text: bytes) -> int:
    return int(w.StringRefWord(index=len(text), inline=1).value)


def ocaml_trace() -> list[Part]:
    """Inline strings, a provider after the first events, its name counted in words, booleans in bit 16."""

    def instant(name: bytes, value: bool) -> bytes:
        size = 1 + len(padded(name)) // 8
        argument = header(w.BoolArgumentWord, size=size, name=inline(name)) | value << 16
        first = header(w.EventWord, size=3 + size, arg_count=1, thread=1, name=inline(b"hello"))
        return words(first, 50) + padded(b"hello") + words(argument) + padded(name)

    return [
        r.Magic(),
        r.Initialization(NS),
        THREAD,
        r.DurationComplete(100, 1, 0, "outer", (), 200),
        changed(r.ProviderInfo(1, "ocaml-trace"), w.ProviderInfoWord, name_size=2),
        *(instant(name, value) for name in (b"even", b"odd", b"eight by") for value in (False, True)),
    ]


def ftr() -> list[Part]:
    """A counter's id and value before the argument's header; names cut at 63 bytes."""
    first = header(w.EventWord, event_type=1, size=5, arg_count=1, thread=1, name=1)
    argument = header(w.PlainArgumentWord, type=3, size=2, name=2)
    return [
        r.Magic(),
        r.Initialization(NS),
        THREAD,
        r.String(1, "count"),
        r.String(2, "value"),
        words(first, 50, 7, 2**40, argument),
        r.String(3, ("a" * 62 + "é").encode()[:63].decode("utf-8", "surrogateescape")),
        r.DurationComplete(100, 1, 0, 3, (), 200),
    ]


def simpleperf() -> list[Part]:
    """A provider info record without its metadata type, no rate, koids from 0."""
    name = padded(b"simpleperf")
    return [
        r.Magic(),
        words(header(w.MetadataWord, size=1 + len(name) // 8) | len(b"simpleperf") << 52) + name,
        r.KernelObject(ObjectType.PROCESS, 0, "app", ()),
        r.KernelObject(ObjectType.THREAD, 1, "main", (r.KoidArgument("process", 0),)),
        r.ThreadRecord(1, 0, 1),
        r.String(1, "function"),
        r.DurationBegin(100, 1, 0, 1, ()),
        r.DurationEnd(200, 1, 0, 1, ()),
    ]


def olly() -> list[Part]:
    """No thread record; before change 130."""
    events = [r.DurationComplete(100 * n, n, 1, 1, (), 100 * n + 50) for n in (1, 2, 3)]
    return [r.Magic(), r.ProviderInfo(0, "olly"), r.Initialization(NS), r.String(1, "gc"), *events]


def tracey() -> list[Part]:
    """The string of the lowest slot is replaced for each new name once all slots are in use."""
    parts: list[Part] = [r.Magic(), r.ProviderInfo(1, "tracey"), r.Initialization(NS), *NAMES, THREAD]
    for number in range(LAST_SLOT + 40):
        slot = number + 1 if number < LAST_SLOT else 1
        parts += [r.String(slot, f"function {number}"), r.DurationComplete(100 * number, 1, 0, slot, (), 100 * number)]
    return parts


def zjit() -> list[Part]:
    """No provider; frames as string arguments; reference 0 once the string table is full."""
    frames = tuple(r.StringArgument(number, number) for number in range(1, 16))
    lost = tuple(r.StringArgument(number, 0) for number in range(1, 16))
    return [
        r.Magic(),
        r.Initialization(NS),
        r.ThreadRecord(1, 100, 1),
        *(r.String(slot, str(slot - 1)) for slot in range(1, 17)),
        r.Instant(50, 1, 16, 1, frames),
        r.Instant(60, 1, 16, 0, lost),
    ]


def fxt_cpp() -> list[Part]:
    """A scheduling record of type 3, for fibers."""
    fiber = words(header(w.SchedulingWord, size=4, scheduling_type=3), 50, 7, 8)
    return [r.Magic(), r.ProviderInfo(1, "fxt-cpp"), r.Initialization(NS), *NAMES, fiber]


def rust_fxt() -> list[Part]:
    """The format of a large blob in bits 36 to 39, profiles with processes only, one thread table for all providers."""
    blob = words(header(w.LargeBlobWord, size=6) | 1 << 36, inline(b"name") << 16 | inline(b"type"))
    return [
        r.Magic(),
        r.ProviderInfo(1, "rust"),
        r.Initialization(NS),
        *NAMES,
        THREAD,
        blob + padded(b"type") + padded(b"name") + words(8, 0),
        r.ProfilerModule(1, 50, Thread(100, None), "module", b"0123456789abcdef0123456789abcdef01234567"),
        r.ProviderInfo(2, "other"),
        r.Initialization(NS),
        r.Instant(60, 1, 0, "event", ()),
    ]


def ftf_cut() -> list[Part]:
    """A string that only the record of an object uses is left out."""
    return [
        r.Magic(),
        r.ProviderInfo(1, "cut"),
        r.Initialization(NS),
        NAMES[0],
        r.KernelObject(ObjectType.THREAD, 101, 5, (r.KoidArgument("process", 100),)),
        THREAD,
        r.Instant(50, 1, 0, "event", ()),
    ]


PRODUCERS: dict[Callable[[], list[Part]], tuple[dict[str, int], dict[str, int]]] = {
    ocaml_trace: ({"provider.none": 1, "provider.name-words": 1, "arg.bool-in-name": 2}, {"thread.nameless": 2}),
    ftr: ({"provider.none": 1, "arg.counter-id-first": 1, "text.not-utf8": 1}, {"thread.nameless": 2}),
    simpleperf: ({"framing.unknown-metadata": 1, "clock.none": 1}, {"provider.none": 1}),
    olly: ({"thread.undefined": 3}, {}),
    tracey: ({"string.thrash": 1}, {}),
    zjit: ({"provider.none": 1, "event.name-empty": 1}, {"thread.nameless": 2}),
    fxt_cpp: ({"sched.type": 1}, {}),
    rust_fxt: (
        {"framing.unknown-large": 1, "profiler.inline-thread": 1, "profiler.build-id": 1, "thread.undefined": 1},
        {},
    ),
    ftf_cut: ({"string.undefined": 1}, {}),
}
"""For each producer the rules that its defects break, and others that its traces break, each with its number."""


def broken(parts: list[Part]) -> Counter[str]:
    trace = FxtTrace(b"".join(part if isinstance(part, bytes) else encode(part) for part in parts))
    check(trace)
    return Counter({name.removeprefix("fxt."): count for name, count in trace.findings.counts.items()})


@pytest.mark.parametrize("producer", PRODUCERS)
def test_the_defects_of_a_producer_are_told(producer: Callable[[], list[Part]]) -> None:
    defects, others = PRODUCERS[producer]
    assert broken(producer()) == Counter(defects | others)


@pytest.mark.parametrize("producer", PRODUCERS)
def test_the_rules_name_the_producer(producer: Callable[[], list[Part]]) -> None:
    name = producer.__name__.replace("_", "-")
    for each in PRODUCERS[producer][0]:
        assert name.replace("rust-fxt", "rust") in rule(f"fxt.{each}").also.lower(), each


def test_other_names_with_an_odd_length_are_not_taken_for_misplaced_booleans() -> None:
    arguments = (r.BoolArgument("odd", True), r.BoolArgument("five5", False), r.BoolArgument("", False))
    parts = [*fxt_cpp()[:-1], THREAD, r.Instant(50, 1, 0, "event", arguments)]
    assert broken(parts) == {"arg.name-empty": 1}


def test_a_nul_in_another_name_of_the_same_record_is_still_told() -> None:
    argument = words(header(w.BoolArgumentWord, size=2, name=inline(b"odd"))) + padded(b"ok")
    other = encode_argument(r.Int32Argument("a\0b", 1))
    first = header(w.EventWord, size=7, arg_count=2, thread=1, name=inline(b"hello"))
    event = words(first, 50) + padded(b"hello") + argument + other
    assert broken([*fxt_cpp()[:-1], THREAD, event]) == {"arg.bool-in-name": 1, "text.nul": 1}


def encode_argument(argument: r.Argument) -> bytes:
    """Return the bytes of an argument: the end of an event that has it."""
    with_it, without = (encode(r.Instant(0, 1, 0, 0, args)) for args in ((argument,), ()))
    return with_it[len(without) :]
