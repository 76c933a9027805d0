"""Numbers that refer to something, compared with plain Python."""

from __future__ import annotations

import random

import numpy as np
import pytest

from fxtio import references
from fxtio.finding import Findings

pytestmark = pytest.mark.once


def test_sets_of_numbers() -> None:
    """They are as sets of Python, until they are full."""
    draw, numbers, expected = random.Random(5), references.Numbers(), set[int]()
    for _ in range(40):
        values = [draw.choice([draw.randrange(30), 2**64 - 1 - draw.randrange(3)]) for _ in range(draw.randrange(9))]
        if draw.random() < 0.6:
            numbers.add(np.array(values, np.uint64))
            expected.update(values)
        else:
            numbers.remove(np.array(values, np.uint64))
            expected.difference_update(values)
        asked = [*range(31), *range(2**64 - 5, 2**64)]
        assert numbers.has(np.array(asked, np.uint64)).tolist() == [number in expected for number in asked]
    few = references.Numbers(3)
    few.add(np.arange(100, 110, dtype=np.uint64))
    assert few.is_full
    assert few.has(np.array([1_000], np.uint64)).all()


def test_references() -> None:
    """What is used before its definition, and what has none, is told once, wherever batches end."""
    draw = random.Random(7)
    for size in (1, 3, 50):
        findings, offset = Findings("test"), 0
        kind = references.Kind("number", (True,), (False,), "undefined", "late", ignored=(9,))
        names = references.References([kind], findings)
        defined, undefined, late = set[int](), dict[int, int](), []
        while offset < 200:
            batch: dict[bool, list[tuple[int, int]]] = {True: [], False: []}
            for _ in range(size):
                number, defines, offset = draw.randrange(60), draw.random() < 0.4, offset + 1
                batch[defines].append((number, offset))
                if defines and number in undefined:
                    late.append(undefined.pop(number))
                if defines:
                    defined.add(number)
                elif number not in defined and number != 9:
                    undefined.setdefault(number, offset)
            columns = {defines: np.array(rows, np.int64).reshape(-1, 2).T for defines, rows in batch.items()}
            names.add({each: (rows[0].astype(np.uint64), rows[1]) for each, rows in columns.items()}.get)
        names.finish()
        expected = {"test.late": sorted(late), "test.undefined": sorted(undefined.values())}
        found = {rule: [each.offset for each in findings if each.rule == rule] for rule in expected}
        assert found == expected


def test_what_is_used_again_takes_no_room() -> None:
    """A number that is remembered already does not stand in the way of another one of the same batch."""
    findings = Findings("test")
    names = references.References([references.Kind("number", (), (False,), "undefined")], findings, most_undefined=3)
    offsets = iter(range(10))
    for batch in ([1, 2], [1, 2, 9], [9]):
        columns = np.array(batch, np.uint64), np.array([next(offsets) for _ in batch], np.int64)
        names.add({False: columns}.get)
    names.finish()
    assert [(finding.message, finding.offset) for finding in findings] == [
        ("number 0x1 is never defined", 0), ("number 0x2 is never defined", 1), ("number 0x9 is never defined", 4),
    ]  # fmt: skip


def test_the_value_before() -> None:
    draw, before, last = random.Random(3), references.LastOfEach(5), dict[int, int]()
    roomy = references.LastOfEach(7)
    for _ in range(20):
        rows = [(draw.randrange(7), draw.randrange(100)) for _ in range(draw.randrange(6))]
        expected = []
        for key, value in rows:
            expected.append(last.get(key, -1))
            last[key] = value
        keys, values = (np.array([row[place] for row in rows], np.int64) for place in (0, 1))
        assert roomy.before(keys, values, -1).tolist() == expected
        known = before.before(keys, values, -1).tolist()
        assert all(each in (right, -1) for each, right in zip(known, expected, strict=True))
        assert len(before._last) <= 5
