"""Perfetto's own format: packets in protobuf, most of them track events; `reader` reads it, and `exporter` writes it.

`messages` declares the messages for both.  Packets of usual forms are read by `columns`, all at once; what others mean
is said by `events`, `annotations`, `ftrace` and `samples`, one by one.  `state` is what sequences have defined;
`tracks` and `rows` are what becomes of it in the timeline.

https://perfetto.dev/docs/reference/trace-packet-proto
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import TYPE_CHECKING

from fxtio.codec.protobuf import Wire, WireError, fields
from fxtio.exchange.perfetto.exporter import Exporter
from fxtio.exchange.perfetto.messages import NUMBERS, PACKET, Packet

if TYPE_CHECKING:
    from fxtio.io.source import Source
    from fxtio.timeline.parts import Registry, TimelinePart

__all__ = ["Exporter", "parts", "sniff"]

_MOST = 1000
"""The numbers of fields of packets are below this one."""

_SIGNS = {each for each in Packet if each > Packet.SEQUENCE_FLAGS}
"""The fields whose numbers hardly occur in other files."""


def sniff(head: bytes) -> bool:
    """Return whether a file begins with packets: all of their fields may be such, and one is surely."""
    says = False
    try:
        for number, kind, begin, end in fields(head + bytes(len(head))):  # the last packet may be cut
            if number != PACKET or kind != Wire.BYTES or begin >= len(head):
                return says and begin >= len(head)
            for field, wire, _, _ in fields(head, begin, min(end, len(head))):
                if wire != (Wire.VARINT if field in NUMBERS else Wire.BYTES) or field > _MOST:
                    return False
                says |= field in NUMBERS or field in _SIGNS
    except WireError:
        pass
    return says


def parts(source: Source, registry: Registry, tables: Set[str]) -> Iterator[TimelinePart]:
    """Read a file, see `fxtio.formats.TimelineRoom.parts`."""
    from fxtio.exchange.perfetto.reader import parts as read

    return read(source, registry, tables)
