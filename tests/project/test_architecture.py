"""The architecture: imports go down only and are cheap, bit positions are in layouts, files and functions are short.

Every check is a function that takes a source tree and returns messages. So each check is itself tested on a tree that
breaks its rule.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from support.checkout import CHECKOUT, PACKAGE, run_python

# The rooms of formats that describe traces to people. They stand right below the commands, and only these use them.
DESCRIBING = "*.report"


def floors() -> tuple[tuple[str, ...], ...]:
    """Return the rooms of each layer, from the ground up, as the table in `architecture.md` has them.

    A room may import what is on a line above its own, and itself; rooms on one line do not know each other.  "" is
    the front door, fxtio/__init__.py.
    """
    text = (CHECKOUT / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")
    table = text.partition("## Layers")[2].partition("## ")[0]
    lines = re.findall(r"^\| (`[^|]*`) \|", table, re.MULTILINE)
    return tuple(tuple("" if room == "fxtio" else room for room in re.findall(r"`([^`]+)`", line)) for line in lines)


FLOORS = floors()

# Rooms that may import less than their floor allows, as prefixes of module names.
ONLY: dict[str, tuple[str, ...]] = {
    "_native": ("arrays",),
    "tracer": (
        "codec",
        "errors",
        "labels",
        "shared_folders",
        "noop",
        "_native",
        "fxt.constants",
        "fxt.layout",
        "fxt.numbers",
        "fxt.enums",
        "fxt.live_file",
        "io.sink",
        "exchange.convert",  # for a trace with an unusual name
    ),
}

# What a room may not import although it is no part of fxtio: a traced program pays for it at its start.
NOT_IN: dict[str, frozenset[str]] = {"tracer": frozenset({"numpy", "rich", "argparse"})}

ONLY_MAIN_IMPORTS = "cli"

MAX_MODULE_LINES = 700
MAX_TEST_LINES = 800
MAX_FUNCTION_LINES = 60


def module_name(package: Path, path: Path) -> str:
    """Return the dotted name of the module below the package: `fxt.layout`, and empty for the front door."""
    parts = path.relative_to(package).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def sources(package: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted(package.rglob("*.py")):
        yield module_name(package, path), path


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Return all nodes of the syntax tree of a file; several tests look at them."""
    return tuple(ast.walk(ast.parse(path.read_bytes(), str(path))))


def is_module(package: Path, name: str) -> bool:
    path = package.joinpath(*name.split("."))
    return path.with_suffix(".py").is_file() or path.is_dir()


