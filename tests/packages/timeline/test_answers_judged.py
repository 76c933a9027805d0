"""Trees judged by `uftrace graph`, rankings of samples and allocations judged by `mprof-report`.

What the judges leave out is named where a test steps around it ("deviation").
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pytest

import fxtio
from fxtio import synth
from fxtio.timeline.answers import top, tree
from judges import mono
from support.checkout import CORPUS
from support.mono_samples import FILES, HAS_MONO, compiled, content, recorded
from support.uftrace_judge import needs_uftrace, run
from support.uftrace_samples import UFTRACE

pytestmark = [pytest.mark.full, pytest.mark.once]

needs_mono = pytest.mark.skipif(
    not HAS_MONO and not mono.REQUIRED, reason="needs Debian's mono-utils, libmono-profiler, mono-runtime and mono-mcs"
)

CallPath = tuple[str, ...]
"""The names of a function and of those around it, the outermost first."""


class Node(NamedTuple):
    """A node of a tree.

    Attributes:
        calls: the number of calls.
        total: their time in nanoseconds.
    """

    calls: int
    total: int


# ---- uftrace graph

_LINE = re.compile(r" *(?:([\d.]+) +(us|ms|s))? *: ([ |]*)(\+-)?\((\d+)\) (.*)")
_UNIT = {"us": 10**3, "ms": 10**6, "s": 10**9}


def graph_of(text: str) -> dict[CallPath, tuple[Node, int]]:
    r"""Return the nodes that `uftrace graph -f total` prints, and the nanoseconds by which their times are rounded.

    A child is in the column of its only parent, or `+-` is one column after it; the program is the root::

        : (1) program
        :  +-(2) main
        :  | (2) only child
        :  |  +-(4) child
    """
    nodes: dict[CallPath, tuple[Node, int]] = {}
    at: dict[int, CallPath] = {}  # the last path in each column
    for line in text.splitlines():
        match = _LINE.fullmatch(line)
        if match is None or line.startswith("#"):
            continue
        time, unit, indent, branch, calls, name = match.groups()
        column = len(indent) + len(branch or "")
        around = at.get(len(indent) - 1) if branch else at.get(column)
        path = () if around is None else (*around, name)
        at = {place: other for place, other in at.items() if place < column} | {column: path}
        if path and not name.startswith("linux:"):  # events
            rounded = _UNIT[unit or "us"] // 1000
            nodes[path] = Node(int(calls), round(float(time or 0) * _UNIT[unit or "us"])), rounded
    return nodes


def tree_of(directory: Path) -> dict[CallPath, Node]:
    with fxtio.open_timeline(directory) as timeline:
        answer = tree(timeline)
    paths: list[CallPath] = []
    for row in answer.table.rows():
        paths.append((*(paths[row["parent"]] if row["parent"] >= 0 else ()), row["name"]))
    return {path: Node(row["calls"], row["total"]) for path, row in zip(paths, answer.table.rows(), strict=True)}


def check_tree(directory: Path, *, depth: int | None = None) -> int:
    """Check that every path has the same calls and, as far as uftrace prints it, the same time; return how many."""
    theirs, ours = graph_of(run("graph", directory, "-f", "total").decode()), tree_of(directory)
    if depth is not None:
        theirs = {path: node for path, node in theirs.items() if len(path) <= depth}
    assert {path: node.calls for path, (node, _) in theirs.items()} == {path: node.calls for path, node in ours.items()}
    wrong = [path for path, (node, rounded) in theirs.items() if abs(ours[path].total - node.total) >= max(rounded, 1)]
    assert wrong == []
    return len(ours)


def test_graphs_are_parsed() -> None:
    lines = (
        "# Function Call Graph for 'p' (session: 0)",
        "========== FUNCTION CALL GRAPH ==========",
        "# TOTAL TIME   FUNCTION",
        "    1.243 ms : (1) p",
        "    1.000 us :  +-(1) f(int)",
        "             :  | ",
        "    1.242 ms :  +-(2) main",
        "  156.053 us :     +-(1) fork",
        "    5.648 us :     | (1) linux:schedule (pre-empted)",
        "             :     | ",
        "   16.655 us :     +-(3) child",
        "   16.535 us :       (1) a",
        "    0.444 us :        +-(6) b",
        "             :        | ",
        "    0.001 us :        +-(7) (c)",
    )
    assert graph_of("\n".join(lines)) == {
        ("f(int)",): ((1, 1000), 1),
        ("main",): ((2, 1_242_000), 1000),
        ("main", "fork"): ((1, 156_053), 1),
        ("main", "child"): ((3, 16_655), 1),
        ("main", "child", "a"): ((1, 16_535), 1),
        ("main", "child", "a", "b"): ((6, 444), 1),
        ("main", "child", "a", "(c)"): ((7, 1), 1),
    }


@needs_uftrace
@pytest.mark.parametrize(
    ("name", "nodes"),
    [
        ("args-all-v013", 30), ("auto-args-cpp-v013", 42), ("dlopen-v013", 10), ("old-v08-dlopen", 10),
        ("read-args-v013", 10), ("synth-args", 2), ("synth-big-endian", 4), ("synth-class32", 1), ("synth-events", 1),
        ("synth-extern", 1), ("synth-lost", 2), ("synth-perf", 1), ("watch-cpu-v013", 10),
    ],
)  # fmt: skip
def test_trees_are_those_of_uftrace(name: str, nodes: int) -> None:
    """Deviation: symbols of version 0.19, forks, programs that are replaced, and functions without an end."""
    assert check_tree(UFTRACE / name) == nodes


@needs_uftrace
def test_deep_trees_are_those_of_uftrace() -> None:
    """Deviation: a tree has at most 1,000 levels here, and 1,024 there."""
    assert check_tree(UFTRACE / "synth-deep-wrap", depth=1000) == 1000


@needs_uftrace
@pytest.mark.parametrize("shape", ["calls", "program"])
def test_trees_of_synthetic_traces_are_those_of_uftrace(shape: str, tmp_path: Path) -> None:
    path = tmp_path / "t.data"
    synth.write(path, shape, format="uftrace", events=3000, threads=3, seed=4)
    assert check_tree(path) > 10


# ---- mprof-report

_HITS = re.compile(r"^\t +(\d+) +[\d.]+ (.*)$", re.MULTILINE)
_UNRESOLVED = re.compile(r"^\tUnresolved hits: +(\d+)", re.MULTILINE)
_ALLOCATIONS = re.compile(r"^ +(\d+) +(\d+) +\d+ (.*)$", re.MULTILINE)
_NO_CLASS = "unresolved class"


def plain_copy(path: Path, folder: Path) -> Path:
    """Return a copy without compression, which mprof-report of Debian cannot always read."""
    copy = folder / "plain.mlpd"
    copy.write_bytes(content(path))
    return copy


def counted(hits: Iterable[tuple[str, int]]) -> Counter[str]:
    """Return the samples of each function, those of a wrapper with those of what it wraps."""
    counts = Counter[str]()
    for name, count in hits:
        counts[name.removeprefix("(wrapper managed-to-native) ")] += count
    return counts


def check_samples(path: Path) -> int:
    """Check that functions have the samples that mprof-report counts; return how many samples there are.

    Deviation: names that come after a sample are not known there.  A method of the runtime and its wrapper have one
    code; a sample in it is of the first of them there, of the last here.
    """
    text = mono.report(path, "--reports=sample")
    theirs = counted((name, int(hits)) for hits, name in _HITS.findall(text))
    unresolved = sum(map(int, _UNRESOLVED.findall(text)))
    with fxtio.open_timeline(path) as timeline:
        answer = top(timeline, what="samples")
    ours = counted((row["name"], row["self"]) for row in answer.table.rows() if row["self"])
    assert theirs - ours == Counter()
    assert (ours - theirs).total() == unresolved
    return ours.total()


def check_allocations(path: Path) -> int:
    """Check that types have the objects and bytes that mprof-report counts; return how many bytes there are.

    Deviation: classes whose tables of methods come after an object are not known there.
    """
    text = mono.report(path, "--reports=alloc").partition("Allocation summary")[2]
    found = [(name, int(size), int(count)) for size, count, name in _ALLOCATIONS.findall(text)]
    count, size = by_type((name, count, size) for name, size, count in found if not name.startswith(_NO_CLASS))
    unresolved = [(size, count) for name, size, count in found if name.startswith(_NO_CLASS)]
    with fxtio.open_timeline(path) as timeline:
        rows = [*top(timeline, what="allocations", by="type").table.rows()]
    our_count, our_size = by_type((row["name"], row["calls"], row["self"]) for row in rows)
    assert (count - our_count, size - our_size) == (Counter(), Counter())
    assert (our_size - size).total() == sum(size for size, _ in unresolved)
    assert (our_count - count).total() == sum(count for _, count in unresolved)
    return our_size.total()


def by_type(rows: Iterable[tuple[str, int, int]]) -> tuple[Counter[str], Counter[str]]:
    """Return the numbers of objects and bytes of each type; types of several images may have the same name."""
    counts, sizes = Counter[str](), Counter[str]()
    for name, count, size in rows:
        counts[name] += count
        sizes[name] += size
    return counts, sizes


@needs_mono
def test_samples_are_those_of_mprof_report(tmp_path: Path) -> None:
    """Deviation: the files made by hand have samples whose addresses contradict their stacks."""
    assert check_samples(plain_copy(CORPUS / "mono" / "sample.mlpd.gz", tmp_path)) == 228


@needs_mono
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_allocations_are_those_of_mprof_report(path: Path, tmp_path: Path) -> None:
    size = check_allocations(plain_copy(path, tmp_path))
    assert (size > 0) == path.name.startswith(("alloc", "synth")), size


@needs_mono
def test_rankings_of_new_recordings_are_those_of_mprof_report(tmp_path: Path) -> None:
    program = compiled(tmp_path)
    assert check_samples(recorded(program, "nodefaults,sample=1000", tmp_path / "sample.mlpd", "150")) > 0
    assert check_allocations(recorded(program, "nodefaults,alloc", tmp_path / "alloc.mlpd")) > 10_000
