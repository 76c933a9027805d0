"""The kernels in C compared with their stand-ins in Python, on arbitrary words; and arguments that C has to refuse.

Where the extension is missing these tests skip, and all other tests run the stand-ins.
"""

from __future__ import annotations

import inspect
import json
from fractions import Fraction
from types import FunctionType
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fxtio import _native
from fxtio._native import python as stand_in
from fxtio._native.constants import SpanStep, WalkEnd, c_header
from fxtio.arrays import Array
from fxtio.codec.columns import tables_of
from fxtio.codec.record import TaggedUnion
from fxtio.fxt.records import ARGUMENTS, RECORDS
from support.checkout import CHECKOUT
from support.fxt_hostile import WORDS

pytestmark = pytest.mark.native

kernels = pytest.importorskip("fxtio._native._kernels", reason="the C kernels are not built")

HEADERS = st.builds(
    lambda kind, size, rest: kind | size << 4 | rest << 16, st.integers(0, 15), st.integers(0, 5), WORDS
)
words_lists = st.lists(WORDS | HEADERS.map(lambda word: word % 2**64), max_size=40)
families = st.sampled_from([RECORDS, ARGUMENTS])


def u64(values: list[int]) -> Array:
    return np.array(values, np.uint64)


def i64(*values: int) -> Array:
    return np.array(values, np.int64)


def outputs(room: int) -> tuple[Array, Array, Array]:
    return np.full(room, -7, np.int64), np.full(room, -7, np.int64), np.full(room, -7, np.int8)


def test_the_constants_of_c_are_those_of_python() -> None:
    header = CHECKOUT / "fxtio/_native/constants.h"
    assert header.read_text() == c_header(), "run: python fxtio/_native/constants.py > fxtio/_native/constants.h"


def test_each_kernel_has_a_stand_in_with_as_many_parameters() -> None:
    names = {name for name in vars(kernels) if not name.startswith("_")}
    own = [value for value in vars(stand_in).values() if getattr(value, "__module__", "").startswith(stand_in.__name__)]
    functions = {value.__name__: value for value in own if isinstance(value, FunctionType)}
    assert {name for name in functions if not name.startswith("_")} == names
    for name in sorted(names):
        kernel, parameters = getattr(kernels, name), inspect.signature(functions[name]).parameters.values()
        assert kernel.__doc__ == f"See {stand_in.__name__}.{name}."
        count = sum(parameter.kind != inspect.Parameter.VAR_POSITIONAL for parameter in parameters)
        takes = f"{name} takes {count} arguments" if name != "list_slices" else "list_slices takes 14 columns"
        with pytest.raises(TypeError, match=takes):
            kernel()


@pytest.mark.parametrize("name", ["scan_stream", "fill_stream", "encode_stream", "read_plain"])
def test_kernels_without_a_stand_in_say_so(name: str) -> None:
    function = getattr(stand_in, name)
    with pytest.raises(NotImplementedError):
        function(*inspect.signature(function).parameters)


def test_the_c_kernels_are_in_use() -> None:
    assert _native.IMPLEMENTATION == "c"
    assert _native.walk is kernels.walk


# --- The same results -----------------------------------------------------------------------------------------------


@given(words=words_lists, start=st.integers(0, 45), room=st.integers(0, 45), union=families)
def test_walk(words: list[int], start: int, room: int, union: TaggedUnion) -> None:
    rules, table = tables_of(union)
    results = []
    for walk in (kernels.walk, stand_in.walk):
        filled = outputs(room)
        count, used, why = walk(u64(words), start, rules, table, *filled)
        results.append((count, used, why, [array[:count].tolist() for array in filled]))
    assert results[0] == results[1]
    count, used, why, (at, size, kind) = results[0]
    assert why in list(WalkEnd)
    assert at == [start + sum(size[:number]) for number in range(count)]
    assert size == [union.size_of(words[here]) for here in at]
    assert kind == [union.kind_of(words[here]) for here in at]
    assert used == start + sum(size)


