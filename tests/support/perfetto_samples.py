"""Perfetto traces for tests, made with the messages of Perfetto's own package, of all that the importer reads."""

from __future__ import annotations

import importlib.util
import random
import zlib
from collections.abc import Iterator
from typing import Any

import pytest


def is_available() -> bool:
    """Return whether Perfetto's package is installed."""
    return importlib.util.find_spec("perfetto") is not None


def messages() -> Any:
    """Return the messages; the test is skipped where the package is missing."""
    return pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")


BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4
CLEARED, NEEDS = 1, 2
MAIN, PROCESS, TASK, MEMORY, LOAD, THREAD_COUNTER, SUM = 10, 11, 12, 13, 14, 15, 16


class Builder:
    """Puts a trace together, packet by packet."""

    def __init__(self) -> None:
        self.trace = messages().Trace()

    def packet(self, time: int | None = None, sequence: int = 1, flags: int = NEEDS, **fields: Any) -> Any:
        """Add a packet, and return it."""
        packet = self.trace.packet.add(trusted_packet_sequence_id=sequence, **fields)
        if flags:
            packet.sequence_flags = flags
        if time is not None:
            packet.timestamp = time
        return packet

    def event(self, time: int, kind: int, track: int | None = MAIN, sequence: int = 1, **fields: Any) -> Any:
        """Add an event, and return it."""
        event = self.packet(time, sequence).track_event
        event.type = kind
        if track is not None:
            event.track_uuid = track
        for name, value in fields.items():
            if isinstance(value, list):
                getattr(event, name).extend(value)
            else:
                setattr(event, name, value)
        return event

    def bytes(self) -> bytes:
        """Return the trace."""
        data: bytes = self.trace.SerializeToString()
        return data


def describe(build: Builder) -> None:
    """Describe the tracks, and define names."""
    packet = build.packet(flags=CLEARED | NEEDS)
    packet.first_packet_on_sequence = True
    packet.previous_packet_dropped = 1
    for number, name in ((1, "app"), (2, "net")):
        packet.interned_data.event_categories.add(iid=number, name=name)
    for number, name in ((1, "outer"), (2, "inner"), (3, "é\n")):
        packet.interned_data.event_names.add(iid=number, name=name)
    packet.interned_data.debug_annotation_names.add(iid=1, name="size")
    packet.interned_data.debug_annotation_string_values.add(iid=1, str=b"text")
    packet = build.packet()
    packet.track_descriptor.uuid = PROCESS
    packet.track_descriptor.process.pid = 7
    packet.track_descriptor.process.process_name = "program"
    packet = build.packet()
    packet.track_descriptor.uuid = MAIN
    packet.track_descriptor.thread.pid = 7
    packet.track_descriptor.thread.tid = 8
    packet.track_descriptor.thread.thread_name = "main"
    for uuid, name, parent in ((TASK, "task", PROCESS), (MEMORY, "memory", PROCESS), (LOAD, "load", 0)):
        packet = build.packet()
        packet.track_descriptor.uuid, packet.track_descriptor.name = uuid, name
        packet.track_descriptor.parent_uuid = parent
        if uuid != TASK:
            packet.track_descriptor.counter.SetInParent()
    packet.track_descriptor.counter.unit_multiplier = 1000
    for uuid, name, parent in ((THREAD_COUNTER, "ticks", MAIN), (SUM, "sum", PROCESS)):
        packet = build.packet()
        packet.track_descriptor.uuid, packet.track_descriptor.name = uuid, name
        packet.track_descriptor.parent_uuid = parent
        packet.track_descriptor.counter.is_incremental = uuid == SUM


