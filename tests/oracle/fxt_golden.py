"""FXT words that other projects publish, with what they mean in the oracle's dicts.

Strategy: one entry per record, transcribed as words (little-endian) or bytes, named after its source. "derived" are
encoded here from values that the named test states; "variant" contradicts the specification but is real.

libfxt, trace-reader, Rust fxt: tests in the Fuchsia source tree, BSD-3-Clause. Perfetto: fuchsia_parser_unittest.cc,
Apache-2.0. Jane Street: janestreet/tracing v0.15, MIT. ocaml-trace: c-cube/ocaml-trace, MIT.
"""

from __future__ import annotations

import struct
from typing import Any

from oracle.fxt_words import Record


def words(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}Q", *values)


def at(index: int) -> dict[str, int]:
    return {"index": index}


def inline(content: bytes) -> dict[str, bytes]:
    return {"inline": content}


def arg(kind: str, name: Any, value: Any) -> Record:
    return {"type": kind, "name": name, "value": value}


def event(kind: str, timestamp: int, thread: Any, category: Any, name: Any, *args: Any, **specific: int) -> Record:
    common = {"timestamp": timestamp, "thread": thread, "category": category, "name": name, "args": list(args)}
    return {"kind": kind, **common, **specific}


def module(timestamp: int, thread: Any, module_id: int, name: bytes, **changed: Any) -> Record:
    names = {"module_name": name, "build_id": BUILD_ID}
    record = {"kind": "profiler_module", "timestamp": timestamp, "thread": thread, "module_id": module_id}
    return record | names | changed


TICKS = 0x1234567890ABCDEF
BUILD_ID = bytes.fromhex("333e89f0c175000cee9b7e201fedcd6f9b4ba8ae")
RUST_BUILD_ID = bytes.fromhex("68920bd06a8149b58004cea8a0dd260b05e87d57")
NULS = inline(bytes(8))
FAR_THREAD = {"process": 0xBBBBBBBBBBBBBBBB, "thread": 0xCCCCCCCCCCCCCCCC}

