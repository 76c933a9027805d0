"""Findings as lines of text: grouped by rule, each with what to do about it and with the bytes of its first findings.

The bytes are those that `fxtio explain` shows of the record at the offset of the finding.  A finding of a file of a
directory that has no records is shown as plain bytes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import fxtio
from fxtio.codec.annotation import BOLD, PLAIN, RED, AnnotatedRecord, ByteRange, lines_of
from fxtio.errors import FxtioError
from fxtio.finding import Finding
from fxtio.formats import by_name
from fxtio.io.reading import can_reopen
from fxtio.report import counted, human_size, printable
from fxtio.rules import Rule
from fxtio.validate import REQUIRED, Validation

if TYPE_CHECKING:
    from fxtio.formats import DirectoryExplainRoom

MAX_OFFSET = 16 * 2**20
"""The greatest offset in bytes at which a record is shown, since the trace is read again up to there."""

MAX_SECONDS = 5.0
"""When showing the records of a trace has taken so long, no further ones are shown."""

_OFFSETS_SHOWN = 5
_BYTES_SHOWN = 32
_WORD = 8


def text_of(validation: Validation, target: Any, *, shown: int = 1, color: bool = False) -> Iterator[str]:
    """Yield the lines of text that report a validation.

    Args:
        validation: the result.
        target: what was read; if it can be opened again, bytes are shown.
        shown: of how many findings of each rule the bytes are shown.
        color: use escape sequences of terminals.
    """
    bold, red, plain = (BOLD, RED, PLAIN) if color else ("", "", "")
    size = None if validation.size is None else human_size(validation.size)
    kind = ", ".join(filter(None, [validation.format, validation.compression, size]))
    verdict = f"{red}{_numbers(validation)}" if validation.total else "valid"
    yield f"{bold}{printable(validation.name)}: {verdict}{plain} ({kind})"
    if validation.unselected:
        yield f"  {counted(validation.unselected, 'finding')} of rules that are not selected"
    deadline = time.monotonic() + MAX_SECONDS
    for rule in validation.broken:
        findings = validation.findings_of(rule.id)
        yield ""
        tint = red if rule.level == REQUIRED else ""
        yield f"{bold}{tint}{rule.level}: {rule.id}, {_places(findings, validation.counts[rule.id])}{plain}"
        yield from (f"  {line}" for line in _advice(rule))
        for finding in findings[:shown]:
            record = None if time.monotonic() > deadline else record_of(target, finding, validation.format)
            lines = [f"! {printable(str(finding))}"] if record is None else lines_of(record, color=color)
            yield from ("", *(f"  {line}" for line in lines))


def _numbers(validation: Validation) -> str:
    """Return how many findings there are: `3 findings of 2 rules`."""
    findings = counted(validation.total, "finding")
    return findings if validation.total == 1 else f"{findings} of {counted(len(validation.counts), 'rule')}"


def _places(findings: list[Finding], number: int) -> str:
    """Return how often a rule is broken, and first where: `3 findings, at bytes 16, 40, 64`, or `at task.txt:16`."""
    first = findings[:_OFFSETS_SHOWN]
    places = [f"{finding.file}:{finding.offset}" if finding.file else f"{finding.offset:,}" for finding in first]
    unit = "" if any(finding.file for finding in first) else "byte " if number == 1 else "bytes "
    more = ", ..." if number > len(places) else ""
    return f"{counted(number, 'finding')}, at {unit}{printable(', '.join(places))}{more}"


def _advice(rule: Rule) -> Iterator[str]:
    """Yield what is wrong, why it matters, and how to fix it."""
    if rule.summary == rule.id:  # the rule is not declared, as those of another distribution's format
        return
    section = f' (section "{rule.section}")' if rule.section else ""
    yield f"{rule.summary[:1].upper()}{rule.summary[1:]}{section}."
    for title, text in (("Why", rule.why), ("Fix", rule.fix), ("Known", rule.also)):
        if text:
            yield f"{title}: {text}"


def record_of(target: Any, finding: Finding, format: str) -> AnnotatedRecord | None:
    """Return the annotated record at the place of a finding, in which the finding is marked.

    Args:
        target: the trace, see `fxtio.open`.
        finding: the finding.
        format: the name of the trace's format.

    Returns:
        The record; None if the trace cannot be read again, or if the place is too far after its beginning.
    """
    is_directory = by_name(format).directory
    if not (is_directory or can_reopen(target)) or not 0 <= finding.offset <= MAX_OFFSET:
        return None
    try:
        with fxtio.open(target, format=format) as trace:
            room = by_name(format).explain
            offset: int | None = finding.offset
            if is_directory:
                offset = cast("DirectoryExplainRoom", room).offset_of(trace, finding)
            if offset is None:
                return _bytes_at(Path(target, finding.file), finding)
            records = room.explain(trace, record=None, offset=offset, kinds=None)
            record = next(records, None)
    except (OSError, FxtioError):  # the trace is not what it was
        return None
    return None if record is None else _marked(record, finding, offset)


def _bytes_at(path: Path, finding: Finding) -> AnnotatedRecord | None:
    """Return the bytes of a file at the place of a finding; None if there is no such file."""
    if path.is_symlink() or not path.is_file():
        return None
    begin = finding.offset - finding.offset % _WORD
    with path.open("rb") as file:
        file.seek(begin)
        raw = file.read(_BYTES_SHOWN)
    text = raw.decode("ascii", "replace").replace("\ufffd", ".")
    return AnnotatedRecord(None, begin, len(raw), finding.file, "", [ByteRange(0, raw, "bytes", repr(text))], [finding])


def _marked(record: AnnotatedRecord, finding: Finding, offset: int) -> AnnotatedRecord:
    """Return a record with a finding: on the bytes at its offset, or above them if it is about the whole record.

    Findings of other rules are left out.
    """
    record = replace(record, findings=[each for each in record.findings if each.rule == finding.rule])
    if finding.message in record.faults:
        return record
    place = offset - record.offset
    for index, byte_range in enumerate(record.ranges):
        if place > 0 and byte_range.offset <= place < byte_range.offset + len(byte_range.raw) and not byte_range.fault:
            ranges = [*record.ranges]
            ranges[index] = replace(byte_range, fault=finding.message)
            return replace(record, ranges=ranges)
    return replace(record, findings=[*record.findings, finding])
