"""Types of the kernels in C.  `fxtio._native.python` documents them."""

from typing import Any

import numpy as np

_Array = np.ndarray[Any, Any]

def walk(
    words: _Array, start: int, rules: _Array, table: _Array, at: _Array, size: _Array, kind: _Array, /
) -> tuple[int, int, int]: ...
def walk_many(
    words: _Array,
    first: _Array,
    stop: _Array,
    counts: _Array,
    rules: _Array,
    table: _Array,
    at: _Array,
    size: _Array,
    kind: _Array,
    counted: _Array,
    after: _Array,
    /,
) -> int: ...
def copy_rows(words: _Array, at: _Array, size: _Array, chosen: _Array, out: _Array, /) -> int: ...
def gather(words: _Array, at: _Array, delta: int | _Array, out: _Array, /) -> None: ...
def walk_payloads(
    words: _Array,
    data: _Array,
    head: _Array,
    begin: _Array,
    end: _Array,
    programs: _Array,
    code: _Array,
    at: _Array,
    size: _Array,
    start: int,
    latest: int,
    /,
) -> tuple[int, int, int]: ...
def pair(
    step: _Array,
    depth: _Array,
    address: _Array,
    stack_depth: _Array,
    stack_address: _Array,
    stack_begin: _Array,
    begin: _Array,
    end: _Array,
    how: _Array,
    height: int,
    /,
) -> tuple[int, int]: ...
def distinct(values: _Array, codes: _Array, first: _Array, seed: int, /) -> int: ...
def choose_rows(kind: _Array, chosen: _Array, rows: _Array, /) -> int: ...
def group_rows(kind: _Array, order: _Array, begins: _Array, /) -> None: ...
def walk_chunks(
    numbers: _Array,
    start: int,
    size: int,
    count_place: int,
    value_place: int,
    at: _Array,
    count: _Array,
    value: _Array,
    /,
) -> tuple[int, int]: ...
def sum_rows(numbers: _Array, at: _Array, count: _Array, /) -> tuple[int, int, int]: ...
def unroll(
    numbers: _Array, at: _Array, count: _Array, first: _Array, step: int, places: _Array, hits: _Array, /
) -> int: ...
def late(track: _Array, time: _Array, latest: _Array, rows: _Array, /) -> int: ...
def list_slices(
    rows: tuple[_Array, ...],
    ids: _Array,
    closing: _Array,
    slices: tuple[_Array, ...],
    carried: int,
    next_id: int,
    latest: int,
    /,
) -> tuple[int, int]: ...
def match(
    step: _Array,
    track: _Array,
    time: _Array,
    end: _Array,
    key: _Array,
    level: _Array,
    top: _Array,
    parent: _Array,
    depth: _Array,
    closer: _Array,
    inner: _Array,
    state: _Array,
    on_stack: _Array,
    carried: int,
    /,
) -> tuple[int, int]: ...
def tally(
    track: _Array,
    group: _Array,
    start: _Array,
    duration: _Array,
    own: _Array,
    calls: _Array,
    total: _Array,
    self: _Array,
    shortest: _Array,
    longest: _Array,
    /,
) -> None: ...
def nest(
    step: _Array,
    track: _Array,
    begin: _Array,
    end: _Array,
    key: _Array,
    top: _Array,
    marked: _Array,
    below: _Array,
    depth: _Array,
    fault_kind: _Array,
    fault_row: _Array,
    fault_other: _Array,
    counts: _Array,
    deepest: int,
    /,
) -> int: ...
def find_uses(
    words: _Array,
    at: _Array,
    size: _Array,
    kind: _Array,
    taken: _Array,
    header: _Array,
    rules: _Array,
    tails: _Array,
    string_rows: _Array,
    string_slots: _Array,
    string_now: _Array,
    string_used: _Array,
    string_earlier: _Array,
    thread_rows: _Array,
    thread_slots: _Array,
    thread_now: _Array,
    thread_used: _Array,
    thread_earlier: _Array,
    /,
) -> bool: ...
def read_plain(
    words: _Array,
    at: _Array,
    size: _Array,
    kind: _Array,
    header: _Array,
    rules: _Array,
    steps: _Array,
    tails: _Array,
    strings: _Array,
    strings_since: _Array,
    threads: _Array,
    threads_since: _Array,
    step: _Array,
    track: _Array,
    ticks: _Array,
    category: _Array,
    name: _Array,
    tail: _Array,
    owner: _Array,
    argument_name: _Array,
    argument_kind: _Array,
    argument_bits: _Array,
    argument_text: _Array,
    first: int,
    /,
) -> int: ...
def interleave(out: _Array, ends: _Array, /, *columns: _Array) -> int: ...
def scan_stream(
    data: _Array,
    begin: _Array,
    end: _Array,
    registers: _Array,
    steps: _Array,
    entry: _Array,
    jumps: _Array,
    mask: int,
    counts: _Array,
    stop: _Array,
    fault: _Array,
    late: _Array,
    /,
) -> None: ...
def fill_stream(
    data: _Array,
    begin: _Array,
    stop: _Array,
    registers: _Array,
    steps: _Array,
    entry: _Array,
    jumps: _Array,
    mask: int,
    base: int,
    first: _Array,
    columns: tuple[_Array | None, ...],
    /,
) -> None: ...
def encode_stream(
    order: _Array,
    start: int,
    starts: _Array,
    kinds: _Array,
    registers: _Array,
    steps: _Array,
    mask: int,
    columns: tuple[_Array | None, ...],
    texts: _Array,
    rows: _Array,
    out: _Array,
    /,
) -> tuple[int, int]: ...
