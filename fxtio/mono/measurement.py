"""Events about what is measured: samples, counters, coverage; in the specification's order."""

from __future__ import annotations

from typing import Annotated, ClassVar

from fxtio.codec.stream import Byte, Head, Many, Relative, Sleb, Uleb
from fxtio.mono import layout as b
from fxtio.mono.enums import CoverageInfo, SampleInfo
from fxtio.mono.parts import (
    METHOD,
    POINTER,
    CounterDescription,
    CounterValue,
    Event,
    LateTick,
    Name,
    Pointer,
    SampledFrame,
    Size,
    heads_of,
)


class SampleHit(Event, frozen=True, kw_only=True):
    """A sample was taken.  spec: type sample format, TYPE_SAMPLE_HIT

    Attributes:
        sample_type: what is counted, see `SampleType`; None from data version 14 on.
        sample_time: its own time; up to data version 12.
        interrupted: the thread that was interrupted; None before data version 11.
        addresses: instruction pointers, the innermost first; today always one.
        located_frames: managed frames with offsets; data versions 6 to 12.
        frames: methods, the innermost first; None before data version 13.
    """

    heads: ClassVar = heads_of(b.SampleByte, since=4, exinfo=SampleInfo.HIT)
    time: LateTick
    sample_type: Annotated[int | None, Uleb(before=13), Byte(since=13, before=14)] = None
    sample_time: Annotated[int | None, Uleb(before=13)] = None
    interrupted: Annotated[int | None, Relative(base="pointer", since=11)] = None
    addresses: Annotated[tuple[int, ...], Many(of=POINTER)]
    located_frames: Annotated[tuple[SampledFrame, ...] | None, Many(of=SampledFrame, since=6, before=13)] = None
    frames: Annotated[tuple[int, ...] | None, Many(of=METHOD, since=13)] = None


class NativeSymbol(Event, frozen=True, kw_only=True):
    """The name of native code.  spec: type sample format, TYPE_SAMPLE_USYM

    Attributes:
        address: where it begins.
        size: its size in bytes, 0 if unknown.
        name: its name.
    """

    heads: ClassVar = heads_of(b.SampleByte, since=4, exinfo=SampleInfo.NATIVE_SYMBOL)
    time: LateTick
    address: Pointer
    size: Size
    name: Name


class NativeBinary(Event, frozen=True, kw_only=True):
    """A native binary was mapped.  spec: type sample format, TYPE_SAMPLE_UBIN

    Attributes:
        address: where.
        offset: what of the file is mapped.
        size: how much of it, in bytes.
        name: the file.
    """

    heads: ClassVar = heads_of(b.SampleByte, since=4, before=16, exinfo=SampleInfo.NATIVE_BINARY)
    address: Annotated[int, Sleb(pointer=True, before=14), Relative(base="pointer", since=14)]
    offset: Annotated[int, Uleb()]
    size: Size
    name: Name


class CounterDescriptions(Event, frozen=True, kw_only=True):
    """Counters are introduced.  spec: type sample format, TYPE_SAMPLE_COUNTERS_DESC"""

    heads: ClassVar = heads_of(b.SampleByte, since=5, exinfo=SampleInfo.COUNTER_DESCRIPTIONS)
    time: LateTick
    counters: Annotated[tuple[CounterDescription, ...], Many(of=CounterDescription)]


class CounterValues(Event, frozen=True, kw_only=True):
    """Counters were read.  spec: type sample format, TYPE_SAMPLE_COUNTERS

    Attributes:
        milliseconds: time since the start; None from data version 13 on.
        values: what was read.
    """

    heads: ClassVar = heads_of(b.SampleByte, since=5, exinfo=SampleInfo.COUNTERS)
    time: LateTick
    milliseconds: Annotated[int | None, Uleb(before=13)] = None
    values: Annotated[tuple[CounterValue, ...], Many(of=CounterValue, until_zero=True)]


def _coverage(kind: CoverageInfo) -> tuple[Head, ...]:
    return heads_of(b.CoverageByte, since=10, before=16, exinfo=kind)


class CoverageAssembly(Event, frozen=True, kw_only=True):
    """Coverage of an assembly.  spec: type coverage format, TYPE_COVERAGE_ASSEMBLY

    Attributes:
        name: the assembly.
        guid: its id.
        filename: its file.
        methods: number of its methods.
        fully_covered: how many of them were run.
        partially_covered: always 0.
    """

    heads: ClassVar = _coverage(CoverageInfo.ASSEMBLY)
    time: LateTick
    name: Name
    guid: Name
    filename: Name
    methods: Size
    fully_covered: Size
    partially_covered: Size


class CoverageMethod(Event, frozen=True, kw_only=True):
    """Coverage of a method.  spec: type coverage format, TYPE_COVERAGE_METHOD

    Attributes:
        assembly: its assembly.
        class_name: its class.
        name: its name.
        signature: its signature.
        filename: the source file.
        token: its token.
        method_id: the number that its statements go by.
        statements: how many of them there are.
    """

    heads: ClassVar = _coverage(CoverageInfo.METHOD)
    time: LateTick
    assembly: Name
    class_name: Name
    name: Name
    signature: Name
    filename: Name
    token: Size
    method_id: Size
    statements: Size


class CoverageStatement(Event, frozen=True, kw_only=True):
    """Coverage of a statement.  spec: type coverage format, TYPE_COVERAGE_STATEMENT

    Attributes:
        method_id: its method.
        offset: its IL offset, relative to the one before it.
        counter: how often it was run.
        line: its line in the source file.
        column: its column there.
    """

    heads: ClassVar = _coverage(CoverageInfo.STATEMENT)
    time: LateTick
    method_id: Size
    offset: Size
    counter: Size
    line: Size
    column: Size


class CoverageClass(Event, frozen=True, kw_only=True):
    """Coverage of a class.  spec: type coverage format, TYPE_COVERAGE_CLASS

    Attributes:
        assembly: its assembly.
        name: its name.
        methods: number of its methods.
        fully_covered: how many of them were run.
        partially_covered: always 0.
    """

    heads: ClassVar = _coverage(CoverageInfo.CLASS)
    time: LateTick
    assembly: Name
    name: Name
    methods: Size
    fully_covered: Size
    partially_covered: Size