@given(
    words=words_lists.filter(bool),
    at=st.lists(st.integers(-10, 60), max_size=20),
    deltas=st.integers(-50, 50) | st.lists(st.integers(-50, 50), min_size=20, max_size=20),
)
def test_gather(words: list[int], at: list[int], deltas: int | list[int]) -> None:
    delta = deltas if isinstance(deltas, int) else i64(*deltas[: len(at)])
    results = []
    for gather in (kernels.gather, stand_in.gather):
        out = np.zeros(len(at), np.uint64)
        gather(u64(words), i64(*at), delta, out)
        results.append(out.tolist())
    assert results[0] == results[1]
    steps = [deltas] * len(at) if isinstance(deltas, int) else deltas
    assert results[0] == [words[min(max(a + d, 0), len(words) - 1)] for a, d in zip(at, steps, strict=False)]


@given(kinds=st.lists(st.integers(-3, 5), max_size=30), count=st.integers(0, 8))
def test_group_rows(kinds: list[int], count: int) -> None:
    for group_rows in (kernels.group_rows, stand_in.group_rows):
        order, begins = np.empty(len(kinds), np.int64), np.empty(count, np.int64)
        if count and max(kinds, default=-1) < count - 1:
            group_rows(np.array(kinds, np.int8), order, begins)
            assert order.tolist() == sorted(range(len(kinds)), key=lambda row: max(kinds[row], -1))
            assert begins.tolist() == [sum(kind < each for kind in kinds) for each in range(count)]
        else:
            with pytest.raises(ValueError, match="a kind has no begin"):
                group_rows(np.array(kinds, np.int8), order, begins)


def test_group_rows_refuses_wrong_lengths() -> None:
    for group_rows in (kernels.group_rows, stand_in.group_rows):
        with pytest.raises(ValueError, match="lengths differ"):
            group_rows(np.zeros(2, np.int8), i64(0), i64(0, 0))
    with pytest.raises(ValueError, match="lengths differ"):
        kernels.group_rows(np.zeros(0, np.int8), i64(), np.zeros(200, np.int64))
    with pytest.raises(TypeError, match="3 arguments"):
        kernels.group_rows(FEW)


@given(
    words=st.lists(WORDS, max_size=20),
    runs=st.lists(st.tuples(st.integers(-2, 22), st.integers(-2, 9), st.booleans()), max_size=8),
    room=st.integers(0, 60),
)
def test_copy_rows(words: list[int], runs: list[tuple[int, int, bool]], room: int) -> None:
    at, size, chosen = (np.array([run[field] for run in runs], kind) for field, kind in enumerate(("i8", "i8", "?")))
    expected = [word for begin, count, is_chosen in runs if is_chosen for word in words[begin : begin + count]]
    is_right = all(begin >= 0 <= count <= len(words) - begin for begin, count, is_chosen in runs if is_chosen)
    for copy_rows in (kernels.copy_rows, stand_in.copy_rows):
        out = np.zeros(room, np.uint64)
        if is_right and len(expected) <= room:
            assert copy_rows(u64(words), at, size, chosen, out) == len(expected)
            assert out[: len(expected)].tolist() == expected
        else:
            with pytest.raises(ValueError, match="within the words"):
                copy_rows(u64(words), at, size, chosen, out)


def test_copy_rows_refuses_wrong_lengths() -> None:
    with pytest.raises(ValueError, match="lengths differ"):
        kernels.copy_rows(FEW, i64(0, 1), i64(1), np.ones(2, bool), FEW)
    with pytest.raises(TypeError, match="5 arguments"):
        kernels.copy_rows(FEW)


@given(data=st.data(), words=words_lists.filter(bool), union=families)
def test_walk_many(data: st.DataObject, words: list[int], union: TaggedUnion) -> None:
    place = st.integers(0, len(words))
    rows = data.draw(st.lists(st.tuples(place, place, st.integers(0, 6)), max_size=8))
    first, stop, counts = (i64(*column) for column in (zip(*rows, strict=True) if rows else ((), (), ())))
    rules, table = tables_of(union)
    results = []
    for walk_many in (kernels.walk_many, stand_in.walk_many):
        filled = outputs(int(counts.sum()))
        counted, after = np.full(len(rows), -7, np.int64), np.full(len(rows), -7, np.int64)
        total = walk_many(u64(words), first, stop, counts, rules, table, *filled, counted, after)
        results.append((total, counted.tolist(), after.tolist(), [array[:total].tolist() for array in filled]))
    assert results[0] == results[1]
    total, all_counted, all_after, (_, size, _) = results[0]
    assert total == sum(all_counted) == len(size)
    for (_, end, count), counted_here, behind in zip(rows, all_counted, all_after, strict=True):
        assert counted_here <= count
        assert behind == -1 if counted_here < count else 0 <= behind <= max(end, len(words))