def track_events() -> Builder:
    """Return slices, instants and counters on all kinds of tracks, with arguments and flows of all kinds."""
    build = Builder()
    describe(build)
    event = build.event(100, BEGIN, name_iid=1, category_iids=[1])
    for name, value in (("yes", True), ("no", False)):
        event.debug_annotations.add(name=name, bool_value=value)
    event.debug_annotations.add(name_iid=1, int_value=-5)
    event.debug_annotations.add(name="large", uint_value=(1 << 63) - 1)
    event.debug_annotations.add(name="pointer", pointer_value=0xDEAD)
    event.debug_annotations.add(name="number", double_value=-0.25)
    event.debug_annotations.add(name="inline", string_value="é \n")
    event.debug_annotations.add(name="interned", string_value_iid=1)
    nested = event.debug_annotations.add(name="nested")
    nested.dict_entries.add(name="a", int_value=1)
    inner = nested.dict_entries.add(name="b")
    inner.array_values.add(int_value=2)
    inner.array_values.add(string_value="three")
    older = event.debug_annotations.add(name="older").nested_value
    older.nested_type = 1
    older.dict_keys.extend(["x", "y"])
    older.dict_values.add(int_value=4)
    older.dict_values.add(nested_type=2).array_values.add(bool_value=True)
    event.debug_annotations.add(name="json", legacy_json_value='{"k": [1, "v"]}')
    build.event(110, BEGIN, name_iid=2, category_iids=[1, 2], flow_ids=[77])
    build.event(120, INSTANT, name="mark", categories=["own"], terminating_flow_ids=[77])
    build.event(130, END, debug_annotations=[messages().DebugAnnotation(name="result", int_value=1)])
    build.event(135, BEGIN, name="arrow", flow_ids_old=[5])
    build.event(140, END, name="arrow")
    build.event(150, BEGIN, TASK, name_iid=3, terminating_flow_ids_old=[5])
    build.event(160, COUNTER, MEMORY, counter_value=-3)
    build.event(161, COUNTER, LOAD, double_counter_value=0.5)
    build.event(162, COUNTER, THREAD_COUNTER, counter_value=9)
    build.event(163, COUNTER, SUM, counter_value=4)
    build.event(164, COUNTER, SUM, counter_value=-1)
    build.event(170, BEGIN, name="extra", extra_counter_track_uuids=[SUM, MEMORY], extra_counter_values=[2, 6])
    build.event(180, END)
    build.event(190, END)
    build.event(195, END, TASK)
    build.event(200, INSTANT, PROCESS, name="of the process")
    build.event(210, BEGIN, name="open")
    return build


def defaults() -> Builder:
    """Return sequences with a track and clock of their own, whose states are cleared, lost and found again."""
    build = track_events()
    snapshot = build.packet(1000, sequence=2, flags=CLEARED).clock_snapshot
    snapshot.primary_trace_clock = 6
    for number, time in ((1, 1_700_000_000_000_000_000), (3, 500), (6, 1000)):
        snapshot.clocks.add(clock_id=number, timestamp=time)
    snapshot.clocks.add(clock_id=64, timestamp=500, is_incremental=True)
    snapshot.clocks.add(clock_id=65, timestamp=2, unit_multiplier_ns=250)
    packet = build.packet(sequence=2, flags=CLEARED | NEEDS)
    packet.trace_packet_defaults.timestamp_clock_id = 64
    packet.trace_packet_defaults.track_event_defaults.track_uuid = TASK
    packet.interned_data.event_names.add(iid=1, name="by default")
    for delta in (10, 5, 7):
        build.event(delta, BEGIN, None, 2, name_iid=1)
    for delta in (1, 2, 3):
        build.event(delta, END, None, 2)
    packet = build.packet(3, sequence=2, timestamp_clock_id=65)
    packet.track_event.type, packet.track_event.name, packet.track_event.track_uuid = INSTANT, "on 65", MAIN
    packet = build.packet(900, sequence=2, timestamp_clock_id=3)
    packet.track_event.type, packet.track_event.name, packet.track_event.track_uuid = INSTANT, "monotonic", MAIN
    packet = build.packet(1, sequence=2, previous_packet_dropped=1)
    packet.track_event.type, packet.track_event.name = INSTANT, "lost"
    packet = build.packet(3000, sequence=2, flags=CLEARED)
    packet.interned_data.event_names.add(iid=1, name="another")
    build.event(3100, INSTANT, MAIN, 2, name_iid=1)
    return build


