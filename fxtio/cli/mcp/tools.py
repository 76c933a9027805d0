"""The tools that agents have: each is a command of fxtio, with options as the parser of the command declares them."""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import re
import stat
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple

from fxtio import exchange, formats
from fxtio.cli import inputs
from fxtio.cli.mcp.child import Child, part_of
from fxtio.cli.mcp.root import Opened, Root
from fxtio.cli.parser import parser_of
from fxtio.errors import FormatError, FxtioError, described
from fxtio.report import json_lines, json_value, printable, short_seconds

MOST_TOKENS = 2000
"""The greatest number of tokens of an answer."""

MOST_ROWS = 1000
"""The greatest number of rows of a query."""

_MAX_LINE = 500  # tokens
_MAX_CELL = 200  # characters
_MAX_NAME = 40  # characters of a name in a proposed call
_MORE = 'next page: the same call with "cursor": {}'
_TOKEN = re.compile(rb"[A-Za-z]{1,4}|[0-9]{1,3}|[ ]+|.", re.DOTALL)
_COUNT = {"type": "integer", "minimum": 1}
_RANGE = {
    "from": "only what is at this time or later: 1.2s or 350ms after the first event, -1s before the end, 10% of it",
    "to": "only what is before this time; +50ms is 50 ms after `from`",
}
_TEXTS = {"sql": "one query; `describe slice` lists the columns of a view, `from slice limit 3` shows some rows"}
_END_OF_CALENDAR = 253_402_300_800  # files may claim to be later
_LISTED = (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK)
_Call = tuple[str, dict[str, Any]]  # a tool, and arguments