GOLDEN: dict[str, tuple[bytes, Record]] = {
    "libfxt provider info": (
        words(0x00DAABBCCDD10030, 0x6F72705F74736574, 0x7265646976),
        {"kind": "provider_info", "provider_id": 0xAABBCCDD, "provider_name": b"test_provider"},
    ),
    "libfxt provider section": (
        words(0x000AABBCCDD20010),
        {"kind": "provider_section", "provider_id": 0xAABBCCDD},
    ),
    "libfxt provider event": (
        words(0x007AABBCCDD30010),
        {"kind": "provider_event", "provider_id": 0xAABBCCDD, "event_id": 7},
    ),
    "specification, magic number record": (
        bytes.fromhex("10 00 04 46 78 54 16 00"),
        {"kind": "magic"},
    ),
    "Jane Street writer test, initialization of 4 words": (
        words(0x41, 0x3B9ACA00, 0, 1),
        {"kind": "initialization", "ticks_per_second": 10**9, "base_ticks": 0, "wall_clock_ns": 1},
    ),
    "ocaml-trace t2, initialization": (
        words(0x21, 0x3B9ACA00),
        {"kind": "initialization", "ticks_per_second": 10**9},
    ),
    "Jane Street writer test, string": (
        words(0x0000000700010022, 0x00737365636F7270),
        {"kind": "string", "string_index": 1, "string_value": b"process"},
    ),
    "libfxt thread": (
        words(0x0000000000AA0033, 0x0123456789ABCDEF, 0xFECDBA9876543210),
        {"kind": "thread", "thread_index": 0xAA, "process_id": 0x0123456789ABCDEF, "thread_id": 0xFECDBA9876543210},
    ),
    "libfxt null argument": (
        words(0x0003000201100044, TICKS, 0x80070020, 0x00656D616E677261),
        event("instant", TICKS, at(1), at(2), at(3), {"type": "null", "name": inline(b"argname")}),
    ),
    "libfxt duration begin": (
        words(0x1234777701020024, TICKS),
        event("duration_begin", TICKS, at(1), at(0x7777), at(0x1234)),
    ),
    "libfxt async begin": (
        words(0x1234777701050034, TICKS, 0x1122334455667788),
        event("async_begin", TICKS, at(1), at(0x7777), at(0x1234), async_correlation_id=0x1122334455667788),
    ),
    "libfxt async end": (
        words(0x1234777701070034, TICKS, 0x1122334455667788),
        event("async_end", TICKS, at(1), at(0x7777), at(0x1234), async_correlation_id=0x1122334455667788),
    ),
    "Jane Street writer test, flow begin": (
        words(0x01080034, 0x1E8480, 1),
        event("flow_begin", 2000000, at(1), at(0), at(0), flow_correlation_id=1),
    ),
    "libfxt flow end": (
        words(0x12347777010A0034, TICKS, 0x1122334455667788),
        event("flow_end", TICKS, at(1), at(0x7777), at(0x1234), flow_correlation_id=0x1122334455667788),
    ),
    "libfxt flow step": (
        words(0x1234777701090034, TICKS, 0x1122334455667788),
        event("flow_step", TICKS, at(1), at(0x7777), at(0x1234), flow_correlation_id=0x1122334455667788),
    ),
    "ocaml-trace t2, instant with an argument": (
        words(0x8005000005100054, 0x00BC614E, 0x6F6C6C6568, 0x2A80010021, 0x78),
        event("instant", 12345678, at(5), at(0), inline(b"hello"), arg("int32", inline(b"x"), 42)),
    ),
    "ocaml-trace t2, duration complete": (
        words(0x8005000005040044, 0x186A0, 0x726574756F, 0x4C4B40),
        event("duration_complete", 100000, at(5), at(0), inline(b"outer"), end_time=5000000),
    ),
    "Jane Street writer test, string arguments": (
        words(0x69006801240054, 0x6ACFC0, 0x300690016, 0x400680016, 0xE4E1C0),
        event(
            "duration_complete",
            7000000,
            at(1),
            at(0x68),
            at(0x69),
            arg("string", at(0x69), at(3)),
            arg("string", at(0x68), at(4)),
            end_time=15000000,
        ),
    ),
    "Jane Street writer test, int64, int32 and double arguments": (
        words(0x69006801330074, 0x2625A00, 0x690023, 0xC000000000000000, 0xFFFFFFFF00680011, 0x660025, 0xBFF << 52),
        event(
            "duration_end",
            40000000,
            at(1),
            at(0x68),
            at(0x69),
            arg("int64", at(0x69), -(2**62)),
            arg("int32", at(0x68), -1),
            {"type": "double", "name": at(0x66), "bits": struct.unpack("<Q", struct.pack("<d", -1.0))[0]},
        ),
    ),
    "Jane Street parser test, unknown argument type (derived)": (
        words(0x01210064, 100, 0x2F, 0xBC614E, 0x0000000900000011, 3),
        event(
            "counter",
            100,
            at(1),
            at(0),
            at(0),
            {"type": "unknown", "raw": words(0x2F, 0xBC614E)},
            arg("int32", at(0), 9),
            counter_id=3,
        ),
    ),
    "Perfetto inline instant": (
        words(0x8008800800000064, 0x5555555555555555, 0xBBBBBBBBBBBBBBBB, 0xCCCCCCCCCCCCCCCC)
        + b"\xdd" * 8
        + b"\xee" * 8,
        event("instant", 0x5555555555555555, FAR_THREAD, inline(b"\xdd" * 8), inline(b"\xee" * 8)),
    ),
    "Perfetto boolean argument, and the empty blob argument beside it": (
        words(0x80088008002000A4, 0x5555555555555555, 0xBBBBBBBBBBBBBBBB, 0xCCCCCCCCCCCCCCCC)
        + b"\xdd" * 8
        + b"\xee" * 8
        + words(0x0000000180080029, 0, 0x8008002A, 0),
        event(
            "instant",
            0x5555555555555555,
            FAR_THREAD,
            inline(b"\xdd" * 8),
            inline(b"\xee" * 8),
            arg("bool", NULS, True),
            arg("blob", NULS, b""),
        ),
    ),
    "libfxt blob": (
        words(0x0001002577770065) + b"This is some data that we are writing" + bytes(3),
        {
            "kind": "blob",
            "blob_name": at(0x7777),
            "blob_type": 1,
            "payload": b"This is some data that we are writing",
        },
    ),
    "Rust fxt blob with inline name (derived)": (
        words(0x0003001980080065) + b"foo_blob" + bytes(range(1, 26)) + bytes(7),
        {"kind": "blob", "blob_name": inline(b"foo_blob"), "blob_type": 3, "payload": bytes(range(1, 26))},
    ),
    "libfxt userspace object": (
        words(0x0000017777AA0036, 0xDEADBEEF, 0x0000000112340019),
        {
            "kind": "userspace_object",
            "pointer": 0xDEADBEEF,
            "process": at(0xAA),
            "name": at(0x7777),
            "args": [arg("bool", at(0x1234), True)],
        },
    ),
    "libfxt kernel object with inline names": (
        words(0x0000018004040057, 0xDEADBEEF, 0x656D616E, 0x80030029, 0x677261),
        {
            "kind": "kernel_object",
            "kernel_object_type": 4,
            "koid": 0xDEADBEEF,
            "name": inline(b"name"),
            "args": [arg("bool", inline(b"arg"), False)],
        },
    ),
    "Jane Street writer test, koid argument": (
        words(0x0000010067020047, 2, 0x10028, 1),
        {
            "kind": "kernel_object",
            "kernel_object_type": 2,
            "koid": 2,
            "name": at(0x67),
            "args": [arg("koid", at(1), 1)],
        },
    ),
    "Rust fxt context switch with weights (derived)": (
        words(0x10000040006200A8, 1024, 5, 8, 0xC800F0031)
        + b"incoming_weight\0"
        + words(0xE800F0031)
        + b"outgoing_weight\0",
        {
            "kind": "context_switch",
            "cpu_number": 6,
            "outgoing_thread_state": 4,
            "timestamp": 1024,
            "outgoing_thread_id": 5,
            "incoming_thread_id": 8,
            "args": [
                arg("int32", inline(b"incoming_weight"), 12),
                arg("int32", inline(b"outgoing_weight"), 14),
            ],
        },
    ),
    "Perfetto wakeup with waker": (
        words(0x2000000000110068, 1, 0x1AAAAAAAAAAAAAAA, 0x80050038, 0x72656B6177, 0x2CCCCCCCCCCCCCCC),
        {
            "kind": "thread_wakeup",
            "cpu_number": 1,
            "timestamp": 1,
            "waking_thread_id": 0x1AAAAAAAAAAAAAAA,
            "args": [arg("koid", inline(b"waker"), 0x2CCCCCCCCCCCCCCC)],
        },
    ),
    "libfxt legacy context switch": (
        words(0x0040302012BB0028, 0xAABBCCDDEEFF0011),
        {
            "kind": "legacy_context_switch",
            "cpu_number": 0xBB,
            "outgoing_thread_state": 2,
            "outgoing_thread": at(1),
            "incoming_thread": at(2),
            "outgoing_thread_priority": 3,
            "incoming_thread_priority": 4,
            "timestamp": 0xAABBCCDDEEFF0011,
        },
    ),
    "libfxt log": (
        words(0x0000000100150059, 0xAABBCCDDEEFF0011) + b"This is a log message" + bytes(3),
        {
            "kind": "log",
            "timestamp": 0xAABBCCDDEEFF0011,
            "thread": at(1),
            "log_message": b"This is a log message",
        },
    ),
    "trace-reader kernel object, name not UTF-8": (
        words(0x0000008005010037, 1234) + b"he\xfflo" + bytes(3),
        {"kind": "kernel_object", "kernel_object_type": 1, "koid": 1234, "name": inline(b"he\xfflo"), "args": []},
    ),
    "Perfetto legacy context switch, both threads inline (derived)": (
        words(0x0010100002010068, 2, 0x1AAAAAAAAAAAAAAA, 0x1BBBBBBBBBBBBBBB, 0x2CCCCCCCCCCCCCCC, 0x2DDDDDDDDDDDDDDD),
        {
            "kind": "legacy_context_switch",
            "cpu_number": 1,
            "outgoing_thread_state": 2,
            "outgoing_thread": {"process": 0x1AAAAAAAAAAAAAAA, "thread": 0x1BBBBBBBBBBBBBBB},
            "incoming_thread": {"process": 0x2CCCCCCCCCCCCCCC, "thread": 0x2DDDDDDDDDDDDDDD},
            "outgoing_thread_priority": 1,
            "incoming_thread_priority": 1,
            "timestamp": 2,
        },
    ),
    "libfxt profiler module": (
        words(0x0140BABCDCC0007A, TICKS) + b"module_name" + bytes(5) + BUILD_ID + bytes(4),
        module(TICKS, at(0xCC), 0xABCD, b"module_name"),
    ),
    "trace-reader profiler module, inline thread": (
        words(0x014040001000008A, 0, 1, 2) + b"test" + bytes(4) + BUILD_ID + bytes(4),
        module(0, {"process": 1, "thread": 2}, 1, b"test"),
    ),
    "Rust fxt profiler module, inline thread without thread id (variant)": (
        words(0x0140E0063000008A, 5000, 123) + b"test_module.so" + bytes(2) + RUST_BUILD_ID + bytes(4),
        module(5000, {"process": 123}, 99, b"test_module.so", build_id=RUST_BUILD_ID, pid_only=True),
    ),
    "libfxt profiler mmap": (
        words(0x00005ABCDCC1005A, TICKS, 0x1000, 0x2000, 0x3000),
        {
            "kind": "profiler_mmap",
            "timestamp": TICKS,
            "thread": at(0xCC),
            "module_id": 0xABCD,
            "flags": 5,
            "start_address": 0x1000,
            "address_range": 0x2000,
            "vaddr": 0x3000,
        },
    ),
    "libfxt profiler backtrace, inline thread": (
        words(0x000000003002007A, TICKS, 0xDEADBEEF, 0xCAFEF00D, 1, 2, 3),
        {
            "kind": "profiler_backtrace",
            "timestamp": TICKS,
            "thread": {"process": 0xDEADBEEF, "thread": 0xCAFEF00D},
            "backtrace_data": words(1, 2, 3),
        },
    ),
    "libfxt large blob without metadata": (
        words(0x000001000000008F, 0x7BBB7AAA, 34) + b"Some data to write into the buffer" + bytes(6),
        {
            "kind": "large_blob_no_metadata",
            "category": at(0x7AAA),
            "name": at(0x7BBB),
            "payload": b"Some data to write into the buffer",
        },
    ),
    "specification, large blob with metadata (derived)": (
        words(0x000000000000009F, 0x0000000180020001, 0x6261, 100, 7, 8, 0x0000000500000012, 3) + b"\1\2\3" + bytes(5),
        {
            "kind": "large_blob",
            "category": at(1),
            "name": inline(b"ab"),
            "timestamp": 100,
            "thread": {"process": 7, "thread": 8},
            "args": [arg("uint32", at(0), 5)],
            "payload": b"\1\2\3",
        },
    ),
    "Rust fxt record of unknown type 14 (derived)": (
        words(0x2E, 0x1122334455667788),
        {"kind": "unknown", "raw": words(0x2E, 0x1122334455667788)},
    ),
}
