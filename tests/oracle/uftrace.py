"""uftrace data restated in `construct`, from the specification, without a look at the package.

The specification's order of record types is corrected: LOST is 2 and EVENT is 3, as real data shows.
"""

from __future__ import annotations

import construct as c

MAGIC = bytes.fromhex("4674726163652100")


def _info(integer: str) -> c.Construct:
    u16, u32, u64 = (getattr(c, f"Int{bits}u{integer}") for bits in (16, 32, 64))
    return c.Struct(
        "magic" / c.Const(MAGIC),
        "version" / u32,
        "header_size" / u16,
        "byte_order" / c.Int8ub,  # 1 little-endian, 2 big-endian
        "address_size" / c.Int8ub,  # 1 32 bits, 2 64 bits
        "feat_mask" / u64,
        "info_mask" / u64,
        "max_stack_depth" / u16,
        "reserved" / c.Bytes(6),
        "info_string" / c.GreedyBytes,
    )


INFO = {"little": _info("l"), "big": _info("b")}
"""spec: The info file"""

# The second number, most significant bit first.
_SECOND = c.BitStruct(
    "address" / c.BitsInteger(48),
    "depth" / c.BitsInteger(10),
    "magic" / c.Const(5, c.BitsInteger(3)),
    "marker" / c.Flag,
    "type" / c.Enum(c.BitsInteger(2), ENTRY=0, EXIT=1, LOST=2, EVENT=3),
)

RECORD = {
    "little": c.Struct("time" / c.Int64ul, "second" / c.ByteSwapped(_SECOND)),
    "big": c.Struct("time" / c.Int64ub, "second" / _SECOND),
}
"""spec: The data (.dat) file; without the payload"""


def _perf(integer: str) -> c.Construct:
    u16, u32, u64 = (getattr(c, f"Int{bits}u{integer}") for bits in (16, 32, 64))
    i32 = getattr(c, f"Int32s{integer}")
    sample = {"pid": i32, "tid": i32, "time": u64}
    task = {"pid": i32, "ppid": i32, "tid": i32, "ptid": i32, "time": u64}
    body = c.Switch(
        c.this.type,
        {
            3: c.Struct("pid" / i32, "tid" / i32, "comm" / c.Bytes(c.this._.size - 32)),
            4: c.Struct(*(name / form for name, form in task.items())),
            7: c.Struct(*(name / form for name, form in task.items())),
        },
        default=c.Bytes(c.this.size - 24),
    )
    return c.Struct(
        "type" / u32,
        "misc" / u16,
        "size" / u16,
        "body" / body,
        "sample" / c.Struct(*(name / form for name, form in sample.items())),
    )


PERF = {"little": _perf("l"), "big": _perf("b")}
"""A record of `perf-cpu<N>.dat`, as man 2 perf_event_open has it: COMM 3, EXIT 4, FORK 7, SWITCH 14; with the sample
that uftrace requests."""
