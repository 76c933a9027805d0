"""Combine data directories into one: the tasks, sessions and events of all, on the clock that they share.

Records stay as they are.  The traces must come from machines of one kind and one clock, and have tasks of their own;
what both have, such as the symbols of a library, must be the same.  Sessions with the same id get others.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any

import msgspec

from fxtio.formats import MergeError
from fxtio.io.sink import whole_directory
from fxtio.report import counted
from fxtio.uftrace import kernel, perf
from fxtio.uftrace.directory import StoredFile
from fxtio.uftrace.events import EXTERN_FILE, NAMES_FILE, EventsFile, ExternFile
from fxtio.uftrace.info import INFO_FILE, InfoFile
from fxtio.uftrace.layout import Feature
from fxtio.uftrace.reader import UftraceTrace
from fxtio.uftrace.small_files import SmallFiles
from fxtio.uftrace.state import map_name
from fxtio.uftrace.tasks import BINARY, TEXT, BinaryTaskFile, Dlopen, Session, TaskEvent, TaskFile

_HEX = re.compile(r"[0-9a-f]{1,16}", re.ASCII)

_SAME = {"argspec": "the specification of arguments", "retspec": "the specification of results"}
"""The lines of the info file that must be the same, and what they are."""

_NOTES = ("default.opts", "note.txt")
"""Files about a recording that nothing depends on; those of the first trace are taken."""


def merge(traces: Sequence[UftraceTrace], target: str | PathLike[str]) -> str:
    """Write several data directories as a new one, see `fxtio.formats.MergeRoom`."""
    if len(traces) == 1:
        raise MergeError("a single uftrace directory needs no merging")
    readings = [trace.begin() for trace in traces]
    info = _merged_info(traces)
    renamed = _new_sids(readings)
    owners: dict[str, list[StoredFile]] = {}
    for trace, sids in zip(traces, renamed, strict=True):
        maps = {map_name(old): map_name(new) for old, new in sids.items()}
        for name in trace.directory.names:
            owners.setdefault(maps.get(name, name), []).append(StoredFile(trace.directory, name))
    _check(owners, traces)
    _merged_descriptions(readings, owners.get(kernel.HEADER_FILE, []))
    with whole_directory(target) as path:
        for name, sources in owners.items():
            with open(path / name, "wb") as file:
                if name == INFO_FILE:
                    file.write(info.to_bytes())
                elif name in (TEXT, BINARY):
                    file.write(_merged_tasks(readings, renamed, name, info))
                elif name == NAMES_FILE:
                    file.write(_merged_names(readings).to_bytes())
                elif name == EXTERN_FILE:
                    messages = heapq.merge(*(reading.extern.messages for reading in readings), key=lambda one: one.time)
                    file.write(ExternFile(list(messages)).to_bytes())
                elif perf.is_name(name) and len(sources) > 1:
                    file.writelines(_merged_events(readings, traces, name))
                elif name == kernel.HEADER_FILE and len(sources) > 1:
                    file.write(_merged_descriptions(readings, sources).to_bytes())
                elif kernel.is_name(name) and len(sources) > 1:
                    file.write(_merged_kernel_events(readings, sources, name))
                else:
                    file.writelines(sources[0].blocks())
    tasks = len(info.tids)
    return f"{counted(tasks, 'task')} of {counted(len(traces), 'trace')}"


def _merged_info(traces: Sequence[UftraceTrace]) -> InfoFile:
    """Return the info file of all traces: that of the first, with the tasks and features of all."""
    first = traces[0].info_file
    features, tids = Feature(0), list[int]()
    for trace in traces:
        info = trace.info_file
        for what, one, other in (
            ("format version", info.version, first.version),
            ("byte order", info.order, first.order),
            ("size of a pointer", info.pointer_size, first.pointer_size),
        ):
            if one != other:
                raise MergeError(f"{trace.name} has another {what} than {traces[0].name}")
        origins = info.clock_origin, first.clock_origin
        if None not in origins and abs((origins[0] or 0) - (origins[1] or 0)) > 1:  # it is in whole seconds
            raise MergeError(
                f"{trace.name} and {traces[0].name} were recorded with different clocks, as after a reboot"
            )
        for key, what in _SAME.items():
            if info.specs(key) != first.specs(key):
                raise MergeError(f"{trace.name} and {traces[0].name} differ in {what} ({key} in the file info)")
        features |= info.features
        tids += info.tids
    tids.sort()
    lines = [
        f"taskinfo:nr_tid={len(tids)}" if line.startswith("taskinfo:nr_tid=")
        else f"taskinfo:tids={','.join(map(str, tids))}" if line.startswith("taskinfo:tids=")
        else line
        for line in first.lines
    ]  # fmt: skip
    return replace(first, features=features, max_stack=max(each.info_file.max_stack for each in traces), lines=lines)


def _check(owners: dict[str, list[StoredFile]], traces: Sequence[UftraceTrace]) -> None:
    """Check that what several traces have is the same, or can be combined."""
    tasks = {f"{tid}.dat" for trace in traces for tid in trace.tids}
    combined = {INFO_FILE, TEXT, BINARY, NAMES_FILE, EXTERN_FILE, kernel.HEADER_FILE, *_NOTES}
    for name, sources in owners.items():
        if len(sources) == 1 or name in combined or perf.is_name(name) or kernel.is_name(name):
            continue
        where = f"{sources[0].directory.path} and {sources[1].directory.path}"
        if name in tasks:
            raise MergeError(f"{where} both have records of the task {name.removesuffix('.dat')}")
        if any(not _is_same(sources[0], other) for other in sources[1:]):
            raise MergeError(f"{where} have different files {name}")


def _is_same(one: StoredFile, other: StoredFile) -> bool:
    """Return whether two files have the same content."""
    if one.directory.size(one.name) != other.directory.size(other.name):
        return False
    return all(first == second for first, second in zip(one.blocks(), other.blocks(), strict=True))


def _new_sids(readings: Sequence[SmallFiles]) -> list[dict[str, str]]:
    """Return by trace the ids of its sessions, with those that they get: others if a trace before has the same."""
    used: set[str] = set()
    result = []
    last = 0  # the number of the last new id, so that none is tried again and again
    for reading in readings:
        own = dict.fromkeys(event.sid for event in reading.sessions.file.events if isinstance(event, Session))
        new: dict[str, str] = {}
        for sid in own:
            free = sid
            while free in used or (free != sid and free in own):
                last = max(last, int(free, 16) if _HEX.fullmatch(free) else 0) + 1
                free = f"{last:016x}"[-16:]
            new[sid] = free
            used.add(free)
        result.append(new)
    return result


def _merged_tasks(
    readings: Sequence[SmallFiles], renamed: Sequence[dict[str, str]], name: str, info: InfoFile
) -> bytes:
    """Return the file of the beginnings of tasks and sessions, in the order of time."""
    lists: list[list[TaskEvent]] = [
        [
            msgspec.structs.replace(event, sid=sids.get(event.sid, event.sid))
            if isinstance(event, Session | Dlopen)
            else event
            for event in reading.sessions.file.events
        ]
        for reading, sids in zip(readings, renamed, strict=True)
    ]
    events = list(heapq.merge(*lists, key=lambda event: event.time))
    return (TaskFile(events) if name == TEXT else BinaryTaskFile(info.order, events)).to_bytes()


def _merged_names(readings: Sequence[SmallFiles]) -> EventsFile:
    """Return the names of user events of all traces."""
    names: dict[int, str] = {}
    for reading in readings:
        for number, name in reading.events.names.items():
            if names.setdefault(number, name) != name:
                raise MergeError(f"the event {number} is {names[number]!r} in one trace and {name!r} in another one")
    return EventsFile(names)


def _merged_descriptions(readings: Sequence[SmallFiles], sources: Sequence[StoredFile]) -> kernel.KernelHeader:
    """Return the descriptions of kernel events of all traces that have some.

    Raises:
        MergeError: they contradict each other.
    """
    names = {source.directory.path for source in sources}
    headers = [(each.directory.path, each.kernel_header) for each in readings if each.directory.path in names]
    result = kernel.KernelHeader()
    contents: dict[str, bytes] = {}
    for number, (path, header) in enumerate(headers):
        if not number:
            result = replace(header, blocks=list(header.blocks), formats=dict(header.formats))
            contents = dict(header.blocks)
            continue
        where = f"the kernel events in {headers[0][0]} and {path} cannot be combined"
        sizes = [(each.page_size, each.long_size, each.order, each.headless) for each in (result, header)]
        if sizes[0] != sizes[1]:
            raise MergeError(f"{where}: the pages of their ring buffers have different sizes or byte orders")
        for name, content in header.blocks:
            if contents.setdefault(name, content) != content:
                raise MergeError(f"{where}: they describe {name} in two ways")
        for number_of_event, layout in header.formats.items():
            if result.formats.setdefault(number_of_event, layout) != layout:
                raise MergeError(f"{where}: the event number {number_of_event} means {layout.name} in one of them only")
    return replace(result, blocks=list(contents.items()))


def _merged_kernel_events(readings: Sequence[SmallFiles], sources: Sequence[StoredFile], name: str) -> bytes:
    """Return the kernel events of a CPU in the order of time; an event that several traces have is written once."""
    names = {source.directory.path for source in sources}
    own = [each for each in readings if each.directory.path in names]
    events: list[tuple[int, bytes]] = []
    missed: set[int] = set()
    at_time: set[bytes] = set()  # the data of the events at the last time
    files = [each.kernel_events(name, decode=False) for each in own]
    for _, entry in heapq.merge(*files, key=lambda pair: pair[1].time):
        if not events or events[-1][0] != entry.time:
            at_time.clear()
        if entry.data not in at_time:
            at_time.add(entry.data)
            if entry.missed:
                missed.add(len(events))
            events.append((entry.time, entry.data))
    return kernel.build_pages(events, own[0].kernel_header, missed)


def _merged_events(readings: Sequence[SmallFiles], traces: Sequence[UftraceTrace], name: str) -> Iterator[bytes]:
    """Yield the scheduler events of a CPU in the order of time."""

    def timed(reading: SmallFiles, trace: UftraceTrace) -> Iterator[tuple[int, bytes]]:
        for block in perf.parse(trace.directory.blocks(name), name, trace.info_file.order, reading.findings):
            for time, begin, size in zip(block.time.tolist(), block.at.tolist(), block.size.tolist(), strict=True):
                yield time, block.raw[begin : begin + size]

    pairs: Any = zip(readings, traces, strict=True)
    for _, raw in heapq.merge(*(timed(*pair) for pair in pairs), key=lambda event: event[0]):
        yield raw
