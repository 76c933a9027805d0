"""CoreProfiler records and traces for the tests: strategies made from the declarations, damage, simulated programs."""

from __future__ import annotations

import io
from datetime import datetime, timedelta, timezone
from functools import cache
from typing import Any

from hypothesis import strategies as st

from fxtio.codec.record import Opaque
from fxtio.coreprofiler import CoreProfilerWriter
from fxtio.coreprofiler import layout as lay
from fxtio.coreprofiler.lines import Fault, decode, encode, form_of
from fxtio.coreprofiler.records import RECORDS
from fxtio.coreprofiler.simulator import Simulator, Truth
from fxtio.coreprofiler.style import DIALECTS, Style
from fxtio.errors import EncodeError

Strategy = st.SearchStrategy[Any]

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"), max_size=12) | st.sampled_from(
    ["", '"', '" "', '" " "', "Class<T, U>::Method", "\udcff", ": 0x", "UNKNOWN"]
)
WORDS = st.text(st.characters(codec="utf-8", exclude_characters=" :\r\n\0"), min_size=1, max_size=8)
ZONES = st.none() | st.integers(-23 * 60, 23 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
TIMES = st.builds(
    lambda when, zone: when.replace(microsecond=when.microsecond // 1000 * 1000, tzinfo=zone),
    st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 28)),  # noqa: DTZ001  # local times
    ZONES,
)


def numbers(low: int, high: int) -> Strategy:
    ends = st.sampled_from([low, min(high, 1), 10, 99_999_999, 100_000_000, high])
    return ends.filter(lambda one: low <= one <= high) | st.integers(low, high)


def values(item: lay.Item) -> Strategy:
    """Values of an item of fixed place."""
    if isinstance(item, lay.Count):
        made = st.none() | numbers(0, item.high)
    elif isinstance(item, lay.Decimal):
        made = numbers(item.low, item.high)
    elif isinstance(item, lay.Hexadecimal):
        made = (st.none() if item.unknown else st.nothing()) | numbers(0, item.high)
    elif isinstance(item, lay.Pointer):
        made = st.just(lay.UNDEFINED) | numbers(0, lay.MAX_64)
    elif isinstance(item, lay.ThreadNumber):
        made = st.none() | numbers(0, lay.MAX_32) | st.builds(lay.OsThread, numbers(0, lay.MAX_63))
    else:
        made = {lay.Word: WORDS, lay.Time: TIMES}[type(item)]
    return st.none() | made if item.optional else made


def compounds(cls: type[Any]) -> Strategy:
    return st.builds(cls, **{part.name: values(part.item) for part in form_of(cls).parts})


def records(cls: type[Any]) -> Strategy:
    """Records of a class, such as the format can say in the style of the given specification."""
    form = form_of(cls)
    fields = {part.name: values(part.item) for part in form.parts}
    tail = form.tail
    if isinstance(tail, lay.Several):
        for name, member in zip(form.filled, tail.members, strict=True):
            fields[name] = st.lists(compounds(member), max_size=4).map(tuple)
    elif isinstance(tail, lay.Flags):
        fields[form.filled[0]] = st.lists(st.booleans(), max_size=5).map(tuple)
    elif tail is not None:
        fields |= dict.fromkeys(form.filled, TEXTS)
    return st.builds(cls, **fields).filter(sayable)


def sayable(record: Any) -> bool:
    """Whether a record can be told from others: names with quotes in them may not."""
    try:
        encode(record, DIALECTS["D2"])
    except EncodeError:
        return False
    return True


RECORDS_OF: dict[type[Any], Strategy] = {cls: records(cls) for cls in RECORDS}
ANY_RECORDS = st.one_of([*RECORDS_OF.values()])


@cache
def styles() -> Strategy:
    """Styles of all dialects, with pointers of either width."""

    def varied(style: Style, width: int, glued: bool) -> Style:
        made = style.copy()
        made.forms |= {"pointer": f"0x%0{width}X"}
        made.glued_flags = glued
        return made

    return st.builds(varied, st.sampled_from([*DIALECTS.values()]), st.sampled_from([8, 16]), st.booleans())


