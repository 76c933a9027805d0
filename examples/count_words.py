"""Count the words of the text files in a folder, several files at once.

A program without a word about fxtio, to be recorded as it is:

    fxtio run -o words.fxt examples/count_words.py docs
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SUFFIXES = (".md", ".rst", ".txt")
THREADS = 3
SHOWN = 3


def text_files(folder: Path) -> list[Path]:
    """Return the text files in a folder and in the folders within it."""
    return [path for path in sorted(folder.rglob("*")) if path.suffix in SUFFIXES]


def words(paragraph: str) -> list[str]:
    """Return the words of a paragraph that have more than four letters."""
    return re.findall(r"[a-z]{5,}", paragraph.lower())


def count_file(path: Path) -> Counter[str]:
    """Return how often each word occurs in a file."""
    counts: Counter[str] = Counter()
    for paragraph in path.read_text(encoding="utf-8").split("\n\n"):
        counts.update(words(paragraph))
    return counts


def total(parts: Iterator[Counter[str]]) -> Counter[str]:
    """Return the sum of the counts of all files."""
    counts: Counter[str] = Counter()
    for part in parts:
        counts.update(part)
    return counts


def main(folder: str) -> None:
    """Print the most frequent words of a folder."""
    files = text_files(Path(folder))
    with ThreadPoolExecutor(THREADS, "counter") as pool:
        counts = total(pool.map(count_file, files))
    print(f"{counts.total():,} words in {len(files):,} files")
    for word, count in counts.most_common(SHOWN):
        print(f"{count:>6,}  {word}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else ".")