TRACKS = st.integers(-1, 3)
TIMES = st.integers(0, 12) | st.integers(2**64 - 3, 2**64 - 1)


@given(rows=st.lists(st.tuples(TRACKS, TIMES), max_size=30), latest=st.lists(TIMES, max_size=3), room=st.integers(0, 9))
def test_late(rows: list[tuple[int, int]], latest: list[int], room: int) -> None:
    track, time = np.array([row[0] for row in rows], np.int32), u64([row[1] for row in rows])
    results = []
    for late in (kernels.late, stand_in.late):
        times, listed = u64(latest), np.full(room, -7, np.int64)
        results.append((late(track, time, times, listed), times.tolist(), listed.tolist()))
    assert results[0] == results[1]
    expected = [
        row
        for row, (number, when) in enumerate(rows)
        if 0 <= number < len(latest)
        and any(when < other for other in [latest[number], *(t for k, t in rows[:row] if k == number)])
    ]
    assert results[0][0] == len(expected)
    assert results[0][2][: len(expected)] == expected[:room]


SPAN_TIMES = st.integers(0, 12) | st.integers(2**63 - 3, 2**63 - 1)


@given(
    rows=st.lists(st.tuples(TRACKS, st.integers(-1, 4), SPAN_TIMES, st.just(-1) | SPAN_TIMES, SPAN_TIMES), max_size=40),
    groups=st.integers(0, 4),
)
@example(rows=[(0, 0, 0, -1, 0), (0, 0, 2**63 - 2, 1, 0), (0, 0, 2**63 - 1, 1, 0)], groups=1)
def test_tally(rows: list[tuple[int, ...]], groups: int) -> None:
    rows.sort(key=lambda row: row[2])
    dtypes = (np.int32, np.int64, np.int64, np.int64, np.int64)
    columns = [np.array([row[place] for row in rows], dtype) for place, dtype in enumerate(dtypes)]
    results = []
    for tally in (kernels.tally, stand_in.tally):
        sums = [np.full(groups, value, np.int64) for value in (0, 0, 0, 2**63 - 1, 0)]
        arguments: Any = [*columns, *sums]
        tally(*arguments)
        results.append([column.tolist() for column in sums])
    assert results[0] == results[1]
    for group in range(groups):
        own = [row for row in rows if row[1] == group and row[3] >= 0]
        calls, total, self_time, shortest, longest = (column[group] for column in results[0])
        assert calls == len(own)
        assert self_time == min(sum(row[4] for row in own), 2**63 - 1)
        assert shortest == min((row[3] for row in own), default=2**63 - 1)
        assert longest == max((row[3] for row in own), default=0)
        outer = 0
        for at, row in enumerate(rows):
            ends = [
                2**63 - 1 if each[3] < 0 else min(each[2] + each[3], 2**63 - 1)  # the latest time that there is
                for each in rows[:at]
                if each[:2] == row[:2]
            ]
            if row[1] == group and row[3] >= 0 and row[2] >= max(ends, default=0):
                outer += row[3]
        assert total == min(outer, 2**63 - 1)


def test_tally_of_many_groups_and_tracks() -> None:
    """More pairs than the kernel has room for at first."""
    random = np.random.default_rng(5)
    start = np.sort(random.integers(0, 10_000, 3000))
    columns = [random.integers(0, 20, 3000).astype(np.int32), random.integers(0, 30, 3000), start]
    columns += [random.integers(-1, 50, 3000), random.integers(0, 9, 3000)]
    results = []
    for tally in (kernels.tally, stand_in.tally):
        sums = [np.full(30, value, np.int64) for value in (0, 0, 0, 2**63 - 1, 0)]
        arguments: Any = [*columns, *sums]
        tally(*arguments)
        results.append([column.tolist() for column in sums])
    assert results[0] == results[1]


