"""CoreProfiler traces restated from the specification text: lines to plain values, stacks by the definition.

`LINES` has the specification's own lines, such as `thr cpu <threadIid:iid> <timestamp:ms> <usage:us>`, and `parse`
follows them. Each item of the table "Format rules" is a regular expression. No code and no pattern is shared with the
codec under test. Items of several words (times, quoted texts, lists) are handled by name. `stacks` follows the prose
of `sam str`.
"""

from __future__ import annotations

import re
from typing import Any

from oracle.fxt_words import OracleError, require

ITEMS = {
    "num": r"-?\d+",
    "hex": r"0x[0-9a-fA-F]+",
    "ms": r"-?\d+",
    "us": r"\d+",
    "pid": r"\d+",
    "ptr": r"0x[0-9a-fA-F]+",
    "hr": r"0x[0-9a-fA-F]+",
    "id": r"0x[0-9a-fA-F]+",
    "token": r"0x[0-9a-fA-F]+",
    "iid": r"0x[0-9a-fA-F]+|\?",
    "str": r"[^ ]+",
    "systime": r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}",
    "qtn": r'"[^"]*"',
}

LINES = """
prf stm <time:systime>
prf cfg <name:str> <value:str>
prf tps <timestamp:ms>
prf trs <timestamp:ms>
prc cpu <timestamp:ms> <usage:us>
thr crt <threadId:id> <threadIid:iid>
thr aos <threadIid:iid> <osThreadId:pid>
thr cpu <threadIid:iid> <timestamp:ms> <usage:us>
mod ldf <moduleId:id> <baseLoadAddress:ptr> <assemblyId:id> <status:hr> <moduleName:qtn>
mod ata <moduleId:id> <assemblyId:id>
asm ldf <assemblyId:id> <appDomainId:id> <moduleId:id> <status:hr> <assemblyName:qtn>
apd crf <appDomainId:id> <processId:id> <status:hr> <appDomainName:qtn>
cls ldf <classId:id> <classIid:iid> <moduleId:id> <classToken:token> <status:hr>
cls nam <internalId:iid> <fullName:qtn>
fun inf <internalId:iid> <functionId:id> <classId:id> <moduleId:id> <funcToken:token> <code_info>... <il_map>...
fun nam <internalId:iid> <fullName:qtn> <returnType:qtn> <signature:qtn>
jit cms <threadIid:iid> <timestamp:ms> <functionId:id>
jit cmf <threadIid:iid> <timestamp:ms> <functionId:id> <status:hr>
jit css <threadIid:iid> <timestamp:ms> <functionId:id>
jit csf <threadIid:iid> <timestamp:ms> <functionId:id>
gch gcs <threadIid:iid> <timestamp:ms> <reason:str> <gen_collect>...
gch gcf <threadIid:iid> <timestamp:ms>
gch alt <timestamp:ms> <alt_item>...
sam str <threadIid:iid> <timestamp:ms> <count:num> <change> <frame>...
sam mem <threadIid:iid> <timestamp:ms> <alloc_item>...
"""
DESTROYED = "thr crt <threadIid:iid>"  # as the specification prints it

HEX, NUM, IID, IP = r"0x[0-9a-fA-F]+", r"\d+", r"(?:0x[0-9a-fA-F]+|\?)", r"(?::(?:0x[0-9a-fA-F]+|\?))?"
LISTS = {
    "code_info": rf"{HEX}:{HEX}",
    "il_map": rf"{HEX}:{HEX}:{HEX}",
    "alt_item": rf"{IID}:{NUM}:{NUM}",
    "alloc_item": rf"{IID}:{NUM}:{NUM}{IP}",
    "frame": rf"{IID}{IP}",
    "gen_collect": r"[tf]",
}
ITEMS["change"] = rf"{NUM}:{NUM}{IP}"


def _pattern(line: str) -> tuple[re.Pattern[str], list[tuple[str, str]]]:
    words, fields = [], []
    for word in line.split(" "):
        match = re.fullmatch(r"<(\w+)(?::(\w+))?>(\.\.\.)?", word)
        if match is None:
            words.append(word)
            continue
        name, kind, many = match[1], match[2] or match[1], match[3]
        fields.append((name, f"{kind}..." if many else kind))
        words.append(f"(?P<{name}>(?: (?:{LISTS[kind]}))*)" if many else f"(?P<{name}>{ITEMS[kind]})")
    text = words[0]
    for word in words[1:]:
        text += word if word.endswith(")*)") else f" {word}"
    return re.compile(text), fields


FORMS = {}
for _line in LINES.split("\n"):
    if _line:
        FORMS[_line[:7]] = [_pattern(_line)]
FORMS["thr crt"].append(_pattern(DESTROYED))


def _number(text: str) -> int | str | None:
    return None if text == "?" else int(text, 16 if text.startswith("0x") else 10)


def _value(kind: str, text: str) -> Any:
    if kind.endswith("..."):
        if kind == "gen_collect...":
            return [each == "t" for each in text.split()]
        return [tuple(map(_number, each.split(":"))) for each in text.split()]
    if kind == "qtn":
        return text[1:-1]
    if kind == "change":
        return tuple(map(_number, text.split(":")))
    return text if kind in ("str", "systime") else _number(text)


def parse(line: str) -> dict[str, Any]:
    """Convert a line of the given specification, without its end, to `{"record": "thr cpu", "threadIid": 0, ...}`."""
    for pattern, fields in FORMS.get(line[:7], []):
        match = pattern.fullmatch(line)
        if match is not None:
            values = {name: _value(kind, match[name]) for name, kind in fields}
            require(all(type(each) is not int or each < 2**64 for each in values.values()), "64 bits")
            return {"record": line[:7]} | values
    raise OracleError(f"no record of the specification: {line[:60]!r}")


def stacks(lines: list[str]) -> list[tuple[int | None, int, list[tuple[Any, Any]]]]:
    """Return the stack after every `sam str`: thread, count of ticks, frames as pairs of a function and an ip."""
    stacks_by_thread: dict[Any, list[tuple[Any, Any]]] = {}
    result = []
    for line in lines:
        if not line.startswith("sam str"):
            continue
        record = parse(line)
        stack = stacks_by_thread.setdefault(record["threadIid"], [])
        match, size, *ip = record["change"]
        require(match <= size == len(stack), "the previous stack")
        del stack[match:]
        if ip:
            require(match > 0, "a frame whose instruction pointer changes")
            stack[-1] = (stack[-1][0], "?" if ip[0] is None else ip[0])
        for function, *where in record["frame"]:
            stack.append((function, None if not where else "?" if where[0] is None else where[0]))
        result.append((record["threadIid"], record["count"], list(stack)))
    return result
