"""Random damage of traces, such as transfers, crashes and broken disks cause it; every change follows from a seed."""

from __future__ import annotations

import random
from collections.abc import Callable

from support.limits import EXTREME_NUMBERS


def flip_bit(data: bytes, draw: random.Random) -> bytes:
    """Return the data with a bit flipped."""
    at = draw.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << draw.randrange(8)]) + data[at + 1 :]


def change_byte(data: bytes, draw: random.Random) -> bytes:
    """Return the data with a byte replaced, often by one that has a meaning in text."""
    at = draw.randrange(len(data))
    return data[:at] + bytes([draw.choice([0, 9, 10, 13, 32, 255, draw.randrange(256)])]) + data[at + 1 :]


def change_number(data: bytes, draw: random.Random) -> bytes:
    """Return the data with eight bytes replaced by an extreme number."""
    at = draw.randrange(len(data)) // 8 * 8
    number = draw.choice(EXTREME_NUMBERS)
    return data[:at] + (number.to_bytes(8) if draw.randrange(2) else number.to_bytes(8, "little")) + data[at + 8 :]


def cut(data: bytes, draw: random.Random) -> bytes:
    """Return the beginning of the data."""
    return data[: draw.randrange(len(data))]


def drop(data: bytes, draw: random.Random) -> bytes:
    """Return the data without a range."""
    at = draw.randrange(len(data))
    return data[:at] + data[at + _length(draw) :]


def insert(data: bytes, draw: random.Random) -> bytes:
    """Return the data with random bytes, or zeros, inserted."""
    at = draw.randrange(len(data) + 1)
    size = _length(draw)
    return data[:at] + draw.choice([bytes(size), draw.randbytes(size)]) + data[at:]


def duplicate(data: bytes, draw: random.Random) -> bytes:
    """Return the data with a range repeated."""
    at = draw.randrange(len(data))
    return data[:at] + data[at : at + _length(draw)] + data[at:]


def append(data: bytes, draw: random.Random) -> bytes:
    """Return the data with random bytes, or zeros, at its end."""
    size = _length(draw)
    return data + draw.choice([bytes(size), draw.randbytes(size)])


def convert_line_ends(data: bytes, draw: random.Random) -> bytes:
    """Return the data as a transfer in text mode changes it."""
    old, new = draw.choice([(b"\n", b"\r\n"), (b"\r\n", b"\n"), (b"\n", b"\r"), (b"\r", b"\n")])
    return data.replace(old, new)


def garble(data: bytes, draw: random.Random) -> bytes:
    """Return the data with several kinds of damage."""
    for _ in range(3):
        data = draw.choice(_SINGLE)(data, draw) if data else data
    return data


def _length(draw: random.Random) -> int:
    return draw.choice([1, 2, 7, 8, 16, draw.randrange(1, 100)])


Damage = Callable[[bytes, random.Random], bytes]

_SINGLE: tuple[Damage, ...] = (
    flip_bit,
    change_byte,
    change_number,
    cut,
    drop,
    insert,
    duplicate,
    append,
    convert_line_ends,
)

Files = dict[str, bytes]


def remove_file(files: Files, draw: random.Random) -> Files:
    """Return the files without one of them."""
    missing = draw.choice(list(files))
    return {name: content for name, content in files.items() if name != missing}


def add_file(files: Files, draw: random.Random) -> Files:
    """Return the files with a further one, which has the content of another or a random one, and a name like others."""
    content = draw.choice([*files.values(), b"", draw.randbytes(100)])
    other = draw.choice(list(files))
    name = draw.choice([f"new-{other}", f"{draw.randrange(10**6)}.dat", f"perf-cpu{draw.randrange(99)}.dat", "new.txt"])
    return files | {name: content}


def swap_files(files: Files, draw: random.Random) -> Files:
    """Return the files with the contents of two of them exchanged."""
    first, second = draw.sample(list(files), 2)
    return files | {first: files[second], second: files[first]}


def rename_file(files: Files, draw: random.Random) -> Files:
    """Return the files with another name for one of them."""
    old = draw.choice(list(files))
    new = draw.choice([f"{old}.old", old.upper(), f"{draw.randrange(10**6)}.dat"])
    return {new if name == old else name: content for name, content in files.items()}


DIRECTORY_DAMAGE: dict[str, Callable[[Files, random.Random], Files]] = {
    change.__name__: change for change in (remove_file, add_file, swap_files, rename_file)
}
"""All kinds of damage of the files of a directory, by name.  They take at least two files, and a random generator."""

DAMAGE: dict[str, Damage] = {change.__name__: change for change in (*_SINGLE, garble)}
"""All kinds of damage by name.  They take data of at least one byte, and a random generator."""