def test_tally_refuses_what_does_not_fit() -> None:
    column, sums = np.zeros(2, np.int64), np.zeros(3, np.int64)
    track = np.zeros(2, np.int32)
    for tally in (kernels.tally, stand_in.tally):
        with pytest.raises(ValueError, match="lengths differ"):
            tally(track, column, column[:1], column, column, sums, sums, sums, sums, sums)
        with pytest.raises(ValueError, match="lengths differ"):
            tally(track, column, column, column, column, sums, sums[:1], sums, sums, sums)


@given(
    rows=st.lists(
        st.tuples(
            st.integers(-1, 7), TRACKS, SPAN_TIMES, SPAN_TIMES, st.integers(0, 2), st.integers(-3, 3), st.integers(0, 3)
        ),
        max_size=40,
    ),
    tracks=st.integers(0, 3),
    carried=st.integers(0, 5),
)
def test_match(rows: list[tuple[int, ...]], tracks: int, carried: int) -> None:
    dtypes = (np.int8, np.int32, np.int64, np.int64, np.uint64, np.int32, np.int8)
    rows = sorted(rows, key=lambda row: row[2])
    rows = [(step, k, time, max(time, end), *others) for step, k, time, end, *others in rows]
    carried = min(carried, len(rows))
    rows[:carried] = [((1, 3)[row[0] % 2], *row[1:]) for row in rows[:carried]]
    columns = [np.array([row[place] for row in rows], dtype) for place, dtype in enumerate(dtypes)]
    results = []
    for match in (kernels.match, stand_in.match):
        end = columns[3].copy()
        top = np.full(tracks, -1, np.int64)
        parent, closer, inner = np.full((3, len(rows)), 0, np.int64)
        depth = np.full(len(rows), -7, np.int32)
        state, on_stack = columns[6].copy(), np.zeros(len(rows), np.int8)
        outputs = (columns[5].copy(), top, parent, depth, closer, inner, state, on_stack)
        arguments: Any = [*columns[:3], end, columns[4], *outputs, carried]
        counts = match(*arguments)
        results.append((counts, end.tolist(), [column.tolist() for column in outputs]))
    assert results[0] == results[1]


@st.composite
def string_columns(draw: st.DrawFn) -> tuple[int, list[Array]]:
    """Return a number of rows and the arrays of columns; some ranges are not within their bytes."""
    rows = draw(st.integers(0, 5))
    columns: list[Array] = []
    for _ in range(draw(st.integers(0, 4))):
        data = np.frombuffer(draw(st.binary(max_size=8)), np.uint8)
        count = draw(st.sampled_from([rows, rows, rows, 1]))
        is_wild = draw(st.integers(0, 9)) == 0
        starts, sizes = [], []
        for _ in range(count):
            start = draw(st.integers(0, len(data)))
            starts.append(draw(st.sampled_from([start, -1, -(2**63), 2**63 - 1, 9])) if is_wild else start)
            size = draw(st.integers(0, len(data) - start))
            sizes.append(draw(st.sampled_from([size, -1, 2**63 - 1, 9])) if is_wild else size)
        columns += [data, np.array(starts, np.int64), np.array(sizes, np.int64)]
    return rows, columns


@given(string_columns(), st.sampled_from([1000, 1000, 10, 0]), st.integers(1, 3))
def test_interleave(case: tuple[int, list[Array]], room: int, portion: int) -> None:
    rows, columns = case
    results: list[Any] = []
    for kernel in (kernels.interleave, stand_in.interleave):
        out, ends = np.full(room, 7, np.uint8), np.full(rows, -7, np.int64)
        try:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(stand_in, "_ROWS", portion)
                count = kernel(out, ends, *columns)
        except ValueError as error:
            results.append(str(error))
        else:
            results.append((count, out[:count].tobytes(), ends.tolist()))
    assert results[0] == results[1]
    if not isinstance(results[0], str):
        strings = [
            b"".join(
                data.tobytes()[begin[place] :][: size[place]]
                for data, begin, size in zip(columns[::3], columns[1::3], columns[2::3], strict=True)
                for place in [0 if len(begin) == 1 else row]
            )
            for row in range(rows)
        ]
        assert results[0][1] == b"".join(strings)
        assert np.diff([0, *results[0][2]]).tolist() == [*map(len, strings)]