def compressed(build: Builder) -> bytes:
    """Return a trace with all packets compressed together."""
    outer = messages().Trace()
    outer.packet.add(compressed_packets=zlib.compress(build.bytes()))
    data: bytes = outer.SerializeToString()
    return data


def kernel() -> Builder:
    """Return switches and wakeups of threads, one by one and in columns, and marks of atrace."""
    build = Builder()
    tree = build.packet(10, flags=0).process_tree
    tree.processes.add(pid=7, ppid=1, cmdline=["/bin/program", "-x"])
    for tid in (7, 8, 9):
        tree.threads.add(tid=tid, tgid=7, name=f"thread {tid}")
    bundle = build.packet(flags=0).ftrace_events
    bundle.cpu = 0
    for time, before, state, after in ((100, 0, 0, 7), (150, 7, 1, 8), (190, 8, 0, 9), (230, 9, 2, 0), (300, 0, 0, 8)):
        switch = bundle.event.add(timestamp=time, pid=before).sched_switch
        switch.prev_pid, switch.prev_state, switch.next_pid, switch.next_prio = before, state, after, 120
        switch.prev_comm = f"thread {before}" if before else "swapper"
        switch.next_comm = f"thread {after}" if after else "swapper"
    waking = bundle.event.add(timestamp=140, pid=7).sched_waking
    waking.comm, waking.pid, waking.prio, waking.success, waking.target_cpu = "thread 8", 8, 120, 1, 0
    for time, text in (
        (110, "B|7|draw|all\n"), (120, "C|7|frames|3\n"), (125, "I|7|now\n"), (130, "E|7\n"),
        (131, "S|7|load|55\n"), (135, "F|7|load|55\n"), (136, "plain text\n"),
    ):  # fmt: skip
        bundle.event.add(timestamp=time, pid=7).print.buf = text
    bundle = build.packet(flags=0).ftrace_events
    bundle.cpu = 1
    switch = bundle.event.add(timestamp=350, pid=0).sched_switch  # Perfetto passes over the first one of a column
    switch.prev_comm, switch.next_comm, switch.next_pid, switch.next_prio = "swapper", "thread 7", 7, 120
    compact = bundle.compact_sched
    compact.intern_table.extend(["thread 9", "swapper/1", "thread 7"])
    compact.switch_timestamp.extend([400, 20, 30])
    compact.switch_prev_state.extend([0, 1, 0])
    compact.switch_next_pid.extend([9, 0, 7])
    compact.switch_next_prio.extend([120, 120, 110])
    compact.switch_next_comm_index.extend([0, 1, 2])
    compact.waking_timestamp.extend([395])
    compact.waking_pid.extend([9])
    compact.waking_target_cpu.extend([1])
    compact.waking_prio.extend([120])
    compact.waking_comm_index.extend([0])
    compact.waking_common_flags.extend([1])
    return build


def samples() -> Builder:
    """Return samples of stacks."""
    build = Builder()
    packet = build.packet(flags=CLEARED | NEEDS)
    data = packet.interned_data
    for number, name in ((1, b"main"), (2, b"work")):
        data.function_names.add(iid=number, str=name)
    data.mapping_paths.add(iid=1, str=b"bin")
    data.mapping_paths.add(iid=2, str=b"program")
    data.source_paths.add(iid=1, str=b"main.c")
    data.build_ids.add(iid=1, str=b"\1\2")
    data.mappings.add(iid=1, path_string_ids=[1, 2], build_id=1, start=0x1000, end=0x9000)
    data.frames.add(iid=1, function_name_id=1, mapping_id=1, rel_pc=0x10)
    data.frames.add(iid=2, function_name_id=2, mapping_id=1, rel_pc=0x20, source_path_iid=1, line_number=12)
    data.frames.add(iid=3, mapping_id=1, rel_pc=0x30)
    data.callstacks.add(iid=1, frame_ids=[1, 2])
    data.callstacks.add(iid=2, frame_ids=[1, 2, 3])
    for time, stack in ((100, 1), (110, 2), (120, 1)):
        sample = build.packet(time).perf_sample
        sample.cpu, sample.pid, sample.tid, sample.callstack_iid = 2, 7, 8, stack
    build.packet(130).perf_sample.kernel_records_lost = 3
    thread = build.packet().thread_descriptor
    thread.pid, thread.tid, thread.reference_timestamp_us = 7, 9, 1
    profile = build.packet().streaming_profile_packet
    profile.callstack_iid.extend([1, 2])
    profile.timestamp_delta_us.extend([1, 2])
    return build