def imported(package: Path, path: Path, node: ast.AST) -> list[str]:
    """Return the full names of the modules that a node imports; `from a import b` gives `a.b` if that is a module."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        return [str(node.args[0].value)] if called in {"import_module", "__import__"} else []
    if not isinstance(node, ast.ImportFrom):
        return []
    base = node.module or ""
    if node.level:
        here = ("fxtio", *path.relative_to(package).parts[:-1])
        base = ".".join((*here[: len(here) - node.level + 1], *filter(None, [base])))
    names = []
    for alias in node.names:
        below = f"{base}.{alias.name}"
        names.append(below if below.startswith("fxtio.") and is_module(package, below[6:]) else base)
    return names


def room_of(name: str) -> str:
    """Return the room of a module that is named below fxtio."""
    room, _, module = name.partition(".")
    return DESCRIBING if module == "report" and room != "cli" else room


def wrong_import(importer: str, target: str) -> str | None:
    """Return why the module `importer` may not import `target` (both named below fxtio), or None."""
    floor_of = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
    room, other = room_of(importer), room_of(target)
    if room not in floor_of or other not in floor_of:
        unknown = room if room not in floor_of else other
        return f"the room {unknown!r} is on no floor; give it one in FLOORS"
    if room == other:
        return None
    if room in ONLY and not any(f"{target}.".startswith(f"{name}.") for name in ONLY[room]):
        return f"{room} may import only {', '.join(ONLY[room]) or 'nothing of fxtio'}"
    if other == ONLY_MAIN_IMPORTS and room != "__main__":
        return "nothing but __main__ imports cli"
    if floor_of[other] >= floor_of[room]:
        return "imports go down only"
    if room == DESCRIBING and floor_of[other] == floor_of["fxt"] and other != importer.partition(".")[0]:
        return "no format knows another"
    return None


def wrong_imports(package: Path) -> list[str]:
    problems = []
    for importer, path in sources(package):
        banned = NOT_IN.get(importer.partition(".")[0], frozenset())
        for node in nodes(path):
            for name in imported(package, path, node):
                head, _, target = name.partition(".")
                why = wrong_import(importer, target) if head == "fxtio" else None
                if head in banned:
                    why = f"{importer.partition('.')[0]} never imports {head}"
                if why:
                    problems.append(f"{path.relative_to(package)}:{getattr(node, 'lineno', 0)} imports {name}: {why}")
    return problems


def type_checking_only(path: Path) -> set[ast.AST]:
    """Return the nodes of a module that only type checkers look at."""
    guarded = [
        node
        for node in nodes(path)
        if isinstance(node, ast.If)
        and any("TYPE_CHECKING" in (getattr(part, "id", ""), getattr(part, "attr", "")) for part in ast.walk(node.test))
    ]
    return {inner for node in guarded for statement in node.body for inner in ast.walk(statement)}


def circles(package: Path) -> list[str]:
    """Return groups of modules that import each other, within functions too; imports for type checkers do not count."""
    imports: dict[str, set[str]] = {}
    for importer, path in sources(package):
        ignored = type_checking_only(path)
        names = (name for node in nodes(path) if node not in ignored for name in imported(package, path, node))
        imports[importer] = {name.partition(".")[2] for name in names if name.partition(".")[0] == "fxtio"}
    reached = {name: reachable(name, imports) for name in imports}
    groups = {
        tuple(sorted(other for other in imports if name in reached[other] and other in reached[name]))
        for name in imports
        if name in reached[name]
    }
    return [" and ".join(group) for group in sorted(groups)]


def reachable(start: str, imports: dict[str, set[str]]) -> set[str]:
    """Return the modules that a module imports, directly or through others."""
    result: set[str] = set()
    waiting = [start]
    while waiting:
        for name in imports.get(waiting.pop(), set()) - result:
            result.add(name)
            waiting.append(name)
    return result


def is_literal(node: ast.AST) -> bool:
    """Return whether the expression consists of integer literals only, as `0xF`, `~7` and `1 << 5` are."""
    if isinstance(node, ast.UnaryOp):
        return is_literal(node.operand)
    if isinstance(node, ast.BinOp):
        return is_literal(node.left) and is_literal(node.right)
    return isinstance(node, ast.Constant) and type(node.value) is int


def knows_bits(operation: ast.operator, left: ast.AST, right: ast.AST) -> bool:
    """Return whether this is a shift by a literal or a mask with a literal.

    A power of two, `1 << n`, is a size or a limit as `2**n` is.
    """
    if isinstance(operation, ast.LShift) and isinstance(left, ast.Constant) and left.value == 1:
        return False
    bitwise = ast.LShift | ast.RShift | ast.BitAnd | ast.BitOr | ast.BitXor
    return isinstance(operation, bitwise) and (is_literal(left) or is_literal(right))


def bits_outside_layouts(package: Path) -> list[str]:
    """Return the operations with bit numbers outside of layout modules."""
    problems = []
    for name, path in sources(package):
        if name.startswith(("codec.", "_native.", "codec.stream.")) or path.name == "layout.py":
            continue
        for node in nodes(path):
            if isinstance(node, ast.BinOp):
                bad = knows_bits(node.op, node.left, node.right)
            elif isinstance(node, ast.AugAssign):
                bad = knows_bits(node.op, node.target, node.value)
            else:
                continue
            if bad:
                problems.append(f"{path.relative_to(package)}:{node.lineno}: {ast.unparse(node)}")
    return problems


def too_long(root: Path, most: int) -> list[str]:
    problems = []
    for path in sorted(file for suffix in ("py", "c", "h") for file in root.rglob(f"*.{suffix}")):
        text = path.read_text(encoding="utf-8")
        if (lines := text.count("\n")) > most:
            problems.append(f"{path.relative_to(root)}: {lines} lines, {most} at most")
        if path.suffix != ".py":
            continue
        for node in nodes(path):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > MAX_FUNCTION_LINES:
                    where = f"{path.relative_to(root)}:{node.lineno} {node.name}"
                    problems.append(f"{where}: {lines} lines, {MAX_FUNCTION_LINES} at most")
    return problems


def wrong_includes(folder: Path) -> list[str]:
    """Return what is wrong with the modules in C of a folder, whose order is the list in the comment of `common.h`."""
    order = re.findall(r"^ \*   (\w+) {2,}\S", (folder / "common.h").read_text(encoding="utf-8"), re.MULTILINE)
    paths = sorted(folder.glob("*.[ch]"))
    modules = {path.stem for path in paths}
    messages = [f"common.h lists {module}, which is no module" for module in order if module not in modules]
    for path in paths:
        if path.stem not in order:
            messages.append(f"{path.name} is not in the list of common.h")
            continue
        below = order[: order.index(path.stem)] + [path.stem] * (path.suffix == ".c")
        included = re.findall(r'^#\s*include\s+"(.*)"', path.read_text(encoding="utf-8"), re.MULTILINE)
        wrong = [name for name in included if name.removesuffix(".h") not in below]
        messages += [f"{path.name} includes {name}: includes go down only" for name in wrong]
    return messages


@pytest.mark.once
def test_all_rooms_exist() -> None:
    rooms = [room for rooms in FLOORS for room in rooms]
    missing = [room for room in rooms if room and room != DESCRIBING and not is_module(PACKAGE, room)]
    assert (missing, len(rooms)) == ([], len({*rooms}))


def test_imports_go_down_only() -> None:
    assert wrong_imports(PACKAGE) == []


@pytest.mark.once
def test_includes_go_down_only() -> None:
    assert wrong_includes(PACKAGE / "_native" / "recorder") == []


@pytest.mark.once
def test_no_modules_import_each_other() -> None:
    assert circles(PACKAGE) == []


@pytest.mark.once
def test_bit_positions_are_only_in_layout_modules() -> None:
    assert bits_outside_layouts(PACKAGE) == []


@pytest.mark.once
@pytest.mark.parametrize("folder", ["fxtio", "tests", "examples", "benchmarks", "docs"])
def test_files_and_functions_are_small(folder: str) -> None:
    assert too_long(CHECKOUT / folder, MAX_MODULE_LINES if folder == "fxtio" else MAX_TEST_LINES) == []


def loaded_by(statement: str, names: frozenset[str]) -> set[str]:
    """Return those of the modules `names` that a fresh interpreter has loaded after the statement."""
    code = f"import sys; {statement}; print(*[name for name in {sorted(names)} if name in sys.modules])"
    return set(run_python("-c", code).stdout.split())


def test_importing_fxtio_is_cheap() -> None:
    assert loaded_by("import fxtio", frozenset({"numpy", "construct"})) == set()


@pytest.mark.skipif(not (PACKAGE / "tracer").exists(), reason="there is no tracer yet")
def test_importing_the_tracer_loads_nothing_heavy() -> None:
    assert loaded_by("import fxtio.tracer", NOT_IN["tracer"]) == set()


# ---- the checks themselves, on a bad tree


def grow(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


@pytest.mark.parametrize(
    ("importer", "statement", "why"),
    [
        ("errors.py", "from fxtio import cli", "nothing but __main__ imports cli"),
        ("_native/twin.py", "import fxtio.errors", "_native may import only arrays"),
        ("codec/word.py", "from fxtio.table import Table", "imports go down only"),
        ("codec/word.py", "from ..fxt import layout", "imports go down only"),
        ("fxt/reader.py", "def read():\n    from fxtio.mono import layout", "imports go down only"),
        ("io/source.py", "import importlib\nimportlib.import_module('fxtio.exchange.build')", "imports go down only"),
        ("tracer/span.py", "from fxtio.fxt import reader", "tracer may import only"),
        ("tracer/span.py", "from fxtio.io import sink", "tracer may import only"),
        ("tracer/span.py", "import numpy as np", "never imports numpy"),
        ("exchange/build.py", "import fxtio", "imports go down only"),
        ("fxt/reader.py", "from fxtio.fxt import report", "imports go down only"),
        ("fxt/report.py", "from fxtio.mono import layout", "no format knows another"),
        ("cellar.py", "import fxtio.errors", "is on no floor"),
    ],
)
def test_wrong_imports_are_detected(tmp_path: Path, importer: str, statement: str, why: str) -> None:
    rooms = ("cli/__init__.py", "fxt/layout.py", "fxt/report.py", "fxt/reader.py", "mono/layout.py")
    package = grow(tmp_path, {**dict.fromkeys(rooms, ""), importer: statement})
    assert [why in sentence for sentence in wrong_imports(package)] == [True]


def test_right_imports_pass(tmp_path: Path) -> None:
    files = {
        "fxt/layout.py": "from fxtio.codec.word import Word\nfrom . import layout",
        "fxt/report.py": "from fxtio.fxt import layout\nfrom fxtio.fxt import rules\nimport fxtio.report",
        "tracer/span.py": "from fxtio.fxt.layout import EventWord\nfrom fxtio.fxt import layout\nimport mmap",
        "cli/__init__.py": "from fxtio import fxt\nimport fxtio, argparse, numpy",
        "__main__.py": "from fxtio.cli import main",
    }
    assert wrong_imports(grow(tmp_path, files)) == []


def test_wrong_includes_are_detected(tmp_path: Path) -> None:
    files = {
        "common.h": "/* The modules:\n *\n *   common  this\n *   low     a\n *   high    b\n *   absent  c */\n",
        "low.h": '#include "common.h"\n#include <stdint.h>\n',
        "low.c": '#include "low.h"\n#include "high.h"\n',
        "high.h": '#include "low.h"\n#include "high.h"\n',
        "high.c": '#include "high.h"\n# include "../kernels.h"\n',
        "other.c": '#include "common.h"\n',
    }
    assert wrong_includes(grow(tmp_path, files)) == [
        "common.h lists absent, which is no module",
        "high.c includes ../kernels.h: includes go down only",
        "high.h includes high.h: includes go down only",
        "low.c includes high.h: includes go down only",
        "other.c is not in the list of common.h",
    ]


def test_import_cycles_are_detected(tmp_path: Path) -> None:
    files = {
        "codec/a.py": "def f():\n    from fxtio.codec import b",
        "codec/b.py": "import fxtio.codec.c",
        "codec/c.py": "from fxtio.codec.a import f",
        "codec/d.py": "from fxtio.codec import e",
        "codec/e.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from fxtio.codec import d",
    }
    assert circles(grow(tmp_path, files)) == ["codec.a and codec.b and codec.c"]


BITS = (
    "word >> 16",
    "word & 15",
    "d >>= 8",
    "size & ~7",
    "word & 1 << 5",
    "header | 1 << 20",
    "slot << 40",
)
NO_BITS = ("a | b", "flags & other", "2**20", "1 << 20", "1 << width", "word >> field.lo", "True | flag")


def test_bit_numbers_are_detected(tmp_path: Path) -> None:
    text = "\n".join((*BITS, *NO_BITS))
    package = grow(tmp_path, {"fxt/reader.py": text, "fxt/layout.py": text, "codec/word.py": text})
    operations = [sentence.split(": ")[1] for sentence in bits_outside_layouts(package)]
    assert sorted(operations) == sorted(BITS)


def test_excess_length_is_detected(tmp_path: Path) -> None:
    long_function = "def f():\n" + "    x = 1\n" * MAX_FUNCTION_LINES
    grow(tmp_path, {"a.py": long_function, "b.c": "\n" * 701, "c.py": "\n" * 700})
    assert [sentence.split(":")[0] for sentence in too_long(tmp_path, 700)] == ["a.py", "b.c"]
