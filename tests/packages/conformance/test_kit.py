"""The conformance kit: its files are current, its checks find faults, and fxtio reads its cases as they say."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema
import pytest
import referencing

import fxtio
from fxtio.codec.canonical import fields_of, type_of
from fxtio.conformance.judge import KnownFailures
from fxtio.conformance.kit import read_kit
from fxtio.conformance.reports import known_page
from fxtio.coreprofiler import records as coreprofiler
from fxtio.dcpi import records as dcpi
from fxtio.formats import formats
from fxtio.fxt import records as fxt
from fxtio.mono import records as mono
from fxtio.mono.headers import BufferHeader, StreamHeader
from support.checkout import CHECKOUT, run_python
from support.in_process import run_fxtio

KIT = CHECKOUT / "conformance"


def assembler() -> ModuleType:
    """Import conformance/assemble.py, which is in no package."""
    spec = importlib.util.spec_from_file_location("assemble", KIT / "assemble.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ASSEMBLE = assembler()
SUFFIXES = {name: row["suffix"] for name, row in ASSEMBLE.Kit(KIT).settings["formats"].items()}
DESCRIPTIONS = sorted((KIT / "cases").glob("*/*/*.json"))
INVALID_CASES = [each for each in DESCRIPTIONS if each.parent.name == "invalid"]
SCENARIOS = sorted((KIT / "scenarios").glob("*/*.json"))


def description(path: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return value


def assembled(text: str) -> bytes:
    state = ASSEMBLE.Assembler()
    for line in text.split("\n"):
        state.line(line)
    return bytes(state.output or b"")


# ---------------------------------------------------------------------------------------------- the assembler


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("u64 0x0016547846040010  # magic", "10 00 04 46 78 54 16 00"),
        ("order big\nu64 0x0016547846040010", "00 16 54 78 46 04 00 10"),
        ("order big\nu16 1\norder little\nu16 1", "00 01 01 00"),
        ("bits 0:3=4 4:15=3 63=1", "34 00 00 00 00 00 00 80"),
        ("bits 32:63=-1", "00 00 00 00 ff ff ff ff"),
        ("order big\nbits16 0:3=1", "00 01"),
        ("bits8 0:3=3 4:7=0x2", "23"),
        ("i8 -1\ni16 -2\ni32 -3", "ff fe ff fd ff ff ff"),
        ("f64 1.5", "00 00 00 00 00 00 f8 3f"),
        ("f32 -inf", "00 00 80 ff"),
        ("leb 0\nleb 127\nleb 128\nleb 0xffffffffffffffff", "00 7f 80 01 ff ff ff ff ff ff ff ff ff 01"),
        ("sleb 0\nsleb 63\nsleb 64\nsleb -64\nsleb -65", "00 3f c0 00 40 bf 7f"),
        ('text "a#b" pad 8  # not a comment within quotes', "61 23 62 00 00 00 00 00"),
        (r'text "\"#\u00e9\n"', "22 23 c3 a9 0a"),
        ("hex 01 0203 pad 4", "01 02 03 00"),
        ("hex 01020304 pad 4", "01 02 03 04"),
        ("fill 3 0xaa pad 4", "aa aa aa 00"),
        ("times 2 hex 01 02 pad 3", "01 02 00 01 02 00"),
        ("| a # b", "61 20 23 20 62 0a"),
        ("# nothing\n\n   ", ""),
    ],
)
def test_statements(text: str, expected: str) -> None:
    assert assembled(text) == bytes.fromhex(expected)


@pytest.mark.parametrize(
    "text",
    [
        "bits 0:3=16",
        "bits 0:3=1 3:4=1",
        "bits 60:64=1",
        "bits8 8=1",
        "bits 3:2=0",
        "bits 0-3=1",
        "bits 0:3=-9",
        "u8 256",
        "u64 -1",
        "u32 many",
        "leb -1",
        'text "open',
        "text bare",
        "hex 0",
        "fill 99999999999 0",
        "times 20000000 hex 00",
        "order middle",
        "word 1",
        "at ../outside",
    ],
)
def test_faults_of_statements(text: str) -> None:
    with pytest.raises(ASSEMBLE.HexError):
        assembled(text)


def test_directories(tmp_path: Path) -> None:
    source = tmp_path / "case.hex"
    source.write_text("at info\n| a\nat sub/1.dat\nu8 7\n", "utf-8")
    folder = tmp_path / "case"
    assert ASSEMBLE.assemble(source, "") == {folder / "info": b"a\n", folder / "sub/1.dat": b"\x07"}
    with pytest.raises(ValueError, match="directories"):
        ASSEMBLE.assemble(source, ".fxt")
    source.write_text("u8 7\nat info\n", "utf-8")
    with pytest.raises(ValueError, match="first `at`"):
        ASSEMBLE.assemble(source, "")


def test_the_place_of_a_fault_is_named(tmp_path: Path) -> None:
    source = tmp_path / "case.hex"
    source.write_text("u8 7\nu8 300\n", "utf-8")
    with pytest.raises(ValueError, match=r"case\.hex, line 2: 300"):
        ASSEMBLE.assemble(source, ".fxt")


# ------------------------------------------------------------------------------------------------- the kit's files


def test_the_kit_needs_only_the_standard_library() -> None:
    run_python("-S", "-I", str(KIT / "assemble.py"), "--help")


@pytest.mark.full
def test_the_kit_is_current_and_without_faults() -> None:
    assert len(ASSEMBLE.Kit(KIT).assembled()) > 500
    assert ASSEMBLE.check(KIT) == []


RULE = """
[fxt.framing.zero-size]
level = "required"
section = "Record header"
"""


def small_kit(folder: Path) -> Path:
    """Copy the kit without all cases but one and its neighbor."""
    root = folder / "kit"
    for name in ("schema", "kit.toml"):
        source = KIT / name
        (shutil.copytree if source.is_dir() else shutil.copyfile)(source, _made(root / name))
    for name in ("valid/magic", "invalid/framing.zero-size"):
        for suffix in (".hex", ".json", ".fxt"):
            shutil.copyfile(KIT / f"cases/fxt/{name}{suffix}", _made(root / f"cases/fxt/{name}{suffix}"))
    (root / "rules").mkdir()
    (root / "rules/fxt.toml").write_text(RULE, "utf-8")
    settings = (root / "kit.toml").read_text("utf-8")
    start, end = settings.index("tags = ["), settings.index("sections = [")
    settings = settings[:start] + 'tags = ["record.magic"]\n' + settings[end:]
    (root / "kit.toml").write_text(settings[: settings.index("[formats.fxt.without_case]")], "utf-8")
    assert ASSEMBLE.write(root, replace=False) == []
    assert ASSEMBLE.check(root) == []
    return root


def _made(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def edited(path: Path, old: str, new: str) -> None:
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), "utf-8")


VALID = "cases/fxt/valid/magic"
INVALID = "cases/fxt/invalid/framing.zero-size"


@pytest.mark.parametrize(
    ("name", "old", "new", "fault"),
    [
        (f"{VALID}.hex", "u64", "u32", "is not a value of u32"),
        (f"{VALID}.hex", "0016", "0017", "not what its .hex file assembles to"),
        (f"{VALID}.hex", "record", "Record", "differs from what was published"),
        (f"{VALID}.json", '"verdict": "valid"', '"verdict": "fine"', "the verdict is not valid"),
        (f"{VALID}.json", '"since": "1"', '"since": "2"', "since is not a version"),
        (f"{VALID}.json", "fxt/valid/magic", "fxt/valid/magics", "the id is not fxt/valid/magic"),
        (f"{VALID}.json", '"format": "fxt"', '"format": "ftx"', "the format is not that of the folder"),
        (f"{VALID}.json", '"tags": ["record.magic"]', '"tags": []', "no valid case of fxt has the tag record.magic"),
        (f"{VALID}.json", '"tags": ["record.magic"]', '"tags": []', "the tag record.magic is missing"),
        (f"{VALID}.json", "Magic number record (", "Magic record (", "the specification has no section"),
        (f"{VALID}.json", '"title"', '"name"', "keys are missing (['title']), unknown (['name'])"),
        (f"{VALID}.json", '{"type": "magic"}', '{"type": "magic", "optional": true}', "only an invalid case"),
        (f"{VALID}.json", '"tags"', '"remarks": ["fxt.framing.zero-size"], "tags"', "the verdict cannot be valid"),
        (f"{VALID}.json", '"expect": {', '"expect": {{', "not JSON"),
        (f"{INVALID}.json", "fxt.framing.zero-size", "fxt.framing.zero", "there is no rule fxt.framing.zero"),
        (f"{INVALID}.json", '"fxt.framing.zero-size"', "", "is not that of a rule that it breaks"),
        ("rules/fxt.toml", "zero-size", "other", "no case breaks the rule fxt.framing.other"),
        (
            "rules/fxt.toml",
            '"Record header"',
            '"Header"',
            "framing.zero-size: the specification has no section 'Header'",
        ),
    ],
)
def test_the_check_finds_faults(tmp_path: Path, name: str, old: str, new: str, fault: str) -> None:
    root = small_kit(tmp_path)
    edited(root / name, old, new)
    assert fault in "\n".join(ASSEMBLE.check(root))


EXACT = "scenarios/uftrace/exact-calls"


@pytest.mark.parametrize(
    ("name", "old", "new", "fault"),
    [
        (f"{EXACT}.hex", "u64 1000000100", "u64 1000000101", "1.dat: not what its .hex file assembles to"),
        (f"{EXACT}.hex", "at task.txt", "at tasks.txt", "exact-calls/task.txt: no .hex file assembles to it"),
        (f"{EXACT}.json", '["1.dat", "info", ', "[", "has the files ['1.dat', 'info', 'task.txt'], not ['task.txt']"),
        (f"{EXACT}.json", '"files": ["1.dat", "info", "task.txt"]', '"title": "x"', "a .hex file beside it belong"),
        (f"{EXACT}.json", '"files": [', '"bytes": "00", "x": [', "unknown (['x'])"),
        (f"{EXACT}.json", '"files": ["1.dat", "info", "task.txt"]', '"bytes": "00"', "formats whose traces are files"),
        (f"{EXACT}/info", "exename", "exenome", "exact-calls/info: not what its .hex file assembles to"),
        ("scenarios/fxt/exact-header.json", '"bytes": "', '"files": ["', "formats whose traces are directories"),
    ],
)
def test_the_check_finds_faults_of_exact_scenarios(tmp_path: Path, name: str, old: str, new: str, fault: str) -> None:
    root = small_kit(tmp_path)
    with (root / "kit.toml").open("a") as settings:
        settings.write('[formats.uftrace]\nsuffix = ""\ntags = []\nsections = ["The data (.dat) file"]\n')
    for scenario in (EXACT, "scenarios/fxt/exact-header"):
        for source in (KIT / scenario).parent.glob(f"{Path(scenario).name}*"):
            if source.is_dir():
                shutil.copytree(source, _made(root / scenario))
            elif source.stem == Path(scenario).name:
                shutil.copyfile(source, _made(root / scenario).with_name(source.name))
    assert ASSEMBLE.write(root, replace=False) == []
    content = (root / name).read_bytes()
    assert old.encode() in content
    (root / name).write_bytes(content.replace(old.encode(), new.encode()))
    if '"files": ["' in new:
        (root / name).write_bytes((root / name).read_bytes().replace(b'"\n}', b'"]\n}'))
    assert fault in "\n".join(ASSEMBLE.check(root))


@pytest.mark.parametrize("suffix", [".hex", ".json", ".fxt"])
def test_a_missing_file_is_found(tmp_path: Path, suffix: str) -> None:
    root = small_kit(tmp_path)
    (root / f"{VALID}{suffix}").unlink()
    assert f"{VALID}{suffix}: published before, but missing" in ASSEMBLE.check(root)


def test_a_further_file_is_found(tmp_path: Path) -> None:
    root = small_kit(tmp_path)
    (root / "cases/fxt/valid/more.fxt").write_bytes(b"")
    assert "cases/fxt/valid/more.fxt: no .hex file assembles to it" in ASSEMBLE.check(root)
    assert "cases/fxt/valid/more.fxt: not in MANIFEST" in ASSEMBLE.check(root)


def test_published_cases_change_on_request_only(tmp_path: Path) -> None:
    root = small_kit(tmp_path)
    edited(root / f"{VALID}.hex", "Magic number record", "The magic number")
    assert ASSEMBLE.write(root, replace=False) == [f"{VALID}.hex: differs from what was published"]
    assert ASSEMBLE.write(root, replace=True) == []
    assert ASSEMBLE.check(root) == []


# ---------------------------------------------------------------------------------------------------- the schemas


def validator(name: str) -> jsonschema.Draft202012Validator:
    schema = json.loads((KIT / "schema" / name).read_text("utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema, registry=referencing.Registry())


@pytest.mark.once
@pytest.mark.parametrize(("name", "paths"), [("case.json", DESCRIPTIONS), ("scenario.json", SCENARIOS)])
def test_descriptions_match_their_schema(name: str, paths: list[Path]) -> None:
    schema = validator(name)
    faults = {path: error.message for path in paths for error in schema.iter_errors(description(path))}
    assert faults == {}


@pytest.mark.full
@pytest.mark.once
@pytest.mark.parametrize("format_name", SUFFIXES)
def test_expectations_match_the_schema_of_canonical_json(format_name: str) -> None:
    """Records that several cases have are validated once."""
    records: dict[str, Any] = {}
    for path in [*DESCRIPTIONS, *SCENARIOS]:
        value = description(path)
        if value["format"] == format_name:
            for record in [*value["expect"]["records"], *value.get("write", ())]:
                records[json.dumps(record, sort_keys=True)] = record
    whole = [record for record in records.values() if "optional" not in record]
    assert whole
    validator(f"canonical-{format_name}.json").validate({"format": format_name, "records": whole})


IMPLIED = {"type", "provider", "rate", "thread_id", "os_thread_id"}
"""The keys of canonical records that are not fields of the records themselves."""

RECORDS: dict[str, tuple[type[Any], ...]] = {
    "fxt": fxt.RECORDS.classes,
    "mono": (*mono.EVENTS, StreamHeader, BufferHeader),
    "coreprofiler": coreprofiler.RECORDS,
    "dcpi": dcpi.RECORDS,
}


@pytest.mark.parametrize("format_name", RECORDS)
def test_the_schema_of_canonical_json_has_the_names_of_the_declarations(format_name: str) -> None:
    """The schema is written by hand, so that the kit inherits no mistake of fxtio; both must say the same.

    Mono's events with an action are of several types, which together have the fields.
    """
    definitions = json.loads((KIT / "schema" / f"canonical-{format_name}.json").read_text("utf-8"))["$defs"]
    stated: dict[str, set[str]] = {}
    declared: dict[str, set[str]] = {}
    exact = {type_of(cls) for cls in RECORDS[format_name]}
    for name, form in definitions.items():
        for cls in RECORDS[format_name]:
            kind = type_of(cls)
            if (name if name in exact else name.rpartition("-")[0]) == kind:
                stated.setdefault(kind, set()).update(form["properties"].keys() - IMPLIED)
                names = {field.outer or field.name for field in fields_of(cls) if field.is_canonical}
                declared.setdefault(kind, set()).update(names - IMPLIED)
    assert len(stated) > 2
    assert stated == declared


def test_the_schema_of_canonical_json_refuses_numbers_and_further_keys() -> None:
    canonical = validator("canonical-fxt.json")
    good = {"type": "provider-section", "provider_id": "1"}
    canonical.validate({"format": "fxt", "records": [good]})
    for bad in ({**good, "provider_id": 1}, {**good, "provider_id": "01"}, {**good, "more": "1"}, {"type": "magics"}):
        with pytest.raises(jsonschema.ValidationError):
            canonical.validate({"format": "fxt", "records": [bad]})


# ------------------------------------------------------------------------------------------------- the scenarios

DROPPED = {
    "fxt": {"magic", "string", "thread", "provider-section"},
    "uftrace": {"info", "info-line", "mapping", "symbol", "kernel-format"},
}
STORAGE = {"fxt": {"slot", "inline", "index"}, "uftrace": {"address", "sid", "base", "size", "module"}}


def without_keys(value: Any, keys: set[str]) -> Any:
    """Return a value of canonical JSON without the keys that say how something is stored."""
    if isinstance(value, dict):
        return {key: without_keys(item, keys) for key, item in value.items() if key not in keys}
    return [without_keys(item, keys) for item in value] if isinstance(value, list) else value


def resolved(format_name: str, records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the resolved form of records, by CANONICAL.md."""
    if format_name in STORAGE:
        dropped = DROPPED[format_name]
        return [without_keys(record, STORAGE[format_name]) for record in records if record["type"] not in dropped]
    meaning, thread = [], {}
    for record in records:
        if record["type"] == "buffer":
            thread = {"thread_id": record["thread_id"]}
        else:
            meaning.append(record if record["type"] == "header" else {**thread, **record})
    return meaning


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: f"{path.parts[-2]}/{path.stem}")
def test_scenarios_expect_what_they_ask_for(path: Path, tmp_path: Path) -> None:
    scenario = description(path)
    assert resolved(scenario["format"], scenario["write"]) == scenario["expect"]["records"]
    if "bytes" in scenario:
        file = tmp_path / f"exact{SUFFIXES[scenario['format']]}"
        file.write_bytes(bytes.fromhex(scenario["bytes"]))
        with fxtio.open(file) as trace:
            assert sum(1 for _ in trace) > 0
            assert list(trace.findings) == []


