"""The programs that are traced: `fib`, which does nothing but call, and `real`, a mix of standard library work.

python benchmarks/tracer_workload.py 20        # `real` this many times
python benchmarks/tracer_workload.py fib 20    # `fib` of this number
"""

from __future__ import annotations

import ast
import dataclasses
import json
import re
import sys
import textwrap
from pathlib import Path, PurePosixPath

SOURCE = Path(__file__).read_text(encoding="utf-8")


@dataclasses.dataclass
class Order:
    number: int
    customer: str
    lines: list[str]


def fib(number: int) -> int:
    return number if number < 2 else fib(number - 1) + fib(number - 2)


class Names(ast.NodeVisitor):
    def __init__(self) -> None:
        self.found: set[str] = set()

    def visit_Name(self, node: ast.Name) -> None:
        self.found.add(node.id)


def texts() -> int:
    orders = [Order(number, f"customer {number % 7}", [f"line {line}" for line in range(4)]) for number in range(60)]
    written = json.dumps([dataclasses.asdict(order) for order in orders], indent=1, sort_keys=True)
    wrapped = textwrap.fill(textwrap.dedent(SOURCE), 72)
    return len(json.loads(written)) + len(textwrap.indent(wrapped, "    "))


def patterns() -> int:
    re.purge()
    count = 0
    for word in ("def", "class", "return", "import", "for"):
        count += len(
            re.findall(rf"\b{word}\s+(?P<name>[A-Za-z_]\w*)(?:\[[^\]]*\])?\s*(?=[(:,]|$)", SOURCE, re.MULTILINE)
        )
    return count


def paths() -> int:
    here = PurePosixPath("/srv/app")
    total = 0
    for number in range(120):
        path = here / "data" / f"part-{number}.tar.gz"
        total += len(path.with_suffix(".json").relative_to(here).parts) + path.is_relative_to("/srv") + len(path.name)
    return total


def syntax() -> int:
    tree = ast.parse(SOURCE)
    names = Names()
    names.visit(tree)
    return len(ast.unparse(tree)) + len(names.found) + sum(1 for _ in ast.walk(tree))


def real() -> int:
    return texts() + patterns() + paths() + syntax()


if __name__ == "__main__":
    if sys.argv[1] == "fib":
        fib(int(sys.argv[2]))
    else:
        for _ in range(int(sys.argv[1])):
            real()
