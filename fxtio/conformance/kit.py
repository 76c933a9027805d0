"""The conformance kit: its folder, its cases and its scenarios, as data.

The kit is the folder `conformance/` of the repository.  An installed package has it as an archive, see
`fxtio.conformance.files`.  `conformance/README.md` describes its files, and `fxtio conformance copy` copies it.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path, PurePath
from typing import Any

from fxtio.conformance.files import Place, unpacked
from fxtio.errors import FxtioError
from fxtio.rules import folder as kit_folder
from fxtio.rules import rules_of

READ, WRITE = "read", "write"

DESCRIPTION = "kit.toml"
"""The file that every kit has: its version and the suffixes of its formats."""


class KitError(FxtioError):
    """An error: the kit is missing, or a file of it is wrong."""


@dataclass(frozen=True)
class Case:
    """One case of the kit: a trace to read, or a scenario to write.

    Attributes:
        id: the id, which is its path in the kit, such as `fxt/valid/instant` or, for a scenario, `fxt/spans`.
        format: the name of the format.
        operation: `read` or `write`.
        title: one line that says what the case tests.
        path: the trace, or the scenario.
        records: the canonical records that a reader must deliver, or what the written trace must mean.
        tags: the features that the testee needs.
        rules: the ids of the rules that an invalid trace breaks.
        remarks: the ids of further rules, none of them required, that the trace cannot avoid to break.
        is_valid: whether the trace is valid; true for scenarios.
        may_refuse: whether a reader may refuse the trace as a whole; false for scenarios.
        write: for scenarios, the canonical records to write.
        files: for scenarios, the only right bytes of some files of a directory, by name.
        bytes: for scenarios, the only right bytes, or None.
    """

    id: str
    format: str
    operation: str
    title: str
    path: Place
    records: tuple[Mapping[str, Any], ...]
    tags: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    is_valid: bool = True
    may_refuse: bool = False
    write: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    bytes: bytes | None = None


@dataclass(frozen=True)
class Kit:
    """A conformance kit.

    Attributes:
        folder: the folder, which may be in an archive.
        version: the version of the kit, such as `1`.
        suffixes: the endings of the names of traces that a harness gets or writes, by format.
        cases: the cases, those to read before those to write, by id.
    """

    folder: Place
    version: str
    suffixes: Mapping[str, str]
    cases: tuple[Case, ...]

    @property
    def formats(self) -> tuple[str, ...]:
        """The formats that have cases."""
        return tuple(dict.fromkeys(case.format for case in self.cases))

    def select(self, formats: Iterable[str] = (), patterns: Iterable[str] = (), operation: str = "") -> list[Case]:
        """Return some cases; nothing given means all.

        Args:
            formats: the formats, each by its name.
            patterns: what one of the ids must match, such as `fxt/valid/*`.
            operation: `read` or `write`.

        Raises:
            KitError: a format or a pattern selects nothing, or all together do.
        """
        chosen_formats, chosen_patterns = tuple(formats), tuple(patterns)
        for name in chosen_formats:
            if name not in self.formats:
                raise KitError(f"the kit has no cases of the format {name!r}, only of {', '.join(self.formats)}")
        selected = [case for case in self.cases if not chosen_formats or case.format in chosen_formats]
        selected = [case for case in selected if operation in ("", case.operation)]
        for pattern in chosen_patterns:
            if not any(fnmatchcase(case.id, pattern) for case in selected):
                raise KitError(f"no case matches {pattern!r}; `fxtio conformance list` prints all")
        if chosen_patterns:
            selected = [case for case in selected if any(fnmatchcase(case.id, item) for item in chosen_patterns)]
        if not selected:
            raise KitError("there are no cases")
        return selected


def find_folder(folder: str | Path | None = None) -> Place:
    """Return the folder of the kit: the one given, else that of the installed package or of the checkout.

    Raises:
        KitError: it is not there, or is not a kit.
    """
    place = unpacked(kit_folder()) if folder is None else Path(folder)
    if not (place / DESCRIPTION).is_file():
        raise KitError(f"{place} is not a conformance kit: it has no file {DESCRIPTION}")
    return place


def read_kit(folder: str | Path | None = None) -> Kit:
    """Read the kit in a folder, or the one that belongs to this package.

    Raises:
        KitError: the kit is missing, or a file of it is wrong.
    """
    place = find_folder(folder)
    version, suffixes = _description(place)
    cases = sorted(_cases(place), key=lambda case: case.id)
    scenarios = sorted(_scenarios(place), key=lambda case: case.id)
    seen: set[str] = set()
    for case in [*cases, *scenarios]:
        if case.id in seen:
            raise KitError(f"{case.path}: the id {case.id} is used twice")
        seen.add(case.id)
        if case.format not in suffixes:
            raise KitError(f"{case.path}: {DESCRIPTION} has no format {case.format!r}")
    return Kit(place, version, suffixes, (*cases, *scenarios))


def broken_traces(format: str) -> dict[str, Place]:
    """Return the traces of the kit that break one rule each: for the id of the rule the file or directory.

    Args:
        format: the name of the format; there are none for one that the kit does not have.

    Raises:
        KitError: the kit is missing.
    """
    cases = find_folder() / "cases" / format / "invalid"
    traces = _traces_by_stem(cases.iterdir()) if cases.is_dir() else {}
    ids = {f"{format}.{stem}": paths[0] for stem, paths in sorted(traces.items())}
    return {rule: ids[rule] for rule in rules_of(format) if rule in ids}


def _description(folder: Place) -> tuple[str, dict[str, str]]:
    """Return the version of a kit, and the suffixes of the traces of its formats."""
    path = folder / DESCRIPTION
    try:
        content = tomllib.loads(path.read_text("utf-8"))
        formats = content["formats"].items()
        suffixes = {name: str(item.get("suffix") or item.get("directory_suffix", "")) for name, item in formats}
        return str(content["version"]), suffixes
    except (ValueError, KeyError, AttributeError, OSError) as error:
        raise KitError(f"{path} cannot be read: {error!r}") from error


def _folders(folder: Place, depth: int, prefix: str = "") -> Iterator[tuple[str, list[Place]]]:
    """Yield the folders that are `depth` levels below one: with what the ids of their files begin, and these files."""
    entries = list(folder.iterdir()) if folder.is_dir() else []
    if not depth:
        yield prefix, entries
        return
    for entry in entries:
        yield from _folders(entry, depth - 1, f"{prefix}{entry.name}/")


def _descriptions(prefix: str, entries: Iterable[Place]) -> Iterator[tuple[Place, dict[str, Any]]]:
    """Yield the files of a folder that are descriptions, and what they say; the id of each must be its path."""
    for path in entries:
        name = PurePath(path.name)
        if name.suffix != ".json":
            continue
        try:
            content = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise KitError(f"{path} cannot be read: {error}") from error
        expected = prefix + name.stem
        if not isinstance(content, dict) or content.get("id") != expected:
            raise KitError(f"{path}: it must be an object with the id {expected!r}")
        yield path, content


def _cases(kit: Place) -> Iterator[Case]:
    for prefix, entries in _folders(kit / "cases", 2):
        traces = _traces_by_stem(entries)
        for path, content in _descriptions(prefix, entries):
            try:
                yield Case(
                    content["id"],
                    content["format"],
                    READ,
                    content["title"],
                    _trace_beside(path, traces),
                    tuple(content["expect"]["records"]),
                    tuple(content["tags"]),
                    tuple(content.get("rules", ())),
                    tuple(content.get("remarks", ())),
                    content["verdict"] == "valid",
                    "refuse" in content["expect"],
                )
            except (KeyError, TypeError) as error:
                raise KitError(f"{path}: {error} is missing or wrong") from error


def _traces_by_stem(entries: Iterable[Place]) -> dict[str, list[Place]]:
    """Return the traces in a folder of cases: for the name of each case the files and directories that have it."""
    traces: dict[str, list[Place]] = {}
    for path in entries:
        name = PurePath(path.name)
        if name.suffix and name.suffix not in {".json", ".hex"}:
            traces.setdefault(name.stem, []).append(path)
        if path.is_dir():
            traces.setdefault(path.name, []).append(path)
    return traces


def _trace_beside(description: Place, traces: Mapping[str, Sequence[Place]]) -> Place:
    """Return the trace that belongs to the description of a case: the file or directory of the same name."""
    beside = traces.get(PurePath(description.name).stem, ())
    if len(beside) != 1:
        raise KitError(f"{description}: there must be one trace beside it, but there are {len(beside)}")
    return beside[0]


def _scenarios(kit: Place) -> Iterator[Case]:
    for prefix, entries in _folders(kit / "scenarios", 1):
        for path, content in _descriptions(prefix, entries):
            try:
                marked = content.get("bytes")
                yield Case(
                    content["id"],
                    content["format"],
                    WRITE,
                    content["title"],
                    path,
                    tuple(content["expect"]["records"]),
                    tuple(content["tags"]),
                    write=tuple(content["write"]),
                    bytes=None if marked is None else bytes.fromhex(marked),
                    files=_exact_files(kit / "scenarios" / content["id"], content.get("files", ())),
                )
            except (KeyError, TypeError, ValueError, OSError) as error:
                raise KitError(f"{path}: {error} is missing or wrong") from error


def _exact_files(folder: Place, names: Sequence[str]) -> dict[str, bytes]:
    """Return the contents of files in the directory of a scenario, by name.

    Raises:
        OSError: a file cannot be read.
        ValueError: a name leads out of the directory.
    """
    for name in names:
        if PurePath(name).is_absolute() or ".." in PurePath(name).parts:
            raise ValueError(f"{name!r} is not a file of the directory")
    return {name: (folder / name).read_bytes() for name in names}