# ---------------------------------------------------------------------------------------- the cases, read by fxtio


@pytest.mark.full
@pytest.mark.parametrize("path", DESCRIPTIONS, ids=lambda path: f"{path.parts[-3]}/{path.parent.name}/{path.stem}")
def test_the_rules_find_what_the_case_says(path: Path) -> None:
    case = description(path)
    broken = set(case.get("rules", []))
    with fxtio.open(path.with_name(path.stem + SUFFIXES[case["format"]])) as trace:
        formats()[case["format"]].rules.check(trace)
        found = {finding.rule for finding in trace.findings}
    assert broken <= found <= {*broken, *case.get("remarks", [])}


READING = {
    **{command: list[str]() for command in ("info", "dump", "stats", "top", "tree", "find", "timeline")},
    "query": ["select 1 from slice"],
    "report": ["-o", "{out}.html"],
    "convert": ["{out}", "--to", "parquet"],
    "diff": ["{trace}"],
    "validate": ["--fail-on", "robustness"],
}
"""The commands that read traces, with what they need besides one.

Left out are those that write a part of a trace, and `check`, `explain` and `open`, whose statuses mean something else.
"""

TURNS = 8
"""A case is read by `dump` and `validate`, and by one in eight of the other commands, which take turns."""


@pytest.mark.full
@pytest.mark.once
@pytest.mark.parametrize(
    ("turn", "path"), list(enumerate(INVALID_CASES)), ids=[f"{path.parts[-3]}/{path.stem}" for path in INVALID_CASES]
)
def test_all_commands_say_that_a_case_is_invalid(turn: int, path: Path, tmp_path: Path) -> None:
    """The status is 1 if findings are printed, and never else; dump has those of all commands, validate more."""
    trace = path.with_name(path.stem + SUFFIXES[description(path)["format"]])
    codes = {}
    chosen = {"dump", "validate", *list(READING)[turn % TURNS :: TURNS]}
    for command, more in ((name, READING[name]) for name in READING if name in chosen):
        done = run_fxtio(command, str(trace), *(each.format(out=tmp_path / command, trace=trace) for each in more))
        if command != "validate":  # whose findings are its output
            has_findings = re.search(r"^fxtio: .*\d findings?$", done.stderr, re.MULTILINE) is not None
            assert (done.returncode == 1) == has_findings, (command, done.stderr)
        codes[command] = done.returncode
    assert codes.pop("validate") == 1
    assert 2 not in codes.values() or {*codes.values()} == {2}
    assert codes["dump"] == max(codes.values())


# ------------------------------------------------------------------------------------------------- pages about programs


@pytest.mark.parametrize("path", sorted((KIT / "known").glob("*.toml")), ids=lambda path: path.stem)
def test_a_page_about_a_program_has_each_case_that_it_fails_once(path: Path) -> None:
    known = KnownFailures.read(path)
    cases = read_kit(KIT).select([next(iter(known.reasons)).partition("/")[0]], (), "read")
    page = known_page("the_program", known, cases)
    assert page.startswith("# the\\_program\n")
    failing = [case.id for case in cases if known.reason(case.id)]
    assert f"known to fail {len(failing)}." in page
    assert sorted(re.findall(r"^- .*: `([^`]+/[^`]+)`, which (?:breaks|is valid)", page, re.MULTILINE)) == sorted(
        failing
    )
    assert page.count("\n## ") == len({*known.reasons.values()})
