"""The tracks of a Perfetto trace: those that are described, and the processes and threads that they name.

A track is made when its first event comes; until then, it may be described anew.
"""

from __future__ import annotations

from dataclasses import dataclass

from fxtio.codec.protobuf import Message
from fxtio.exchange.perfetto.messages import CounterField, Descriptor, Owner, Tree, TreeProcess, TreeThread
from fxtio.exchange.perfetto.state import Sequence
from fxtio.timeline.parts import Registry
from fxtio.timeline.schema import SCOPES, TrackKind

MAX_DESCRIBED = 1_000_000
"""The most descriptions of tracks, and of threads, that are kept."""

MAX_PARENTS = 64
"""The most tracks around a track that are looked at."""

_NO_DESCRIPTION = "events on tracks that are not described before them"
_HINTS = "orders, labels, units and other hints about how tracks are shown"
_ROOM = f"more than {MAX_DESCRIBED:,} descriptions of tracks or threads"
_BUILT_IN = {1: "thread_time", 2: "thread_instruction_count"}

_READ = {Descriptor.UUID, Descriptor.NAME, Descriptor.PROCESS, Descriptor.THREAD, Descriptor.PARENT}
_READ |= {Descriptor.COUNTER, Descriptor.STATIC_NAME, Descriptor.ATRACE_NAME}
_HINTING = {CounterField.CATEGORIES, CounterField.UNIT, CounterField.UNIT_NAME, 7}


@dataclass(frozen=True, slots=True)
class Track:
    """A track of the file.

    Attributes:
        row: its track in the timeline.
        scope: the scope of its instants, an index into `SCOPES`.
        is_counter: it has values.
        is_incremental: these are differences.
        multiplier: what to multiply values with.
    """

    row: int
    scope: int = 0
    is_counter: bool = False
    is_incremental: bool = False
    multiplier: float = 1.0


@dataclass(frozen=True, slots=True)
class _Description:
    """What a description says of a track."""

    name: str | None
    parent: int
    pid: int | None  # of its process
    tid: int | None  # of its thread
    counter: tuple[bool, float] | None  # whether its values are differences, and what to multiply them with


