r"""Assemble the cases of the conformance kit from annotated hex, and check the kit.

    python assemble.py            assemble every case, and add new files to MANIFEST
    python assemble.py --check    change nothing; exit with 1 if a committed file is not current or the kit has a fault
    python assemble.py --replace  like the first, for a change of cases that no version has published yet

A case is `cases/FORMAT/KIND/NAME.hex` with a description `NAME.json` beside it. It is assembled to `NAME` with the
suffix of its format, or to the directory `NAME` where traces of the format are directories (see kit.toml). Likewise
`scenarios/FORMAT/NAME.hex` has the files of a directory that a producer should write byte by byte.

An annotated hex file has one statement on each line. `#` and what follows it is a comment. Statements:

    order big                       words that follow are big-endian; `order little` is the default
    u8 u16 u32 u64 VALUE            an unsigned integer, decimal or 0x...
    i8 i16 i32 i64 VALUE            a signed integer, two's complement
    f32 f64 VALUE                   a floating point number
    bits 0:3=4 4:15=3 36=1          a word of 64 bits from fields: FIRST:LAST=VALUE or BIT=VALUE, bit 0 is the lowest;
                                    bits that are not listed are 0. Fields must not overlap, and values must fit; a
                                    negative one means two's complement. `bits8`, `bits16`, `bits32`: smaller words
    leb VALUE, sleb VALUE           LEB128, unsigned and signed
    hex 01 02 0a0b [pad N]          bytes
    text "name\n" [pad N]           UTF-8 text, a JSON string
    fill COUNT BYTE [pad N]         COUNT times the same byte
    | SOME TEXT                     the rest of the line as it is, comments included, and a newline
    times COUNT STATEMENT           the bytes of one of the above several times
    at FILE                         the following goes to this file of the directory

`pad N` adds zeros until the length of the statement's bytes is a multiple of N.

This script needs Python 3.11 and nothing else. It does not import fxtio, so that the kit cannot inherit its mistakes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import struct
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent
KINDS = ("valid", "invalid", "stories")
NAME = re.compile(r"[a-z0-9]+([.-]+[a-z0-9]+)*")
FIELD = re.compile(r"(\d+)(?::(\d+))?=(-?\w+)")
COMMENT = re.compile(r"""((?:[^#"]|"(?:[^"\\]|\\.)*")*)(#.*)?""")
PAD = re.compile(r"(.*?)\s+pad\s+(\d+)")
INTEGERS = {"u8": "B", "u16": "H", "u32": "I", "u64": "Q", "i8": "b", "i16": "h", "i32": "i", "i64": "q"}
WORDS = INTEGERS | {"f32": "f", "f64": "d"}
MOST_BYTES = 1 << 24  # of one case


class HexError(ValueError):
    """A statement that cannot be assembled."""


def integer(text: str) -> int:
    """Return the value of a decimal or hexadecimal number."""
    try:
        return int(text, 0)
    except ValueError:
        raise HexError(f"{text!r} is not a number") from None


def bit_fields(text: str, width: int) -> int:
    """Return the word of `width` bits that `text` describes, such as `0:3=4 16=1`."""
    word = used = 0
    for item in text.split():
        match = FIELD.fullmatch(item)
        if match is None:
            raise HexError(f"{item!r} is not FIRST:LAST=VALUE")
        first, last, value = int(match[1]), int(match[2] or match[1]), integer(match[3])
        if not first <= last < width:
            raise HexError(f"{item!r} does not lie in bits 0 to {width - 1}")
        size = last - first + 1
        if not -(1 << size - 1) <= value < 1 << size:
            raise HexError(f"the value of {item!r} does not fit in {size} bits")
        mask = ((1 << size) - 1) << first
        if used & mask:
            raise HexError(f"{item!r} overlaps a field before it")
        used |= mask
        word |= value << first & mask
    return word


def leb128(value: int, *, signed: bool) -> bytes:
    """Return `value` as LEB128."""
    if value < 0 and not signed:
        raise HexError("a negative number needs sleb")
    encoded = bytearray()
    while True:
        byte, value = value & 0x7F, value >> 7
        if value == (-1 if signed and byte & 0x40 else 0):
            return bytes([*encoded, byte])
        encoded.append(byte | 0x80)


def json_text(text: str) -> bytes:
    """Return the bytes of a JSON string in UTF-8."""
    value = json.loads(text)
    if not isinstance(value, str):
        raise ValueError("not a JSON string")
    return value.encode()


def filled(text: str) -> bytes:
    """Return the bytes of `COUNT BYTE`."""
    count, byte = (integer(item) for item in text.split())
    if not 0 <= count <= MOST_BYTES:
        raise ValueError(f"more than {MOST_BYTES} bytes")
    return bytes([byte]) * count


STREAMS: dict[str, Callable[[str], bytes]] = {"hex": bytes.fromhex, "text": json_text, "fill": filled}


class Assembler:
    """The state of assembling one case: the files so far, and the byte order."""

    def __init__(self) -> None:
        self.files: dict[str, bytearray] = {}
        self.output: bytearray | None = None
        self.order = "<"

    def line(self, line: str) -> None:
        """Assemble one line of an annotated hex file."""
        if line.startswith("| "):
            self.emit(line[2:].encode() + b"\n")
            return
        match = COMMENT.fullmatch(line)
        if match is None:
            raise HexError("a quote is not closed")
        if statement := match[1].strip():
            self.statement(statement)

    def statement(self, statement: str) -> None:
        """Assemble one statement."""
        word, _, rest = statement.partition(" ")
        rest = rest.strip()
        if word == "order":
            if rest not in {"big", "little"}:
                raise HexError(f"the order {rest!r} is neither big nor little")
            self.order = ">" if rest == "big" else "<"
        elif word == "at":
            if not re.fullmatch(r"[\w.-]+(/[\w.-]+)*", rest) or ".." in rest or rest in self.files:
                raise HexError(f"{rest!r} is not the name of a new file")
            self.output = self.files[rest] = bytearray()
        elif word == "times":
            count, _, repeated = rest.partition(" ")
            word, _, rest = repeated.partition(" ")
            content = self.encode(word, rest.strip())
            self.emit(content * min(integer(count), MOST_BYTES // max(len(content), 1) + 1))
        else:
            self.emit(self.encode(word, rest))

    def encode(self, word: str, rest: str) -> bytes:
        """Return the bytes of the statement `word rest`."""
        if word in WORDS:
            try:
                return struct.pack(self.order + WORDS[word], integer(rest) if word in INTEGERS else float(rest))
            except struct.error as error:
                raise HexError(f"{rest} is not a value of {word}: {error}") from None
        if word.startswith("bits") and word[4:] in {"", "8", "16", "32"}:
            width = int(word[4:] or 64)
            return bit_fields(rest, width).to_bytes(width // 8, "big" if self.order == ">" else "little")
        if word in {"leb", "sleb"}:
            return leb128(integer(rest), signed=word == "sleb")
        if word in STREAMS:
            padded = PAD.fullmatch(rest)
            try:
                content = STREAMS[word](padded[1] if padded else rest)
            except ValueError as error:
                raise HexError(f"{rest} is not a value of {word}: {error}") from None
            return content + bytes(-len(content) % int(padded[2])) if padded else content
        raise HexError(f"there is no statement {word!r}")

    def emit(self, content: bytes) -> None:
        """Append bytes to the current file."""
        if self.output is None:
            self.output = self.files[""] = bytearray()
        if len(self.output) + len(content) > MOST_BYTES:
            raise HexError(f"more than {MOST_BYTES} bytes")
        self.output += content


def assemble(source: Path, suffix: str) -> dict[Path, bytes]:
    """Return the files that the annotated hex file `source` describes.

    Args:
        source: The annotated hex file.
        suffix: The suffix of assembled traces of the format; empty if they are directories.

    Raises:
        HexError: With the place of the first fault.
    """
    assembler = Assembler()
    for number, line in enumerate(source.read_text(encoding="utf-8").split("\n"), 1):
        try:
            assembler.line(line)
        except ValueError as error:
            raise HexError(f"{source.name}, line {number}: {error}") from None
    if suffix:
        if set(assembler.files) - {""}:
            raise HexError(f"{source.name}: `at` is for formats whose traces are directories")
        return {source.with_name(source.stem + suffix): bytes(assembler.files.get("", b""))}
    if "" in assembler.files:
        raise HexError(f"{source.name}: a statement is before the first `at`")
    return {source.with_name(source.stem) / name: bytes(content) for name, content in assembler.files.items()}


def walk(value: Any) -> Iterator[dict[str, Any]]:
    """Yield every object within a JSON value."""
    if isinstance(value, dict):
        yield value
        for inner in value.values():
            yield from walk(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from walk(inner)


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal digits."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


class Kit:
    """The kit in a folder, with the faults found in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.faults: list[str] = []
        self.settings = tomllib.loads((root / "kit.toml").read_text(encoding="utf-8"))
        self.rules: dict[str, str] = {}  # id to level
        for name in self.settings["formats"]:
            path = root / "rules" / f"{name}.toml"
            if path.is_file():
                for group, rules in tomllib.loads(path.read_text(encoding="utf-8"))[name].items():
                    for rule, row in rules.items():
                        self.rules[f"{name}.{group}.{rule}"] = row["level"]
                        if section := row.get("section"):
                            self.check_sections(path, name, [section], f"{group}.{rule}: ")

    def fault(self, path: Path, text: str) -> None:
        """Record a fault of a file."""
        self.faults.append(f"{path.relative_to(self.root)}: {text}")

    def assembled(self) -> dict[Path, bytes]:
        """Return what all annotated hex files assemble to."""
        files: dict[Path, bytes] = {}
        for name, settings in self.settings["formats"].items():
            sources = [*(self.root / "cases" / name).glob("*/*.hex"), *(self.root / "scenarios" / name).glob("*.hex")]
            for source in sorted(sources):
                try:
                    files |= assemble(source, settings["suffix"])
                except HexError as error:
                    self.fault(source, str(error))
        return files

    def published(self) -> list[Path]:
        """Return the files that the manifest lists: cases and scenarios."""
        folders = (self.root / "cases", self.root / "scenarios")
        return sorted(path for folder in folders for path in folder.rglob("*") if path.is_file())

    def lint(self) -> None:
        """Check the descriptions of all cases and scenarios."""
        covered: dict[str, set[str]] = {name: set() for name in self.settings["formats"]}
        broken: set[str] = set()
        for path in sorted((self.root / "cases").glob("*/*/*.json")):
            case = self.description(path, "cases")
            if case is None:
                continue
            kind = path.parent.name
            if kind not in KINDS:
                self.fault(path, f"the folder is none of {', '.join(KINDS)}")
            if not path.with_suffix(".hex").is_file():
                self.fault(path, "there is no .hex file beside it")
            if kind != "stories" and case["verdict"] != kind:
                self.fault(path, f"the verdict is not {kind}")
            for rule in [*case.get("rules", []), *case.get("remarks", [])]:
                if rule not in self.rules:
                    self.fault(path, f"there is no rule {rule}")
            required = [rule for rule in case.get("remarks", []) if self.rules.get(rule) == "required"]
            if required and case["verdict"] == "valid":
                self.fault(path, f"the specification demands {required[0]}, so the verdict cannot be valid")
            if case["verdict"] == "invalid":
                broken |= set(case["rules"])
                if kind == "invalid" and f"{case['format']}.{path.stem.partition('--')[0]}" not in case["rules"]:
                    self.fault(path, "the name is not that of a rule that it breaks")
            else:
                covered[case["format"]] |= set(case["tags"])
            self.check_tags(path, case)
        for path in sorted([*(self.root / "cases").glob("*/*/*.hex"), *(self.root / "scenarios").glob("*/*.hex")]):
            if not path.with_suffix(".json").is_file():
                self.fault(path, "there is no .json file beside it")
        for path in sorted((self.root / "scenarios").glob("*/*.json")):
            scenario = self.description(path, "scenarios")
            if scenario is not None:
                self.check_tags(path, scenario)
                self.check_exact(path, scenario)
        for name, settings in self.settings["formats"].items():
            if (self.root / "cases" / name).is_dir():
                missing = [tag for tag in settings["tags"] if tag not in covered[name]]
                self.faults += [f"no valid case of {name} has the tag {tag}" for tag in missing]
                rules = {rule for rule in self.rules if rule.startswith(f"{name}.")}
                excused = settings.get("without_case", {})
                without = {rule for rule in rules if rule in excused or rule.rpartition(".")[0] in excused}
                self.faults += [f"no case breaks the rule {rule}" for rule in sorted(rules - broken - without)]
                self.faults += [f"{rule}: has a case, but is listed as without" for rule in sorted(without & broken)]
                stale = [name for name in excused if not any(f"{rule}.".startswith(f"{name}.") for rule in without)]
                self.faults += [f"{name}: listed as without a case, but is no rule" for name in stale]

    def description(self, path: Path, folder: str) -> dict[str, Any] | None:
        """Return the description in a JSON file, or None if it is not even complete."""
        try:
            value = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            self.fault(path, f"not JSON: {error}")
            return None
        wanted = json.loads((self.root / "schema" / f"{folder[:-1]}.json").read_text(encoding="utf-8"))
        missing = [key for key in wanted["required"] if key not in value]
        unknown = [key for key in value if key not in wanted["properties"]]
        if missing or unknown or (value.get("verdict") == "invalid") != ("rules" in value):
            self.fault(path, f"keys are missing ({missing}), unknown ({unknown}), or do not fit the verdict")
            return None
        identity = path.relative_to(self.root / folder).with_suffix("").as_posix()
        if path.name != f"{path.stem}.json" or not NAME.fullmatch(path.stem) or value["id"] != identity:
            self.fault(path, f"the id is not {identity}, or has other characters than a-z, 0-9, dot and hyphen")
        if value["format"] != identity.partition("/")[0]:
            self.fault(path, "the format is not that of the folder")
            return None
        if not 1 <= int(value["since"]) <= int(self.settings["version"]):
            self.fault(path, "since is not a version of the kit")
        self.check_sections(path, value["format"], value["sections"])
        return dict(value)

    def check_sections(self, path: Path, format_name: str, sections: list[str], place: str = "") -> None:
        """Check that the specification of a format has these headings."""
        known = self.settings["formats"][format_name]["sections"]
        for section in sections:
            if section not in known:
                self.fault(path, f"{place}the specification has no section {section!r}")

    def check_tags(self, path: Path, value: dict[str, Any]) -> None:
        """Check that the tags name all types of records and arguments that are expected."""
        records = value["expect"]["records"]
        used = {f"record.{record['type']}" for record in records}
        used |= {f"argument.{item['type']}" for record in records for item in record.get("arguments", [])}
        for tag in sorted(used - set(value["tags"])):
            self.fault(path, f"the tag {tag} is missing")
        if any("optional" in inner for inner in walk(records)) and value.get("verdict") != "invalid":
            self.fault(path, "only an invalid case has optional records")

    def check_exact(self, path: Path, scenario: dict[str, Any]) -> None:
        """Check what a scenario compares byte by byte: the bytes of a file, or the listed files of a directory."""
        folder, source = path.with_suffix(""), path.with_suffix(".hex")
        is_directory = not self.settings["formats"][scenario["format"]]["suffix"]
        if "files" in scenario and not is_directory:
            self.fault(path, "`files` is for formats whose traces are directories; others have `bytes`")
        elif "bytes" in scenario and is_directory:
            self.fault(path, "`bytes` is for formats whose traces are files; others have `files`")
        elif source.is_file() != ("files" in scenario):
            self.fault(path, "`files` and a .hex file beside it belong together")
        elif "files" in scenario:
            inside = sorted(item.relative_to(folder).as_posix() for item in folder.rglob("*") if item.is_file())
            if scenario["files"] != inside:
                self.fault(path, f"the directory beside it has the files {inside}, not {scenario['files']}")

    def manifest(self) -> dict[str, str]:
        """Return the committed manifest: file name to SHA-256."""
        path = self.root / "MANIFEST"
        lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
        return {name: digest for digest, _, name in (line.partition("  ") for line in lines)}

    def digests(self) -> dict[str, str]:
        """Return the manifest as it should be."""
        return {path.relative_to(self.root).as_posix(): sha256(path) for path in self.published()}

    def compare_manifest(self, *, additions: bool) -> None:
        """Record a fault for each published file that changed or is missing, and with `additions` for each new one."""
        old, new = self.manifest(), self.digests()
        self.faults += [f"{name}: published before, but missing" for name in old if name not in new]
        changed = [name for name in old if new.get(name, old[name]) != old[name]]
        self.faults += [f"{name}: differs from what was published" for name in changed]
        if additions:
            self.faults += [f"{name}: not in MANIFEST" for name in new if name not in old]


def check(root: Path) -> list[str]:
    """Return the faults of the kit in the folder `root`, each one line of text."""
    kit = Kit(root)
    files = kit.assembled()
    for path, content in files.items():
        if not path.is_file() or path.read_bytes() != content:
            kit.fault(path, "not what its .hex file assembles to")
    for path in kit.published():
        if path.suffix not in {".hex", ".json"} and path not in files:
            kit.fault(path, "no .hex file assembles to it")
    kit.lint()
    kit.compare_manifest(additions=True)
    return kit.faults


def write(root: Path, *, replace: bool) -> list[str]:
    """Assemble all cases and bring MANIFEST up to date; return the faults.

    Args:
        root: The folder of the kit.
        replace: Whether files in MANIFEST may change or be removed.
    """
    kit = Kit(root)
    files = kit.assembled()
    for path in kit.published():
        if path.suffix not in {".hex", ".json"} and path not in files:
            path.unlink()
    for path, content in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    if not replace:
        kit.compare_manifest(additions=False)
    if not kit.faults:
        lines = [f"{digest}  {name}\n" for name, digest in sorted(kit.digests().items())]
        (root / "MANIFEST").write_text("".join(lines), encoding="utf-8")
        kit.lint()
    return kit.faults


def main() -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(description="Assemble the cases of the conformance kit, and check the kit.")
    parser.add_argument("--check", action="store_true", help="change nothing, and report what is not current or wrong")
    parser.add_argument("--replace", action="store_true", help="allow changes of files that are in MANIFEST")
    parser.add_argument("--root", type=Path, default=ROOT, help="folder of the kit")
    arguments = parser.parse_args()
    root = arguments.root.resolve()
    faults = check(root) if arguments.check else write(root, replace=arguments.replace)
    sys.stderr.writelines(f"{fault}\n" for fault in faults)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
