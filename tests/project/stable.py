"""What programs may rely on, as lines of text, each with one name or one type of a value.

    python tests/project/stable.py

writes them to `docs/reference/stable.txt`.  They are derived from the declarations, and of the JSON of commands from
what these print.  `docs/reference/stability.md` says what the lines mean, and what may change.
"""

from __future__ import annotations

import io
import json
import shlex
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import fxtio
from fxtio.cli import console, main
from fxtio.conformance.harness import PROTOCOL
from fxtio.conformance.kit import read_kit
from fxtio.formats import formats
from fxtio.lake import layout
from fxtio.timeline.schema import TABLES
from fxtio.timeline.sql import MACROS, RAW, VIEWS
from fxtio.validate import all_rules

CHECKOUT = Path(__file__).resolve().parents[2]
LIST = CHECKOUT / "docs" / "reference" / "stable.txt"
CORPUS = CHECKOUT / "tests" / "corpus"

TRACES = {
    "fxt": "fxt/ftr-demo.fxt",
    "mono": "mono/sample.mlpd.gz",
    "uftrace": "uftrace/signal-longjmp-v013",
    "coreprofiler": "coreprofiler/given-specification.log",
    "dcpi": "dcpi/given-specification.dcpi",
}
"""A trace of each format, whose summaries differ."""

COMMANDS = {
    **{
        f"{name} {format_name}": f"{{corpus}}/{trace} --json"
        for name in ("info", "stats")
        for format_name, trace in TRACES.items()
    },
    **dict.fromkeys(("top", "tree", "timeline"), f"{{corpus}}/{TRACES['fxt']} --json"),
    "find": "{corpus}/fxt/ocaml-trace-second.fxt * --json",
    "diff": "{corpus}/runs/same-01.fxt.gz {corpus}/runs/slow-02.fxt.gz --json",
    "check": "{corpus}/runs/slow-02.fxt.gz --baseline {corpus}/runs/same-01.fxt.gz --report json",
    "convert": "{corpus}/mono/sample.mlpd.gz {folder}/converted.json --json",
    "convert --list": "--json",
    "validate": "{corpus}/fxt/ftr-counter-malformed.fxt --report json",
    "validate --list-rules": "--report json",
    "conformance list": "--json",
    "conformance run": "--case fxt/valid/magic --report json -o - -- {python} -P -m fxtio.conformance.testee",
    "lake ls": "{folder}/lake --json",
    "lake info": "{folder}/lake --json",
    "lake top": "{folder}/lake --json",
    "lake find": "{folder}/lake * --json",
    "lake worst": "{folder}/lake * --json",
    "lake diff": "{folder}/lake --by label:run 1 2 --json",
}
"""The commands that print JSON, with arguments.  Summaries of each format are commands of their own."""

LEFT_OUT = {"query", "lake sql", "dump"}
"""Commands that print rows of a query, or records, of which the kit has schemas."""

MAPS = {"arguments", "config", "counts", "formats", "intervals", "labels", "losses", "records", "traces", "versions"}
"""The members whose own members have the names of what is in a trace."""

KINDS = {dict: "object", list: "list", str: "text", int: "number", float: "number", bool: "boolean", type(None): "null"}


def lines() -> list[str]:
    """Return all lines, in order."""
    groups = (_json(), _queries(), _tables(), _lake(), _kit(), _rules())
    return sorted({line for group in groups for line in group})


def _json() -> Iterator[str]:
    """Return the paths of the values that commands print, with the types that they have."""
    with tempfile.TemporaryDirectory() as folder:
        for run, trace in enumerate(("same-01", "slow-02"), 1):
            _printed(f"lake add {folder}/lake {CORPUS}/runs/{trace}.fxt.gz --label run={run}")
        types: dict[str, set[str]] = {}
        for name, arguments in COMMANDS.items():
            command = " ".join(word for word in name.split() if word not in TRACES)
            text = _printed(f"{command} {arguments.format(corpus=CORPUS, folder=folder, python=sys.executable)}")
            for path, kind in _values(json.loads(text)):
                types.setdefault(f"json {name} {path or '.'}", set()).add(kind)
    yield from (f"{path} {' or '.join(sorted(kinds))}" for path, kinds in types.items())