class Tracks:
    """The tracks of a trace.

    Args:
        registry: gets tracks, processes and threads.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._described: dict[int, _Description] = {}
        self._tracks: dict[int, Track] = {}
        self._pids: dict[int, int] = {}  # the process of each thread
        self._counters: set[tuple[int, int]] = set()  # the processes and names of those that have no number

    def describe(self, track: Message) -> None:
        """Take the description of a track."""
        losses = self._registry.losses
        name = next((text for each in _NAMES if (text := track.text(each)) is not None), None)
        pid = tid = counter = None
        losses[_HINTS] += not _READ.issuperset(track.found)
        for thread in track.messages(Descriptor.THREAD):
            pid, tid = self.describe_thread(thread, name)
        for process in track.messages(Descriptor.PROCESS):
            pid = self.describe_process(process, name)
        for each in track.messages(Descriptor.COUNTER):
            multiplier = float(each.signed(CounterField.MULTIPLIER) or 1)
            counter = (bool(each.number(CounterField.IS_INCREMENTAL)), multiplier)
            name = _BUILT_IN.get(each.number(CounterField.TYPE)) if name is None else name
            losses[_HINTS] += not _HINTING.isdisjoint(each.found)
        uuid = track.number(Descriptor.UUID)
        if uuid not in self._described and len(self._described) >= MAX_DESCRIBED:
            losses[_ROOM] += 1
            return
        self._described[uuid] = _Description(name, track.number(Descriptor.PARENT), pid, tid, counter)

    def describe_process(self, process: Message, name: str | None = None) -> int:
        """Take the description of a process, and return its number; `name` is that of its track."""
        pid = process.signed(Owner.PID)
        self._registry.process(pid, process.text(Owner.PROCESS_NAME) or _program(process.texts(Owner.CMDLINE)) or name)
        return pid

    def describe_thread(self, thread: Message, name: str | None = None) -> tuple[int, int]:
        """Take the description of a thread, and return the numbers of its process and its own."""
        pid, tid = thread.signed(Owner.PID), thread.signed(Owner.TID)
        self.name_thread(pid, tid, thread.text(Owner.THREAD_NAME) or name)
        return pid, tid

    def name_thread(self, pid: int, tid: int, name: str | None) -> None:
        """Note the process of a thread, and its name."""
        self._registry.thread(pid, tid, name or None)
        if tid in self._pids or len(self._pids) < MAX_DESCRIBED:
            self._pids[tid] = pid
        else:
            self._registry.losses[_ROOM] += 1

    def enter_tree(self, tree: Message) -> None:
        """Take the processes and threads of the system."""
        for process in tree.messages(Tree.PROCESSES):
            pid = process.signed(TreeProcess.PID)
            self._registry.process(pid, _program(process.texts(TreeProcess.CMDLINE)))
            self._pids.setdefault(pid, pid)
        for thread in tree.messages(Tree.THREADS):
            tid = thread.signed(TreeThread.TID)
            self.name_thread(thread.signed(TreeThread.TGID), tid, thread.text(TreeThread.NAME))

    def thread(self, tid: int, name: str | None = None, pid: int | None = None) -> int:
        """Return the row of a thread whose process may not be known, 0 then; `name` counts if it has none."""
        if pid is None:
            pid = self._pids.get(tid, 0)
        row = self._registry.thread(pid, tid)
        if name and self._registry.thread_names()[row] < 0:
            self._registry.thread(pid, tid, name)
        return row

    def known_process(self, tid: int) -> int:
        """Return the process of a thread, 0 if it is not known."""
        return self._pids.get(tid, 0)

    def thread_track(self, pid: int, tid: int) -> Track:
        """Return the track of a thread."""
        return Track(self._registry.thread_track(pid, tid))

    def _of_sequence(self, sequence: Sequence) -> Track:
        """Return the track of events that name none: that of the thread, or one of the whole trace."""
        if sequence.pid is not None:
            return self.thread_track(sequence.pid, sequence.tid)
        return Track(self._registry.track(TrackKind.GLOBAL, "perfetto"), SCOPES.index("global"))

    def track(self, uuid: int, sequence: Sequence) -> Track:
        """Return the track with a number, for an event of a sequence."""
        track = self.known(uuid, sequence)
        if track is None:
            self._registry.losses[_NO_DESCRIPTION] += 1
            return Track(self._registry.track(TrackKind.ASYNC, uuid, id=uuid))
        return track

    def known(self, uuid: int, sequence: Sequence) -> Track | None:
        """Return the track with a number, None if it is not described; 0 is that of the sequence, unless described."""
        if uuid not in self._tracks and uuid in self._described:
            self._tracks[uuid] = self._made(uuid, self._described[uuid])
        track = self._tracks.get(uuid)
        return self._of_sequence(sequence) if track is None and not uuid else track

    def _made(self, uuid: int, description: _Description) -> Track:
        """Make a track of the timeline."""
        registry = self._registry
        if description.tid is not None and description.counter is None:
            return self.thread_track(description.pid or 0, description.tid)
        owner = self._owner(description)
        process = -1 if owner.pid is None else registry.process(owner.pid)
        thread = -1 if owner.tid is None else registry.thread(owner.pid or 0, owner.tid)
        name = registry.names.code(description.name)
        if description.counter is not None:
            is_incremental, multiplier = description.counter
            number = uuid if (process, name) in self._counters else 0  # several may have one name
            self._counters.add((process, name))
            kind = TrackKind.COUNTER
            row = registry.track(kind, uuid, name=name, process=process, thread=thread, id=number)
            return Track(row, 0, True, is_incremental, multiplier)
        if description.pid is not None:
            row = registry.track(TrackKind.PROCESS, description.pid, process=process)
            return Track(row, SCOPES.index("process"))
        if not uuid:
            return Track(registry.track(TrackKind.GLOBAL, "perfetto", name=name), SCOPES.index("global"))
        return Track(registry.track(TrackKind.ASYNC, uuid, name=name, process=process, id=uuid))

    def _owner(self, description: _Description) -> _Description:
        """Return the innermost of a track and those around it that is one of a process or thread."""
        here: _Description | None = description
        for _ in range(MAX_PARENTS):
            if here is None or here.pid is not None:
                break
            here = self._described.get(here.parent) if here.parent else None
        return description if here is None else here


_NAMES = (Descriptor.NAME, Descriptor.STATIC_NAME, Descriptor.ATRACE_NAME)


def _program(command: list[bytes]) -> str | None:
    """Return the name of a process by its command line, None if there is none."""
    return command[0].decode("utf-8", "surrogateescape") or None if command else None