def written(some: Any, style: Style | str = "D2") -> bytes:
    """What the writer makes of records."""
    out = io.BytesIO()
    with CoreProfilerWriter(out, style=style) as writer:
        writer.put_all(some)
    return out.getvalue()


LINE_PIECES = st.sampled_from(
    [b" ", b":", b"\n", b"\r\n", b"?", b"0x", b"0x1F", b"-1", b"9" * 19, b"9" * 25, b"0x" + b"f" * 17, b'"', b'" "',
     b"\0", b"sam str", b"fun nam 0x1 ", b"thr crt 0x1", b"\nthr dst 0x1 0x2\n", b"gch gcs 0x0 1 ? ", b"tttf", b"\xff",
     b"\xef\xbb\xbf"]
)  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """Lines with bytes changed, cut out or put in."""
    style = draw(styles())
    data = bytearray(written(draw(st.lists(ANY_RECORDS, max_size=6)), style))
    for _ in range(draw(st.integers(0, 5))):
        at = draw(st.integers(0, len(data)))
        match draw(st.sampled_from(["put", "cut", "drop", "byte"])):
            case "put":
                data[at:at] = draw(LINE_PIECES)
            case "cut":
                del data[at : at + draw(st.integers(1, 12))]
            case "drop":
                del data[at + (len(data) - at) * 3 // 4 :]
            case _ if at < len(data):
                data[at] = draw(st.integers(0, 255))
    return bytes(data)


def simulated(seed: int, *, steps: int = 300, style: str = "D2", **how: Any) -> tuple[bytes, list[Any], list[Truth]]:
    """A simulated program's trace, its records, and what was really there."""
    truth: list[Truth] = []
    some: list[Any] = []
    system = style in ("D3", "D4")
    simulator = Simulator(some.append, seed=seed, system_threads=system, truth=truth.append, **how)
    for _ in range(steps):
        simulator.step()
    simulator.finish()
    return written(some, style), some, truth


def one_by_one(data: bytes) -> tuple[list[bytes], list[Any]]:
    """Lines with their ends, and each line's record or `Opaque`."""
    raws = [raw + b"\n" for raw in data.split(b"\n")]
    raws[-1] = raws[-1].removesuffix(b"\n")
    if not raws[-1]:
        del raws[-1]
    made: list[Any] = []
    for raw in raws:
        found = decode(raw.removesuffix(b"\n").removesuffix(b"\r"))
        made.append(Opaque(raw) if isinstance(found, Fault) else found)
    return raws, made


def row_of(offset: int, record: Any) -> dict[str, Any]:
    """What the table of a record's class holds of it."""
    form = form_of(type(record))
    made: dict[str, Any] = {"offset": offset} | cells_of(record)
    for name in form.filled:
        value = getattr(record, name)
        if isinstance(form.tail, lay.Several):
            value = len(value)
        elif isinstance(form.tail, lay.Flags):
            value = "".join("t" if flag else "f" for flag in value)
        made[name] = value
    return made


def cells_of(record: Any) -> dict[str, Any]:
    """What a table holds of the items of fixed place of a record, or of a compound."""
    made: dict[str, Any] = {}
    for part in form_of(type(record)).parts:
        name, value = part.name, getattr(record, part.name)
        if isinstance(part.item, lay.ThreadNumber):
            made[f"{name}_of_system"] = system = isinstance(value, lay.OsThread)
            value = value.number if system else value
        if isinstance(part.item, lay.Time):
            away = value.utcoffset()
            made["utc_offset"] = None if away is None else away // timedelta(minutes=1)
            value = (value.replace(tzinfo=None) - datetime(1970, 1, 1)) // timedelta(milliseconds=1)  # noqa: DTZ001
        elif isinstance(part.item, lay.Pointer) or part.item.optional:
            value = None if value == lay.UNDEFINED else value
        elif value is None:
            value = -1
        made[name] = value
    return made