JSON_PIECES = st.sampled_from([
    b"{", b"}", b"[", b"]", b",", b":", b" ", b"\n", b'"ph"', b'"ts"', b'"x"', b'"a\\n\\u00e9"', b'"ph\\n"', b'"',
    b"\\", b"0", b"-1.5e+3", b"01", b"1.", b"true", b"null", b"nul", b"NaN", b"\xc3\xa9", b"\xff", b"\x00", b"\x1f",
    b"\x0b", b'{"ph":1}', b'{"ts" : [1,{"x":{}}] ,"ph":"long enough for a word"}', b'{"ph":1,"ph":""}',
])  # fmt: skip


JSON_NAMES = ["ph", "ts", "start_time"]


@st.composite
def objects_alike(draw: st.DrawFn) -> bytes:
    """Return objects that mostly have the same members, in the same order, cut off somewhere."""
    keys = st.sampled_from(["ph", "ts", "start_time", "p", "phs", "start_tim", "start_timer", "other", "\\u0070h"])
    usual = draw(st.lists(keys, max_size=4))
    colon = draw(st.sampled_from([":", ":", " :"]))
    objects = [usual if draw(st.booleans()) else draw(st.lists(keys, max_size=4)) for _ in range(4)]
    members = [",".join(f'"{key}"{colon}1' for key in keys) for keys in objects]
    last = draw(st.sampled_from(["]", "", '"and then something']))
    data = ",".join([*(f"{{{each}}}" for each in members), last]).encode()
    return data[: draw(st.integers(0, len(data)) | st.just(len(data)))]


@given(objects_alike() | st.lists(JSON_PIECES | st.binary(max_size=3), max_size=12).map(b"".join), st.integers(0, 5))
@example(b'{"ph":[%b]}' % (b"[" * 30 + b"]" * 30), 3)
def test_walk_objects(data: bytes, room: int) -> None:
    for members in ([], JSON_NAMES):
        names = np.frombuffer("".join(members).encode(), np.uint8)
        ends = np.cumsum([*map(len, members)], dtype=np.int64)
        results = []
        for walk in (kernels.walk_objects, stand_in.walk_objects):
            places = np.full((1 + len(members), 2, room), 7, np.int32)
            count, end = walk(data, names, ends, places)
            results.append((count, end, places[:, :, :count].tolist()))
        assert results[0] == results[1]


ARRAYS = st.lists(JSON_PIECES, max_size=4).map(lambda items: b"[" + b",".join(items) + b"]")


@given(
    st.lists(ARRAYS | st.binary(min_size=2, max_size=5), max_size=5), st.integers(0, 4), st.sampled_from([b"", b"x"])
)
@example([b"[]", b"[ , ]", b'[{"ph":1},{"ts":2}]', b'[{"ph":1}]'], 4, b"")
@example([b'[{"ph":1}]', b'[{"ph":1}'], 4, b"")
def test_walk_arrays(pieces: list[bytes], room: int, before: bytes) -> None:
    names, ends = np.frombuffer(b"phts", np.uint8), np.array([2, 4], np.int64)
    data, begin, end = texts_of([before, *pieces])
    results = []
    for walk in (kernels.walk_arrays, stand_in.walk_arrays):
        places, arrays = np.full((3, 2, room), 7, np.int32), np.full(room, -1)
        done, count = walk(data, begin[1:], end[1:], names, ends, places, arrays)
        results.append((done, count, places[:, :, :count].tolist(), arrays[:count].tolist()))
    assert results[0] == results[1]
    done, count, ((begins, stops), *_), arrays = results[0]
    for array, first, last in zip(arrays, begins, stops, strict=True):
        assert isinstance(json.loads(data[first:last].decode("latin-1")), dict)
        assert array < done and begin[1:][array] < first < last < end[1:][array]


def test_objects_that_are_nested_too_deep_are_for_others() -> None:
    names, ends, places = np.frombuffer(b"a", np.uint8), np.array([1], np.int64), np.zeros((2, 2, 4), np.int32)
    for depth, count in ((16385, 1), (16386, 0), (100_000, 0)):  # an array without items has no level
        assert kernels.walk_objects(b'{"a":%b}' % (b"[" * depth + b"]" * depth), names, ends, places)[0] == count


def texts_of(pieces: list[bytes]) -> tuple[bytes, Array, Array]:
    """Return bytes, and where texts are in them."""
    ends = np.cumsum([0, *map(len, pieces)], dtype=np.int32)
    return b"".join(pieces), ends[:-1], ends[1:]


