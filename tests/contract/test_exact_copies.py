"""A copy of any readable trace has the same bytes, however damaged it is; so have its raw records, put one by one."""

from __future__ import annotations

import gzip
import io
import lzma
import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import settings

import fxtio
from contract.damage import DAMAGE, DIRECTORY_DAMAGE, cut, flip_bit
from contract.samples import SAMPLES, Sample, files_of, same_style
from fxtio.formats import formats
from fxtio.io.source import open_source
from support.limits import processor_seconds

LONGEST = 1 << 15
"""The number of bytes of a sample that are damaged and copied; the records after them are of the same kinds."""

FILES = [name for name, item in formats().items() if not item.directory]
DIRECTORIES = [name for name, item in formats().items() if item.directory]

LONGEST_SECONDS = 5
"""The processor time in seconds that reading and copying a damaged trace may take."""

COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "xz": lzma.compress,
    "zstd": zstandard.ZstdCompressor().compress,
}

ROUNDS = 60 + settings().max_examples
"""The number of damaged traces of each format and test: 80 in the brief profile."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("copies")


def samples_of(name: str, folder: Path) -> dict[str, Path]:
    """Return the samples of a format, by name; synthetic ones are written below `folder`."""
    return {str(sample): _made(sample, folder / str(sample)) for sample in SAMPLES if sample.format.name == name}


def _made(sample: Sample, folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return sample.make(folder)


def content_of(target: Path | bytes, longest: int = LONGEST) -> bytes:
    """Return the decompressed bytes of a file, as far as they can be read and are not too many."""
    data = bytearray(longest)
    source = open_source(target)
    size = source.readinto(memoryview(data))
    source.close()
    return bytes(data[:size])


def copied(name: str, data: bytes) -> bytes:
    """Return the bytes of the copy of a trace."""
    out = io.BytesIO()
    with fxtio.open(data, format=name) as trace, fxtio.create(out, format=name) as writer:
        writer.copy(trace)
    return out.getvalue()


def put_again(name: str, data: bytes) -> bytes:
    """Return the bytes of the raw records of a trace, put one by one; nothing if it has no records."""
    out = io.BytesIO()
    with fxtio.open(data, format=name) as trace:
        records = list(trace.records(resolve=False))
        with fxtio.create(out, format=name, **same_style(trace)) as writer:
            for record in records:
                writer.put(record)
    return out.getvalue() if records else b""


def damaged(data: bytes, first: int, number: int) -> Iterator[tuple[str, bytes]]:
    """Yield this many damaged versions of some bytes, one for each seed from `first` on, each with a description."""
    for seed in range(first, first + number):
        kind, damage = list(DAMAGE.items())[seed % len(DAMAGE)]
        yield f"{kind}, seed {seed}", damage(data, random.Random(seed))


def check_all(name: str, folder: Path, copy: Callable[[bytes], bytes]) -> None:
    """Check that `copy` gives the same bytes for damaged traces of a format; those in which it fails are listed."""
    wrong, number, seed = [], 0, 0
    samples = samples_of(name, folder)
    each = max(ROUNDS // len(samples), 1)
    for sample, path in samples.items():
        for label, data in damaged(content_of(path), seed, each):
            seed, number = seed + 1, number + 1
            if text := difference(data, partial(copy, data)):
                wrong.append(f"{sample}, {label}: {text}")
    report(wrong, number)


def report(wrong: list[str], number: int) -> None:
    """Fail if something is wrong, and show its beginning."""
    assert not wrong, f"{len(wrong)} of {number} differ:\n" + "\n".join(wrong[:8])


def difference(expected: Any, make: Callable[[], Any]) -> str:
    """Describe where bytes, or files by name, differ from the expected ones; return nothing if they do not."""
    try:
        with processor_seconds(LONGEST_SECONDS):
            actual = make()
    except Exception as error:  # noqa: BLE001  # a failure of this trace; the others are tried, too
        return repr(error)[:200]
    if actual == expected:
        return ""
    if isinstance(expected, dict):
        name = next(name for name in expected.keys() | actual.keys() if expected.get(name) != actual.get(name))
        return f"{name!r} {_first_difference(expected.get(name, b''), actual.get(name, b''))}"
    return _first_difference(expected, actual)


def _first_difference(expected: bytes, actual: bytes) -> str:
    pairs = enumerate(zip(expected, actual, strict=False))
    at = next((at for at, (one, other) in pairs if one != other), min(len(expected), len(actual)))
    return f"from byte {at}: {expected[at : at + 24]!r} became {actual[at : at + 24]!r}"


@pytest.mark.full
@pytest.mark.parametrize("name", FILES)
def test_damaged_files_are_copied_exactly(name: str, folder: Path) -> None:
    check_all(name, folder, partial(copied, name))


@pytest.mark.full
@pytest.mark.parametrize("name", FILES)
def test_raw_records_of_damaged_files_are_the_same_bytes(name: str, folder: Path) -> None:
    check_all(name, folder, partial(put_again, name))


@pytest.mark.full
@pytest.mark.parametrize("name", DIRECTORIES)
def test_damaged_directories_are_copied_exactly(name: str, folder: Path) -> None:
    wrong, seed = [], 0
    samples = samples_of(name, folder)
    for sample, path in samples.items():
        files = files_of(path)
        for _ in range(max(ROUNDS // len(samples), 1)):
            label, changed = damaged_directory(files, seed)
            path = write_files(changed, folder / f"damaged-{seed}")
            if text := difference(changed, partial(copied_directory, name, path, folder / f"copy-{seed}")):
                wrong.append(f"{sample}, {label}: {text}")
            seed += 1
    report(wrong, seed)


def damaged_directory(files: dict[str, bytes], seed: int) -> tuple[str, dict[str, bytes]]:
    """Return damaged files and a description: the content of one is changed, or one is missing, new or renamed."""
    draw = random.Random(seed)
    if seed % 2:
        kind, damage = list(DIRECTORY_DAMAGE.items())[seed // 2 % len(DIRECTORY_DAMAGE)]
        return f"{kind}, seed {seed}", damage(files, draw)
    chosen = draw.choice([file for file, content in files.items() if content])
    [(label, content)] = damaged(files[chosen], seed // 2, 1)
    return f"{chosen}, {label}", files | {chosen: content}


def copied_directory(name: str, path: Path, target: Path) -> dict[str, bytes]:
    """Return the files of the copy of a trace."""
    with fxtio.open(path, format=name) as trace, fxtio.create(target, format=name) as writer:
        writer.copy(trace)
    return files_of(target)


def write_files(files: dict[str, bytes], folder: Path) -> Path:
    """Write files, given by their paths, below a new folder, and return the folder."""
    folder.mkdir()
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


@pytest.mark.parametrize("name", FILES)
def test_damaged_compressed_files_are_copied_as_far_as_they_can_be_read(name: str, folder: Path) -> None:
    content = content_of(next(iter(samples_of(name, folder).values())))
    wrong, number = [], 0
    for kind, compress in COMPRESS.items():
        packed = compress(content)
        magic, rest = packed[:20], packed[20:]
        for seed in range(ROUNDS // 10):
            draw = random.Random(seed)
            data = magic + draw.choice([cut, flip_bit])(rest, draw)
            if expected := content_of(data, 2 * len(content) + LONGEST):  # damage may add some
                number += 1
                if text := difference(expected, partial(copied, name, data)):
                    wrong.append(f"{kind}, seed {seed}: {text}")
    assert number > ROUNDS // 10
    report(wrong, number)
