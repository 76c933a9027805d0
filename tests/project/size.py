"""Print how large the package is, and how many modules name a format or a record: `python tests/project/size.py`."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1]))
from contract.test_completeness import all_classes
from fxtio.formats import formats
from support.checkout import PACKAGE

WORD = re.compile(r"\w+")


def lines_of(paths: Iterable[Path]) -> int:
    """Return the number of lines of some files."""
    return sum(len(path.read_text("utf-8").splitlines()) for path in paths)


def files_that_name(words: set[str], paths: Iterable[Path]) -> Counter[str]:
    """Return for each word the number of files that have it."""
    return Counter(word for path in paths for word in words & {*WORD.findall(path.read_text("utf-8"))})


def main() -> None:
    """Print the counts."""
    modules = [*PACKAGE.rglob("*.py")]
    native = [*PACKAGE.rglob("*.[ch]")]
    print(f"{lines_of(modules):,} lines of Python in {len(modules)} modules")
    print(f"{lines_of(native):,} lines of C in {len(native)} files")
    for folder in sorted({path.relative_to(PACKAGE).parts[0] for path in modules if path.parent != PACKAGE}):
        mine = [path for path in modules if folder in path.relative_to(PACKAGE).parts[:-1]]
        longest = max(lines_of([path]) for path in mine)
        print(f"  {folder:14} {lines_of(mine):7,} in {len(mine):3}, the longest {longest:4,}")
    for name, item in formats().items():
        others = [path for path in modules if PACKAGE / name not in path.parents]
        counts = files_that_name(all_classes(name), modules)
        print(
            f"{item.title}: {files_that_name({name}, others)[name]} modules outside of its package name it; "
            f"{median(counts.values()):.0f} modules name one of its records, {max(counts.values())} at most"
        )


if __name__ == "__main__":
    main()