@given(st.lists(st.sampled_from([b"", b"a", b"b", b"12345678", b"123456789", b"x" * 30]), max_size=12))
def test_distinct_texts(pieces: list[bytes]) -> None:
    results: list[tuple[int, list[int], list[int]]] = []
    for kernel in (kernels.distinct_texts, stand_in.distinct_texts):
        codes, first = np.empty(len(pieces), np.int32), np.empty(len(pieces), np.int64)
        count = kernel(*texts_of(pieces), codes, first, 7)
        results.append((count, codes.tolist(), first[:count].tolist()))
    assert results[0] == results[1]
    count, numbers, rows = results[0]
    assert [pieces[rows[number]] for number in numbers] == pieces
    assert count == len({*pieces})


DECIMALS = st.from_regex(r"\A\"?-?[0-9]{0,21}(\.[0-9]{0,6}(50*|49*)?)?(e1)?\"?\Z").map(str.encode)


@given(st.lists(DECIMALS | st.binary(max_size=4), max_size=4), st.sampled_from([3, 3, 0, 18]))
@example([b"9223372036854775.799", b"9223372036854775.7995", b"9223372036854775.8", b"0" * 30 + b"1"], 3)
def test_read_decimals(pieces: list[bytes], digits: int) -> None:
    results = []
    for kernel in (kernels.read_decimals, stand_in.read_decimals):
        out = np.empty(len(pieces), np.int64)
        results.append((kernel(*texts_of(pieces), digits, out), out.tolist()))
    assert results[0] == results[1]
    for text, value in zip(pieces, results[0][1], strict=True):
        if value >= 0:
            assert value == round(Fraction(text.decode().strip('"')) * 10**digits)


def test_kernels_of_texts_refuse_wrong_arguments() -> None:
    data, one, two = b"ab", np.array([0], np.int32), np.array([0, 3], np.int32)
    codes, first, out = np.empty(1, np.int32), np.empty(1, np.int64), np.empty(1, np.int64)
    for begin, end in ((one, two[1:]), (one - 1, one), (one + 1, one), (one, two), (two, one)):
        with pytest.raises(ValueError, match=r"not within|differ"):
            kernels.distinct_texts(data, begin, end, codes, first, 7)
        with pytest.raises(ValueError, match=r"not within|differ"):
            kernels.read_decimals(data, begin, end, 3, out)
    with pytest.raises(ValueError, match="digits"):
        kernels.read_decimals(data, one, one, 19, out)
    names = np.frombuffer(b"ab", np.uint8)
    for ends in ([2], [3], [2, 1], [0] * 200):
        with pytest.raises(ValueError, match=r"fit|differ"):
            kernels.walk_objects(b"{}", names, np.array(ends, np.int64), np.zeros((1, 2, 3), np.int32))
    places, lengths = np.zeros((2, 2, 3), np.int32), np.array([2], np.int64)
    for begin, end in ((one, one + 1), (one, one + 3), (one - 1, one + 1), (one, np.zeros(0, np.int32))):
        with pytest.raises(ValueError, match=r"not within|differ"):
            kernels.walk_arrays(b"[]", begin, end, names, lengths, places, np.zeros(3, np.int64))
    with pytest.raises(ValueError, match="differ"):
        kernels.walk_arrays(b"[]", one, one + 2, names, lengths, places, np.zeros(2, np.int64))


def test_interleave_refuses_wrong_arguments() -> None:
    out, ends, data, numbers = np.zeros(9, np.uint8), i64(0, 0), np.zeros(3, np.uint8), i64(0, 0)
    with pytest.raises(TypeError, match="3 for each column"):
        kernels.interleave(out, ends, data, numbers)
    with pytest.raises(TypeError, match="start: items of 8 bytes, not 1"):
        kernels.interleave(out, ends, data, data, numbers)
    for wrong in ((i64(0, 0, 0), i64(0, 0, 0)), (i64(0, 0), i64(0))):
        with pytest.raises(ValueError, match="lengths differ"):
            kernels.interleave(out, ends, data, numbers, numbers, data, *wrong)
    with pytest.raises((BufferError, ValueError)):
        kernels.interleave(b"readonly", ends, data, numbers, numbers)