def _printed(command: str) -> str:
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as errors:
        try:
            status: Any = main(shlex.split(command))
        except SystemExit as error:  # wrong usage
            status = error.code
    assert status in {console.FINE, console.FOUND}, f"{command}: {errors.getvalue()}"
    return out.getvalue()


def _values(value: Any, path: str = "", *, is_map: bool = False) -> Iterator[tuple[str, str]]:
    """Return the paths of a value and of all in it, as jq has them, each with its type."""
    yield path, KINDS[type(value)]
    if isinstance(value, dict):
        for name, member in value.items():
            known = "*" if is_map or "." in name else name  # names of rules have dots
            yield from _values(member, f"{path}.{known}", is_map=known in MAPS)
    elif isinstance(value, list):
        for item in value:
            yield from _values(item, f"{path}[]")


def _queries() -> Iterator[str]:
    """Return the columns of tables, views and functions of `fxtio query`."""
    with fxtio.open_timeline(CORPUS / TRACES["fxt"]) as timeline:
        sources = {name: name for name in (*VIEWS, *(RAW.get(name, name) for name in TABLES))}
        sources |= {name: f"{name}(0)" for name in MACROS if "as table" in MACROS[name].sql}
        for name, source in sources.items():
            rows = timeline.sql(f"select * from {source}")
            yield from (f"sql {name}.{column} {kind}" for column, kind in zip(rows.columns, rows.types, strict=True))
        (kind,) = timeline.sql("select extract_arg(0, 'name')").types
        yield f"sql extract_arg() {kind}"


def _tables() -> Iterator[str]:
    """Return the columns of the tables of all formats."""
    for name, item in formats().items():
        for table, spec in item.room("tables").specs().items():
            yield from (f"table {name} {table}.{column} {each.dtype}" for column, each in spec.columns.items())


def _lake() -> Iterator[str]:
    row = {"id": "ID", "start": None, "program": "PROGRAM"}
    yield f"lake version {layout.VERSION}"
    yield f"lake file {layout.MARKER}"
    yield f"lake file {layout.name_of(layout.TRACES, 'ID')}"
    yield f"lake file {layout.kept_name('ID', Path('NAME'))}"
    for table in (layout.TRACES, *layout.TABLES):
        if table != layout.TRACES:
            yield f"lake file {layout.file_of(table, row)}"
        yield from (f"lake {table}.{field.name} {field.type}" for field in layout.schema_of(table))


def _kit() -> Iterator[str]:
    kit = read_kit(CHECKOUT / "conformance")
    yield f"kit version {kit.version}"
    yield f"kit protocol {PROTOCOL}"
    yield from (f"kit suffix {name} {suffix}" for name, suffix in kit.suffixes.items())
    yield from (f"kit case {case.id} {case.operation}" for case in kit.cases)
    for path in (CHECKOUT / "conformance" / "schema").glob("*.json"):
        names = _properties(json.loads(path.read_text("utf-8")))
        yield from (f"kit schema {path.stem} {name}" for name in names)


def _properties(schema: Any) -> Iterator[str]:
    """Return the properties that a JSON Schema has, with the path of what has them."""
    if isinstance(schema, dict):
        for key, value in schema.items():
            names = value if key == "properties" else {}
            yield from names
            for name in _properties(value):
                yield f"{key}.{name}" if key not in {"properties", "items", "$defs"} else name
    elif isinstance(schema, list):
        for value in schema:
            yield from _properties(value)


def _rules() -> Iterable[str]:
    return (f"rule {rule.id} {rule.level}" for rule in all_rules())


if __name__ == "__main__":
    LIST.write_text("".join(f"{line}\n" for line in lines()), "utf-8")