class Tool(NamedTuple):
    """A tool as `tools.toml` has it: a command, names of options, arguments that are traces, and what it answers.

    `required` are the arguments without which nothing can be asked.
    """

    command: str
    options: list[str]
    traces: list[str]
    required: list[str]
    meaning: str

    def actions(self) -> dict[str, argparse.Action]:
        """Return by name the options, as the parser of the command has them; without dashes."""
        actions = parser_of(self.command)._actions
        known = {(each.option_strings or [each.dest])[-1].lstrip("-"): each for each in actions}
        return {name: known[name] for name in self.options}

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of the arguments."""
        texts = dict.fromkeys(self.traces, "the name of the trace in the folder") | _RANGE
        properties: dict[str, Any] = {name: {"type": "string", "description": text} for name, text in texts.items()}
        properties |= {name: _schema(name, action) for name, action in self.actions().items()}
        cursor = "as the line `next page` of an answer has it"
        properties["cursor"] = {"type": "integer", "minimum": 0, "description": cursor}
        return {"type": "object", "properties": properties, "required": self.required, "additionalProperties": False}

    def words(self, given: Mapping[str, Any]) -> Iterator[str]:
        """Yield the arguments of the command for those of a call."""
        for name, action in self.actions().items():
            value = given.get(name)
            if value is True:
                yield f"--{name}"
            elif value is None or value is False:
                continue
            elif action.option_strings:
                yield from (f"--{name}={each}" for each in (value if isinstance(value, list) else [value]))
            else:  # it must not look like an option, nor like standard input
                yield f" {value}" if name == "sql" else re.sub("^-", "[-]", str(value))


def _schema(name: str, action: argparse.Action) -> dict[str, Any]:
    help_ = _TEXTS.get(name) or (action.help or "").replace("%%", "%")
    if isinstance(action.default, list):
        patterns = "; a pattern such as net* matches, and one that begins with ! excludes" * (action.metavar == "NAME")
        return {"description": help_ + patterns, "type": "array", "items": {"type": "string"}}
    if action.type is inputs.limit:
        return {"description": help_, "anyOf": [_COUNT, {"const": inputs.ALL}]}
    if action.type is inputs.count:
        return {"description": help_} | _COUNT
    choices = {"enum": [*action.choices]} if action.choices else {}
    return {"description": help_} | choices | {"type": "boolean" if action.nargs == 0 else "string"}


_TOOLS = tomllib.loads(files("fxtio.cli.mcp").joinpath("tools.toml").read_text("utf-8"))
TOOLS = {name: Tool(**tool) for name, tool in _TOOLS.items()}
"""The tools by name."""


def answer(root: Root, seconds: int, name: str, arguments: dict[str, Any], over: Event) -> tuple[str, bool]:
    """Return the answer to a call, of at most `MOST_TOKENS` tokens, and whether it says what is wrong with the call.

    Whoever does not want it any more sets `over`; it is set in any case when the question is over.
    """
    try:
        return _answer(root, seconds, name, arguments, over), False
    except Exception as error:  # noqa: BLE001  # an agent cannot do without an answer
        # ValueError is that of characters that no command takes.
        is_known = isinstance(error, FxtioError | OSError | ValueError)
        said = described(error) if is_known else f"this is a fault of fxtio: {type(error).__name__}: {error}"
        # A message may quote a trace: what has line breaks there must not look like lines of an answer.
        lines = [_short(printable(line)) for line in said.strip().replace("\n", "\n  ").split("\n")]
        return _page(lines, 0, 0)[0], True
    finally:
        over.set()


def _answer(root: Root, seconds: int, name: str, arguments: dict[str, Any], over: Event) -> str:
    tool = TOOLS.get(name)
    known = TOOLS if tool is None else tool.schema()["properties"]
    if tool is None or not arguments.keys() <= known.keys():
        what = "tool" if tool is None else "argument"
        raise inputs.UsageError(f"there is no such {what}; there are {', '.join(known)}")
    given: dict[str, Any] = dict.fromkeys(tool.traces, ".")
    given |= {each: value for each, value in arguments.items() if each != "cursor" and value is not None}
    with ExitStack() as stack:
        opened = [stack.enter_context(root.open(str(given[each]))) for each in tool.traces]
        plain = next(filter(_is_no_trace, opened), None)
        if plain and name == "overview":
            lines, following = _listed(plain)
        elif plain:
            raise inputs.UsageError(f"{plain.name} is a folder, not a trace; `overview` lists what is in it")
        else:
            part, note = ({}, "") if _RANGE.keys() & given else part_of(opened)
            given |= part
            place = stack.enter_context(tempfile.TemporaryDirectory(prefix="fxtio-"))
            lines, document = _asked(tool, Child(opened, Path(place), seconds, over), given)
            lines = [note, *lines] if note else lines
            following = _following(name, document, given)
    after = _short(printable(f"next: {following[0]} {json.dumps(following[1])}"))
    page, position = _page(lines, _first_line(arguments.get("cursor"), len(lines)), _tokens(after))
    more = "" if position is None else _MORE.format(position)
    return "\n".join(filter(None, (page, more, after)))


def _first_line(cursor: Any, count: int) -> int:
    """Return the line with which a page begins, of an answer with a number of lines; some agents write it as text."""
    text = "0" if cursor is None else str(cursor)
    if not text.isdecimal() or int(text) > max(count - 1, 0):
        raise inputs.UsageError(f"`cursor` is the number in the line `next page` of an answer, which has {count} lines")
    return int(text)


def _asked(tool: Tool, child: Child, given: Mapping[str, Any]) -> tuple[list[str], dict[str, Any]]:
    """Return what a command answers, as lines and as JSON; for a query without JSON."""
    times = [f"--{name}={given[name]}" for name in _RANGE if name in given]
    if times and "thread" not in tool.actions():  # the command takes no range
        child.cut(times)
        times = []
    shape = ["--csv", "--confined"] if tool.command == "query" else ["--json"]
    text = child.run(tool.command, *child.names, *shape, *times, *tool.words(given))
    if tool.command == "query":
        whole = text.splitlines()[: -1 if child.is_cut else None]  # the last one is not complete
        rows = whole[: MOST_ROWS + 1]
        note = [f"only the first {len(rows) - 1:,} rows:"] if child.is_cut or rows != whole else []
        return [*note, *map(_short, (*child.messages.splitlines()[:3], *rows))], {}
    try:
        document: dict[str, Any] = json.loads(text)
    except ValueError:
        raise inputs.UsageError(
            "the answer is too long; ask for fewer rows, or for a part with `from` and `to`"
        ) from None
    return [*_lines(document)], document


def _is_no_trace(opened: Opened) -> bool:
    """Return whether what is open is a folder, and no trace."""
    if opened.size is None:
        with suppress(FormatError):
            formats.of_directory(opened.path)
            return False
    return opened.size is None


def _listed(folder: Opened) -> tuple[list[str], _Call]:
    """Return what is in a folder, the latest first, folders as `name/`, and the next call: about the first trace."""
    found: list[tuple[os.stat_result, str]] = []
    for each in os.scandir(folder.fd):
        with suppress(FileNotFoundError):  # it has been removed meanwhile
            status = each.stat(follow_symlinks=False)
            if stat.S_IFMT(status.st_mode) in _LISTED:
                found.append((status, str(folder.name / each.name) + "/" * stat.S_ISDIR(status.st_mode)))
    found.sort(key=lambda each: -each[0].st_mtime)
    rows = [{"path": path, "bytes": status.st_size, "modified": _moment(status.st_mtime)} for status, path in found]
    paths = [path for _, path in found]
    first = next((path for path in paths if formats.by_suffix(path) or exchange.by_suffix(path)), (*paths, ".")[0])
    return [*_lines({"files": rows})], ("overview", {"path": first})


def _moment(seconds: float) -> str:
    """Return a time as text, which is empty if it is before the epoch, or no calendar has it."""
    return datetime.fromtimestamp(int(seconds), UTC).isoformat() if 0 <= seconds < _END_OF_CALENDAR else ""


def _following(name: str, document: Mapping[str, Any], given: Mapping[str, Any]) -> _Call:
    """Return the call that makes sense after an answer."""
    about = {each: given[each] for each in ("path", *_RANGE) if each in given}
    table = {"top": "rows", "tree": "rows", "find": "rows", "compare": "differences"}.get(name)
    rows = [row for row in document[table] if row["name"]] if table else []
    has_slices = rows and document.get("what") in ("slices", "blocking")
    if name in ("top", "tree") and has_slices and given.get("by", "name") == "name":
        return "find", about | {"pattern": _pattern(max(rows, key=lambda row: row.get("self", 0))["name"])}
    if name == "find" and rows and rows[0]["duration"]:  # what ran within it
        begin = rows[0]["time"] - document["start"]
        end = begin + rows[0]["duration"]
        return "tree", about | {"from": f"{short_seconds(begin)}s", "to": f"{short_seconds(end)}s"}
    if name == "compare":
        side = given["before" if rows and rows[0]["change"] == "gone" else "after"]
        return ("find", {"path": side, "pattern": _pattern(rows[0]["name"])}) if rows else ("top", {"path": side})
    return "tree" if name == "top" else "top", about


def _pattern(name: str) -> str:
    return inputs.pattern_of(name) if len(name) <= _MAX_NAME else f"{inputs.pattern_of(name[:_MAX_NAME])}*"


# ---- Text.


def _tokens(text: str) -> int:
    """Return how many tokens a text has, rather too many: one for four letters or three digits, and any other byte."""
    return sum(1 for _ in _TOKEN.finditer(text.encode()))


def _short(text: str) -> str:
    """Return a line, cut if it has too many tokens."""
    return text if _tokens(text) <= _MAX_LINE else text.encode()[: _MAX_LINE - 3].decode(errors="ignore") + "..."


def _page(lines: list[str], cursor: int, used: int) -> tuple[str, int | None]:
    """Return the page that begins at a line, and the line of the next one, None at the end; some tokens are used."""
    room = MOST_TOKENS - used - _tokens(_MORE) - 20
    for number, line in enumerate(lines[cursor:], cursor):
        room -= _tokens(line) + 1
        if room < 0:
            return "\n".join(lines[cursor:number]), number
    return "\n".join(lines[cursor:]), None


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a JSON document: `name: value`, and lists of objects as CSV; without what is empty.

    A list of the document itself is there in any case: that there are no rows is an answer.
    """
    for name, value in document.items():
        if isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
            yield from (f"{name}:", _csv(value[0]), *(_csv(row.values()) for row in value))
        elif isinstance(value, dict) and any(isinstance(each, dict | list) for each in value.values()):
            yield from _lines({f"{name}.{inner}": each for inner, each in value.items()})
        elif value not in (None, "", {}) and not (value == [] and "." in name):
            yield _short(f"{name}: {_cell(value)}")


def _csv(cells: Iterable[Any]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(map(_cell, cells))
    return _short(text.getvalue())


def _cell(value: Any) -> Any:
    """Return a value of a cell or line: texts escaped and cut, lists and objects as JSON, numbers as they are."""
    value = json_value(value)
    text = json_lines([value]).rstrip("\n") if isinstance(value, dict | list) else value
    if not isinstance(text, str):
        return text
    shown = printable(text[: _MAX_CELL + 1])
    return shown if len(shown) <= _MAX_CELL else f"{shown[: _MAX_CELL - 3]}..."