def legacy() -> Builder:
    """Return events of the older kind."""
    build = Builder()
    describe(build)
    thread = build.packet(sequence=3, flags=CLEARED).thread_descriptor
    thread.pid, thread.tid, thread.thread_name = 7, 9, "older"
    track = iter(range(100, 1000, 10))

    def event(phase: str, name: str, **fields: Any) -> None:
        packet = build.packet(next(track), sequence=3)
        packet.track_event.name, packet.track_event.categories[:] = name, ["old"]
        packet.track_event.legacy_event.phase = ord(phase)
        for key, value in fields.items():
            setattr(packet.track_event.legacy_event, key, value)

    event("X", "complete", duration_us=1)
    event("B", "begun")
    event("I", "instant", instant_event_scope=3)
    event("E", "begun")
    event("b", "async", unscoped_id=5)
    event("n", "async", unscoped_id=5)
    event("e", "async", unscoped_id=5)
    event("S", "older async", local_id=6, id_scope="own")
    event("F", "older async", local_id=6, id_scope="own")
    event("b", "global", global_id=7)
    event("e", "global", global_id=7)
    event("B", "of another", pid_override=7, tid_override=8)
    event("E", "of another", pid_override=7, tid_override=8)
    event("C", "counter")
    return build


def interleaved() -> Builder:
    """Return events of three sequences in turn, each with names, a track and a clock of its own."""
    build = Builder()
    describe(build)
    snapshot = build.packet(flags=0).clock_snapshot
    for number, time in ((3, 500), (6, 1000)):
        snapshot.clocks.add(clock_id=number, timestamp=time)
    for sequence, clock, track in ((2, 6, MAIN), (3, 3, TASK), (4, 0, PROCESS)):
        packet = build.packet(sequence=sequence, flags=CLEARED | NEEDS)
        packet.trace_packet_defaults.timestamp_clock_id = clock
        packet.trace_packet_defaults.track_event_defaults.track_uuid = track
        packet.interned_data.event_names.add(iid=1, name=f"work of {sequence}")
        packet.interned_data.debug_annotation_names.add(iid=1, name=f"size of {sequence}")
        packet.interned_data.debug_annotation_string_values.add(iid=1, str=b"text of %d" % sequence)
    for time in range(2000, 2400, 20):
        for sequence in (2, 3, 4):
            event = build.event(time, BEGIN, None, sequence, name_iid=1)
            event.debug_annotations.add(name_iid=1, int_value=time)
            event.debug_annotations.add(name="text", string_value_iid=1)
        for sequence in (4, 2, 3):
            build.event(time + 10, END, None, sequence)
        if time == 2200:
            build.packet(sequence=3).interned_data.event_names.add(iid=2, name="late")
    build.event(3000, INSTANT, None, 3, name_iid=2)
    return build


def all_traces() -> Iterator[tuple[str, bytes]]:
    """Yield all traces with their names."""
    for make in (track_events, defaults, interleaved, kernel, samples, legacy):
        yield make.__name__, make().bytes()
    yield "compressed", compressed(defaults())


def damaged(data: bytes, draw: random.Random) -> bytes:
    """Return a trace with a few bytes that are changed, removed, added or repeated."""
    changed = bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 4))):
        at = draw.randrange(len(changed))
        match draw.randrange(6):
            case 0 | 1 | 2:
                changed[at] = draw.choice((0, 1, 2, 3, 8, 16, 127, 128, 255, draw.randrange(256)))
            case 3:
                del changed[at : at + draw.randrange(1, 9)]
            case 4:
                changed[at:at] = draw.randbytes(draw.randrange(1, 5))
            case _:
                begin = draw.randrange(len(changed))
                changed[at:at] = changed[begin : begin + draw.randrange(1, 60)]
    return bytes(changed)
