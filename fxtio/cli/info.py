"""`fxtio info`: what is inside a trace."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from itertools import islice
from typing import TYPE_CHECKING, Any

from fxtio.cli.common import (
    add_examples,
    add_input,
    findings_json,
    human_duration,
    human_size,
    json_text,
    open_trace,
    print_findings,
    print_json,
    print_table,
    printable,
    seconds,
)

if TYPE_CHECKING:
    from fxtio.fxt.reader import Info

NAME = "info"
HELP = "Tell what is inside a trace"

SHOWN_NAMES = 20
"""How many processes, and how many threads, are listed; `--json` has all."""


def add_arguments(parser: ArgumentParser) -> None:
    """Describe the verb's arguments."""
    add_input(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_examples(parser, "fxtio info app.fxt", "curl -s https://example.org/app.fxt.zst | fxtio info -")


def run(options: Namespace) -> int:
    """Print the summary."""
    with open_trace(options) as trace:
        info = trace.info
    if options.json:
        print_json(_json(info) | {"findings": findings_json(trace)})
    else:
        _print(info)
    return print_findings(trace)


def _json(info: Info) -> dict[str, Any]:
    providers = [
        {
            "id": one.id,
            "name": json_text(one.name),
            "records": one.records,
            "ticks_per_second": one.clock.ticks_per_second,
            "base_ticks": one.clock.base_ticks,
            "wall_clock": one.clock.wall_clock,
        }
        for one in info.providers
    ]
    return {
        "name": json_text(info.name),
        "format": info.format,
        "byte_order": info.byte_order,
        "compression": info.compression,
        "size": info.size,
        "start": info.start,
        "end": info.end,
        "started_at": info.started_at and info.started_at.isoformat(),
        "records": dict(info.records),
        "providers": providers,
        "processes": [{"koid": koid, "name": json_text(name)} for koid, name in info.processes.items()],
        "threads": [{"koid": koid, "name": json_text(name)} for koid, name in info.threads.items()],
    }


def _print(info: Info) -> None:
    packed = f", {info.compression}" if info.compression else ""
    print(printable(info.name))
    print(f"  format    {info.format}, {info.byte_order}-endian{packed}")
    print(f"  size      {human_size(info.size)}{' decompressed' if packed else ''}")
    print(f"  records   {info.records.total():,}")
    if info.start is not None and info.end is not None:
        times = f"from {seconds(info.start)} s to {seconds(info.end)} s"
        print(f"  duration  {human_duration(info.end - info.start)}, {times}")
    if info.started_at is not None:
        print(f"  started   {info.started_at:%Y-%m-%d %H:%M:%S.%f} UTC")
    print()
    print_table([">records", "class"], [(number, name) for name, number in info.records.most_common()])
    print()
    rows = [(str(one.id), one.records, one.clock.ticks_per_second, one.name) for one in info.providers]
    print_table([">provider", ">records", ">ticks/s", "name"], rows)
    for title, names in (("process", info.processes), ("thread", info.threads)):
        if names:
            print()
            print_table([f">{title}", "name"], [(str(koid), name) for koid, name in islice(names.items(), SHOWN_NAMES)])
            if len(names) > SHOWN_NAMES:
                print(f"and {len(names) - SHOWN_NAMES:,} more")