def test_match_refuses_wrong_arguments() -> None:
    longs, bytes_, ints = np.zeros(1, np.int64), np.zeros(1, np.int8), np.zeros(1, np.int32)
    for match in (kernels.match, stand_in.match):
        for top, key, carried in ((longs - 1, np.zeros(2, np.int64), 0), (longs, longs, 0), (longs - 1, longs, 2)):
            with pytest.raises(ValueError, match="lengths differ, or a stack is not empty"):
                match(bytes_, ints, longs, longs, key.view(np.uint64), ints, top, longs, ints, longs, longs, bytes_,
                      bytes_, carried)  # fmt: skip


LISTED = (
    "int8", "int32", "int64", "int64", "int64", "int32", "int64", "int64", "int8", "int8", "int32", "int32", "int64",
    "uint64", "int64", "int64",
)  # fmt: skip
"""The types of the columns that `list_slices` takes for each row."""
FILLED = ("int64",) * 4 + ("int32", "int64") + ("int32",) * 4 + ("int64", "int64", "uint64")
"""The types of the columns that it fills."""


@given(
    rows=st.lists(
        st.tuples(
            st.integers(0, 6), st.integers(-1, 2), SPAN_TIMES, SPAN_TIMES | st.just(2**63 - 1), st.integers(-1, 2),
            st.integers(0, 3), st.integers(-1, 2), SPAN_TIMES, st.integers(0, 3), st.integers(0, 1), st.integers(-1, 3),
            st.integers(0, 3), st.integers(-1, 50), st.integers(0, 2**64 - 1), st.integers(0, 9), st.integers(-1, 9),
        ),
        max_size=12,
    ),
    carried=st.integers(0, 3),
    latest=SPAN_TIMES,
)  # fmt: skip
def test_list_slices(rows: list[tuple[int, ...]], carried: int, latest: int) -> None:
    carried = min(carried, len(rows))
    for place in (4, 6):  # parent and closer are rows
        rows = [(*row[:place], min(row[place], len(rows) - 1), *row[place + 1 :]) for row in rows]
    columns = [np.array([row[place] for row in rows], dtype) for place, dtype in enumerate(LISTED)]
    count = sum(row[0] in (SpanStep.BEGIN, SpanStep.COMPLETE) and not row[9] for row in rows)
    results = []
    for list_slices in (kernels.list_slices, stand_in.list_slices):
        ids, closing = columns[14].copy(), columns[15].copy()
        filled = tuple([np.empty(count, dtype) for dtype in FILLED])
        numbers = list_slices(tuple(columns[:14]), ids, closing, filled, carried, 100, latest)
        results.append((numbers, [column.tolist() for column in (ids, closing, *filled)]))
    assert results[0] == results[1]


def test_list_slices_refuses_wrong_arguments() -> None:
    for list_slices in (kernels.list_slices, stand_in.list_slices):
        for place, count, carried in ((0, 2, 0), (9, 2, 0), (15, 0, 0), (16, 1, 0), (28, 1, 0), (0, 1, 2)):
            columns = [np.zeros(1, dtype) for dtype in LISTED] + [np.zeros(0, dtype) for dtype in FILLED]
            columns[place] = np.zeros(count, columns[place].dtype)
            with pytest.raises(ValueError, match="lengths differ, or the spans are not as many as there is room for"):
                list_slices(tuple(columns[:14]), columns[14], columns[15], tuple(columns[16:]), carried, 0, 0)
        columns = [np.zeros(1, dtype) for dtype in LISTED] + [np.zeros(0, dtype) for dtype in FILLED]
        columns[0] = np.full(1, SpanStep.BEGIN, np.int8)
        with pytest.raises(ValueError, match="as many as there is room for"):
            list_slices(tuple(columns[:14]), columns[14], columns[15], tuple(columns[16:]), 0, 0, 0)
    with pytest.raises(TypeError, match="list_slices takes 14 columns"):
        kernels.list_slices((), columns[0], columns[0], (), 0, 0, 0)


def test_late_refuses_wrong_arguments() -> None:
    one, two = (np.zeros(number, np.uint64) for number in (1, 2))
    with pytest.raises(ValueError, match="lengths differ"):
        kernels.late(np.zeros(1, np.int32), two, one, np.zeros(1, np.int64))


