"""DCPI: the samples of an image with functions, some of them hot; and all words of a header and kinds of chunks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from fxtio.arrays import Array
from fxtio.dcpi.layout import KEYWORDS, MAX_COUNT, STEP
from fxtio.dcpi.records import MAX_COUNTS, Line
from fxtio.dcpi.writer import DcpiWriter, Value
from fxtio.errors import FxtioError
from fxtio.synth.columns import Amount, Draw

HEADER: dict[str, Value] = {
    "version": "pdb-0.07",
    "image": "199706011200000a1b2c",
    "epoch": "9706011230",
    "platform": "synthetic.example",
    "event": "cycles",
    "period": 62000,
    "tstart": 0x120000000,
    "cpuspeed": 333,
    "path": "/synthetic/image",
    "label": "written by fxtio synth, never measured",
}
"""The lines of the header, without the size of the text."""

_FUNCTIONS_AT_ONCE = 64
_HOTTEST, _RANKS = 3_000, 400
_BYTES = 5.5  # of the file for each address with samples


def write(target: Any, amount: Amount) -> tuple[int, int]:
    """Write the samples of functions, of which few are hot: those of rank N have an Nth of the samples.

    The profile is generated twice, since its header has its end; events are addresses with samples.
    """
    goal = amount.goal if amount.size is None else max(int(amount.size / _BYTES), 1)
    end = 0
    for offset, _ in _samples(goal, amount.seed):
        if (end := int(offset[-1]) + STEP) > MAX_COUNT:
            raise FxtioError(f"{goal:,} addresses are farther apart than a profile can express")
    done = 0
    with DcpiWriter(target, header={**HEADER, "tsize": end}) as writer:
        for offset, count in _samples(goal, amount.seed):
            done += writer.write_table("samples", {"text_offset": offset, "count": count})
            amount.left(done, writer.position)
    return done, writer.position


def _samples(goal: int, seed: int) -> Iterator[tuple[Array, Array]]:
    """Yield offsets and counts in batches."""
    draw, at, done = Draw(np.random.PCG64(seed)), 0, 0
    while done < goal:
        sizes = 8 + draw.below(48, _FUNCTIONS_AT_ONCE) * (1 + draw.below(9, _FUNCTIONS_AT_ONCE))
        heats = _HOTTEST // (1 + draw.below(_RANKS, _FUNCTIONS_AT_ONCE))
        functions = zip(sizes.tolist(), heats.tolist(), strict=True)
        counts = np.concatenate([_function(draw, size, heat) for size, heat in functions])
        rows = np.flatnonzero(counts)[: goal - done]
        if len(rows):
            yield at + rows * STEP, counts[rows]
        done += len(rows)
        at += len(counts) * STEP


def _function(draw: Draw, size: int, heat: int) -> Array:
    """Return the samples at the instructions of a function: most are in a loop, and where it waits for a load.

    Two instructions that are issued together get the samples of the first, so every other one often has none.
    """
    counts: Array = draw.below(64, size) * heat // 2_000
    begin = int(draw.below(size, 1)[0])
    loop = slice(begin, begin + size // 3)
    counts[loop] += heat // 8
    counts[loop] *= 1 + (draw.below(7, size)[loop] == 0) * 5
    paired = (draw.below(3, size) == 0) & (np.arange(size) % 2 == 1)
    counts[paired] = 0
    return counts


# ---- everything

_VALUES = {
    "image": ("199706011200000a1b2c",),
    "epoch": ("9706011230", "199706011230", "19970601123015"),
    "platform": ("host with\tblanks ",),
    "event": ("retires^!notrap:m0count",),
    "period": ("62000",),
    "tstart": ("fffffc0000230000", "120000000"),
    "cpuspeed": ("0",),
    "cpuamask": ("30F",),
    "cpuimplv": ("2",),
    "cpucount": ("32",),
    "path": ("/synthetic/image", "/synthetic/linked image"),
}
"""Values of the known words, without the version and the size of the text; a seed picks one unless a word repeats."""

_UNKNOWN = (Line("label", "written by fxtio synth, never measured"), Line("later:word", "pdb 2.0", "\t \t"))

_EVERYTHING_BYTES = 9.3  # of the file for each address with samples


def everything(target: Any, amount: Amount, options: dict[str, Any]) -> tuple[int, int]:
    """Write lines of all words that a header can have, and whole rounds of chunks of every kind."""
    goal = amount.goal if amount.size is None else max(int((amount.size - STEP * MAX_COUNTS) / _EVERYTHING_BYTES), 1)
    end = 0
    for offset, counts in _chunks(goal, amount.seed):
        if (end := offset + STEP * len(counts)) > MAX_COUNT:
            raise FxtioError(f"{goal:,} addresses are farther apart than a profile can express")
    done = 0
    with DcpiWriter(target, header=_header(amount.seed, end), **options) as writer:
        for offset, counts in _chunks(goal, amount.seed):
            writer.chunk(offset, counts)
            done += sum(count > 0 for count in counts)
            amount.left(done, writer.position)
    return done, writer.position


def _header(seed: int, text_size: int) -> list[Line]:
    """Return a header with a line of every known word, and with some of unknown words."""
    values = {word: list(texts) for word, texts in _VALUES.items()}
    values |= {"version": [f"pdb-0.0{6 + seed % 2}"], "tsize": [str(text_size)]}
    lines = []
    for at, keyword in enumerate(KEYWORDS.values()):
        texts = values[keyword.name]
        chosen = texts if keyword.repeats else [texts[seed % len(texts)]]
        lines += [Line(keyword.name, text, " \t"[at % 2] * (1 + at % 3)) for text in chosen]
    return [*lines, *_UNKNOWN]


def _chunks(goal: int, seed: int) -> Iterator[tuple[int, list[int]]]:
    """Yield chunks until this many addresses have samples: the offset in the text, and the counts.

    The last chunk is longer than a record.
    """
    bits = np.random.PCG64(seed)
    at = done = 0
    while done < goal:
        for gap, counts in _round(bits):
            if done == 0:
                counts[-1] = MAX_COUNT // 2
            at += gap * STEP
            yield at, counts
            at += len(counts) * STEP
            done += sum(count > 0 for count in counts)
    yield at + STEP, [0] * MAX_COUNTS + [1, 0]


def _round(bits: np.random.PCG64) -> list[tuple[int, list[int]]]:
    """Return the chunks of a round: the addresses left out before each, and its counts."""
    numbers = [1 + count % 50 for count in bits.random_raw(8).tolist()]
    return [
        (0, numbers[:1]),  # begins where the chunk before it ends
        (0, numbers[1:4]),
        (1, [numbers[4], 0, numbers[5]]),
        (2, [0, numbers[6], 0]),
        (3, [0, 0]),
        (numbers[7], [0, 0, numbers[7]]),
        (1000 * numbers[7], numbers),
    ]
