"""Symbol files: the file that belongs to a module, by name, path and build id."""

from __future__ import annotations

from pathlib import Path

import pytest

from fxtio.uftrace.reader import UftraceTrace
from support.uftrace_samples import minimal

MINE, OTHER, NONE = "ab" * 20, "cd" * 20, "00" * 20


def named(target: Path, files: dict[str, tuple[str, str]], *, build_id: str = "") -> tuple[set[str], dict[str, int]]:
    """Return the names of the functions, and the findings, with other symbol files.

    Args:
        target: the directory to write.
        files: paths and build ids in the headings of symbol files, by name.  The functions of a file have its name.
        build_id: the build id in the map.
    """
    minimal(target, records=1)
    (target / "prog.sym").unlink()
    (mapping,) = target.glob("sid-*.map")
    lines = mapping.read_text().split("\n")
    mapping.write_text("\n".join([lines[0] + (f" build-id:{build_id}" if build_id else ""), *lines[1:]]))
    for name, (path, mark) in files.items():
        heading = f"# symbols: 2\n# path name: {path}\n" + (f"# build-id: {mark}\n" if mark else "")
        symbols = f"0000000000000000 T {name}\n0000000000001000 ? __sym_end\n"
        (target / name).write_text(heading + symbols)
    trace = UftraceTrace(target)
    names = {entry.name or "" for entry in trace.entries()}
    return names, dict(trace.findings.counts) | {"uftrace.record.payload-unknown": 0}


@pytest.mark.parametrize(
    ("files", "build_id", "expected"),
    [
        ({"prog.sym": ("/x/prog", "")}, "", "prog.sym"),
        ({"prog.sym": ("/x/prog", MINE)}, MINE, "prog.sym"),
        ({"prog.sym": ("/x/prog", OTHER)}, MINE, None),
        ({"prog.sym": ("/y/prog", "")}, "", None),
        ({"prog.sym": ("/y/prog", MINE)}, MINE, "prog.sym"),  # copied to another place: the build id identifies it
        ({"prog.sym": ("/y/prog", NONE)}, NONE, None),
        ({"prog.sym": ("/x/prog", NONE)}, MINE, "prog.sym"),
        ({"prog.sym": ("/y/prog", OTHER), "prog-abab.sym": ("/x/prog", MINE)}, MINE, "prog-abab.sym"),
        ({"prog.sym": ("/y/prog", OTHER), "copy.sym": ("/y/copy", MINE)}, MINE, "copy.sym"),
        ({"first.sym": ("/a", MINE), "second.sym": ("/b", MINE)}, MINE, "first.sym"),
        ({"copy.sym": ("/y/copy", NONE)}, NONE, None),
        ({"copy.sym": ("/y/copy", "")}, "", None),
    ],
)
def test_the_symbols_of_a_module(
    files: dict[str, tuple[str, str]], build_id: str, expected: str | None, tmp_path: Path
) -> None:
    names, rules = named(tmp_path / "t", files, build_id=build_id)
    if expected is None:
        assert all(name.startswith("<") for name in names)
        assert rules.get("uftrace.symbol.other-module", 0) == ("prog.sym" in files)
    else:
        assert names == {expected}
        assert "uftrace.symbol.other-module" not in rules
