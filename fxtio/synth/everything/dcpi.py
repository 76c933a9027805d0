"""DCPI: lines of all words that a header can have, and chunks of every kind in small rounds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from fxtio.dcpi.layout import KEYWORDS, MAX_COUNT, STEP
from fxtio.dcpi.records import MAX_COUNTS, Line
from fxtio.dcpi.writer import DcpiWriter
from fxtio.errors import FxtioError
from fxtio.synth.columns import Amount

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


_BYTES = 9.3  # of the file for each address with samples


def write(target: Any, amount: Amount, options: dict[str, Any]) -> tuple[int, int]:
    """Write whole rounds of chunks until there are enough addresses with samples.

    Args:
        target: see `fxtio.create`.
        amount: the amount.
        options: none; the header is a part of what is made up.

    Returns:
        The number of addresses and of bytes.

    Raises:
        FxtioError: no profile reaches as far.
        OSError: the target cannot be written.
    """
    goal = amount.goal if amount.size is None else max(int((amount.size - STEP * MAX_COUNTS) / _BYTES), 1)
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
    """Yield chunks until so many addresses have samples: the offset in the text, and the counts.

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