def test_the_whole_reader_agrees_with_either(monkeypatch: pytest.MonkeyPatch, corpus: Any) -> None:
    """A trace of 35,000 records read with the kernels and with their stand-ins."""
    import fxtio

    data = (corpus / "fxt" / "magic-trace.fxt").read_bytes()
    with_c = list(fxtio.open(data))
    for name in ("walk", "gather", "walk_many"):
        monkeypatch.setattr(_native, name, getattr(stand_in, name))
    assert list(fxtio.open(data)) == with_c


# --- What C refuses -------------------------------------------------------------------------------------------------

RULES, TABLE = tables_of(ARGUMENTS)
FEW = u64([0x10] * 4)


def test_walk_refuses_wrong_arguments() -> None:
    with pytest.raises(ValueError, match="start is negative"):
        kernels.walk(FEW, -1, RULES, TABLE, *outputs(4))
    with pytest.raises(TypeError):
        kernels.walk(FEW, "0", RULES, TABLE, *outputs(4))
    with pytest.raises(TypeError, match="7 arguments"):
        kernels.walk(FEW, 0, RULES, TABLE)
    with pytest.raises(TypeError, match="words: items of 8 bytes, not 4"):
        kernels.walk(np.zeros(4, np.uint32), 0, RULES, TABLE, *outputs(4))
    with pytest.raises(ValueError, match="contiguous"):
        kernels.walk(FEW[::2], 0, RULES, TABLE, *outputs(4))
    fixed = np.zeros(4, np.int64)
    fixed.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        kernels.walk(FEW, 0, RULES, TABLE, fixed, *outputs(4)[1:])


@pytest.mark.parametrize(
    ("rules", "table"),
    [
        (RULES[:3], TABLE),
        (RULES[:0], TABLE),
        (RULES.reshape(-1)[:-1], TABLE),
        (RULES, TABLE[:-1]),
        (RULES, TABLE[:0]),
        (np.full_like(RULES, 64), TABLE),
        (np.full_like(RULES, 2**64 - 1), TABLE),
    ],
)
def test_tables_that_do_not_fit_are_refused(rules: Array, table: Array) -> None:
    with pytest.raises(ValueError, match="do not fit each other"):
        kernels.walk(FEW, 0, rules.copy(), table, *outputs(4))
    none = np.zeros(1, np.int64)
    with pytest.raises(ValueError, match="do not fit each other"):
        kernels.walk_many(FEW, none, none, none, rules.copy(), table, *outputs(4), none.copy(), none.copy())


def test_gather_refuses_wrong_lengths() -> None:
    out = np.zeros(2, np.uint64)
    with pytest.raises(ValueError, match="lengths differ"):
        kernels.gather(FEW, i64(1), 0, out)
    with pytest.raises(ValueError, match="lengths differ"):
        kernels.gather(FEW, i64(1, 2), i64(0), out)
    with pytest.raises(ValueError, match="no words"):
        kernels.gather(FEW[:0], i64(1, 2), 0, out)
    with pytest.raises(OverflowError):
        kernels.gather(FEW, i64(1, 2), 2**63, out)
    kernels.gather(FEW[:0], i64(), 0, out[:0])


def test_walk_many_refuses_wrong_lengths() -> None:
    single, pair = i64(0), i64(0, 0)
    with pytest.raises(ValueError, match="lengths differ"):
        kernels.walk_many(FEW, single, pair, single, RULES, TABLE, *outputs(4), single.copy(), single.copy())
    with pytest.raises(TypeError, match="11 arguments"):
        kernels.walk_many(FEW)


def test_walk_many_stays_within_its_output_and_its_words() -> None:
    filled = outputs(2)
    counted, after = i64(9), i64(9)
    assert kernels.walk_many(FEW, i64(0), i64(99), i64(9), RULES, TABLE, *filled, counted, after) == 2
    assert (counted.tolist(), after.tolist()) == ([2], [-1])
    filled = outputs(9)
    assert kernels.walk_many(FEW, i64(-3), i64(99), i64(9), RULES, TABLE, *filled, counted, after) == 0
    assert kernels.walk_many(FEW, i64(2), i64(99), i64(9), RULES, TABLE, *filled, counted, after) == 2
