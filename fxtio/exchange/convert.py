"""Convert a timeline to a file of any format that can express it, in whole or with losses that are counted.

The file appears only when it is complete: it is written under another name, or to a temporary file if the target is a
pipe, or a receiver of spans, which gets them by HTTP.  If the events of a trace turn out to be out of order, it is read
and written again.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from fxtio.errors import FormatError, FxtioError, require_type
from fxtio.exchange import by_suffix as exchange_by_suffix
from fxtio.exchange import exchanges
from fxtio.exchange.collect import StackExporter
from fxtio.exchange.filter import Plan, Simplification
from fxtio.exchange.opening import open_timeline
from fxtio.exchange.table_files import Exporter as TableExporter
from fxtio.formats import Exporter, by_name, by_suffix, formats
from fxtio.io.sink import Sink, open_sink, temporary_file, whole_directory, whole_file
from fxtio.selection import Selection
from fxtio.timeline.answers.answer import Times
from fxtio.timeline.parts import Registry
from fxtio.timeline.timeline import Timeline
from fxtio.timeline.typecheck import check_types

Losses = Counter[str]
"""Phrases for the content that a conversion could not carry over, and how often it occurred."""

Tell = Callable[[int, int], object]
"""Is told how much of what is sent was taken so far, and how much there is."""

_SHOWN = 3
_OF_RECEIVERS = "otlp"


class LossError(FxtioError):
    """An error: the target cannot express the whole trace, and nothing was written.

    Attributes:
        losses: what it cannot express.
    """

    def __init__(self, target: str, losses: Losses) -> None:
        self.losses = losses
        listed = "; ".join(f"{phrase}: {count:,}" for phrase, count in islice(losses.most_common(), _SHOWN))
        more = f"; and {len(losses) - _SHOWN} more" if len(losses) > _SHOWN else ""
        super().__init__(f"{target} is not written, because it would lose something: {listed}{more}")


class UntimedError(FxtioError):
    """An error: a trace is a profile without times, so no timeline of it can be shown or written.

    Args:
        name: the name of the trace.
    """

    def __init__(self, name: str) -> None:
        others = [name for name, exporter in exporters().items() if _has_sums(exporter)]
        super().__init__(
            f"{name} has no times, so no timeline of it can be shown; `fxtio top` and `fxtio tree` show it, "
            f"and it can be converted to {', '.join(others)}"
        )


def _has_sums(exporter: type[Exporter]) -> bool:
    """Return whether a format has the weights of stacks, whenever they were taken."""
    return issubclass(exporter, StackExporter | TableExporter)


def exporters() -> dict[str, type[Exporter]]:
    """Return the exporters by the names of their formats."""
    own = {name: each.exporter for name, each in formats().items()}
    others = {name: each.exporter for name, each in exchanges().items() if each.exports}
    return {name: cls for name, cls in own.items() if cls is not None} | others


def is_receiver(target: str | Path) -> bool:
    """Return whether a target is the URL of a receiver of spans, see `fxtio.exchange.otlp_http`."""
    return str(target).lower().startswith(("http://", "https://"))


def format_of(target: str) -> str:
    """Return the name of the format whose files have the suffix of a path; that of receivers of spans is OTLP.

    Raises:
        FormatError: there is none.
    """
    if is_receiver(target):
        return _OF_RECEIVERS
    chosen = exchange_by_suffix(target) or by_suffix(target)
    if chosen is None:
        names = ", ".join(exporters())
        raise FormatError(f"the ending of {target} is not that of a format; choose one (--to): {names}")
    return chosen.name


def convert(
    timeline: Timeline,
    target: str | Path,
    *,
    to: str | None = None,
    strict: bool = False,
    selection: Selection | None = None,
    table: str | None = None,
    simplification: Simplification | None = None,
    when_empty: Callable[[], object] | None = None,
    when_sent: Tell | None = None,
) -> Losses:
    """Write a timeline to a file, or to a directory where traces of the format are directories, or send its spans.

    A trace that already is of the format is copied byte for byte, unless it is simplified.  A format that cuts its own
    traces does so first, which is faster than to read their timelines.

    Args:
        timeline: what to write.
        target: a path (`.gz`, `.zst` and `.xz` compress a file), or `-` for standard output, or the URL of a receiver
            of spans (OTLP over HTTP), which gets them when the whole trace has been read.
        to: the name of the format; by default it is that of the suffix.
        strict: refuse to lose anything but what is left out.
        selection: the part to write; everything by default.
        table: the name of the only table to write, for formats of tables, whose target is a file then.
        simplification: what is left out; nothing by default.
        when_empty: called if nothing is selected; the target is written nevertheless.
        when_sent: called with the number of bytes that a receiver took so far, and that of all.

    Returns:
        What was lost, and what was left out.

    Raises:
        LossError: something would be lost, and `strict` is set.
        UntimedError: nothing has a time, and the format has only what has one.
        FormatError: there is no such format, or nothing can be converted to it; a directory cannot be written there.
        DecodeError: the trace was opened with `strict`, and has a fault.
        DeliveryError: a receiver did not take all spans.
        OSError: the target cannot be written.
        TypeError: an argument is of a wrong type.
    """
    check_types(timeline=timeline, target=target, to=to, selection=selection, table=table)
    check_types(when_empty=when_empty, when_sent=when_sent)
    require_type(simplification, (Simplification, type(None)), "a simplification is a Simplification or None")
    name, plan = to or format_of(str(target)), Plan(selection, simplification)
    is_same = timeline.trace is not None and timeline.format == name and plan.simplification.is_nothing
    if is_same and plan.is_everything:
        with _new(target, name)() as place, by_name(name).create(place) as writer:
            writer.copy(timeline.trace)
        return Losses()
    if not plan.selection.is_everything and timeline.trace is not None and by_name(timeline.format).cut is not None:
        options: dict[str, Any] = {"to": name, "strict": strict, "table": table, "simplification": simplification}
        options["when_sent"] = when_sent
        return _cut(timeline, plan.selection, target, None if is_same else options, when_empty)
    new = _new(target, name, table, when_sent)
    losses, is_empty = _export(timeline, _Attempt(target, _exporter_of(name, table), new), plan, strict=strict)
    if is_empty and not plan.selection.is_everything and when_empty is not None:
        when_empty()
    return losses


def _new(
    target: str | Path, name: str, table: str | None = None, when_sent: Tell | None = None
) -> Callable[[], AbstractContextManager[Any]]:
    """Return what opens a target of a format, which is a directory if traces of it are; but a table is a file.

    Raises:
        FormatError: a receiver does not take this format.
    """
    if is_receiver(target) and name != _OF_RECEIVERS:
        raise FormatError(f"a receiver takes {_OF_RECEIVERS}, not {name}; write a file, and copy it there")
    is_directory = getattr(formats().get(name) or exchanges().get(name), "directory", False)
    return partial(whole_directory, target) if is_directory and table is None else partial(_whole, target, when_sent)


def _exporter_of(name: str, table: str | None) -> type[Exporter]:
    """Return the exporter of a format, or of one of its tables.

    Raises:
        FormatError: there is none.
    """
    exporter = exporters().get(name)
    if exporter is None:
        raise FormatError(f"nothing can be converted to {name!r}, only to {', '.join(exporters())}")
    if table is None:
        return exporter
    if not issubclass(exporter, TableExporter):
        raise FormatError(f"a file of {name} does not have one table; this is for parquet, arrow and csv")
    return exporter.of_table(table)


def _cut(
    timeline: Timeline,
    selection: Selection,
    target: str | Path,
    options: dict[str, Any] | None,
    when_empty: Callable[[], object] | None,
) -> Losses:
    """Write a part of a trace whose format cuts its own traces.

    Args:
        timeline: the timeline of the trace.
        selection: the part.
        target: where it is written to.
        options: those of `convert` for the part, which is written to a temporary file first; None to write it as it is.
        when_empty: called if nothing is selected.
    """
    cutting = by_name(timeline.format).cut
    assert cutting is not None
    with tempfile.TemporaryDirectory(prefix="fxtio-") as folder:
        part = target if options is None else Path(folder, "part")
        if cutting.cut(timeline.trace, selection, part).is_empty and when_empty is not None:
            when_empty()
        if options is None:
            return Losses()
        with open_timeline(part) as rest:
            return convert(rest, target, **options)


def _export(timeline: Timeline, attempt: _Attempt, plan: Plan, *, strict: bool) -> tuple[Losses, bool]:
    """Write a timeline by way of its tables; return what was lost, or left out, and whether nothing was written.

    Raises:
        LossError: something would be lost, and `strict` is set.
        UntimedError: nothing has a time, and the format has nothing but what happened at a time.
    """
    with attempt:
        passed, registry = plan.fold(timeline, attempt.exporter.TABLES, attempt.begin, Times)
        if passed.watcher.is_profile and not _has_sums(attempt.exporter):
            raise UntimedError(timeline.name)
        passed.finish()
        passed.target.finish()
        losses: Losses = +(registry.losses + passed.target.losses)
        if not attempt.exporter.WRITES_LABELS:
            losses += Losses(labels=len(registry.labels))
        if strict and losses:
            raise LossError(str(attempt.target), losses)
    return losses + passed.left_out, passed.is_empty


class _Attempt:
    """An exporter and its target, which a second call of `begin` replaces by new ones.

    Args:
        target: the name of the target.
        exporter: the class of the exporter.
        new: returns what opens the target.
    """

    def __init__(
        self, target: str | Path, exporter: type[Exporter], new: Callable[[], AbstractContextManager[Any]]
    ) -> None:
        self.target = target
        self.exporter = exporter
        self._new = new
        self._place: AbstractContextManager[Any] | None = None

    def __enter__(self) -> _Attempt:
        return self

    def __exit__(self, *exception: Any) -> None:
        if self._place is not None:
            self._place.__exit__(*exception)

    def begin(self, registry: Registry) -> Exporter:
        """Return a new exporter; what an earlier one wrote is discarded."""
        if self._place is not None:
            again = FxtioError("written again")
            self._place.__exit__(FxtioError, again, None)
        self._place = self._new()
        place: Any = self._place.__enter__()
        return self.exporter(place, registry)


@contextmanager
def _whole(target: str | Path, when_sent: Tell | None = None) -> Iterator[Sink]:
    """Open a sink for a `with` block; the target gets its bytes only when the block has ended without an error."""
    if is_receiver(target):
        from fxtio.exchange.otlp_http import Receiver

        receiver = Receiver(str(target))  # now, so that a wrong URL is an error before the trace is read
        with temporary_file() as file:
            yield Sink(file, owned=False)
            receiver.send(file, when_sent)
        return
    path = Path(target)
    if str(target) != "-" and (path.is_file() or not path.exists()):
        with whole_file(target) as sink:
            yield sink
        return
    with temporary_file() as file:
        yield Sink(file, owned=False)
        file.seek(0)
        with closing(open_sink(str(target))) as sink:
            shutil.copyfileobj(file, sink)
