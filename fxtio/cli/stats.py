"""`fxtio stats`: what fills a trace, what it refers to in vain, and what it says it has lost."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from fxtio.cli.common import (
    add_examples,
    add_input,
    count,
    findings_json,
    human_size,
    json_text,
    open_trace,
    print_findings,
    print_json,
    print_table,
    printable,
)

if TYPE_CHECKING:
    from fxtio.cli.tally import References, Share, Tally, Texts

NAME = "stats"
HELP = "Tell what fills a trace: records and bytes by type, provider, category, name"


def add_arguments(parser: ArgumentParser) -> None:
    """Describe the verb's arguments."""
    add_input(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    told = "list only the N largest providers, categories and names (default: 10)"
    parser.add_argument("--top", type=count, default=10, metavar="N", help=told)
    add_examples(parser, "fxtio stats app.fxt", "fxtio stats --json --top 1000 app.fxt | jq .names")


def run(options: Namespace) -> int:
    """Count, then print."""
    from fxtio.cli.tally import Tally

    tally = Tally()
    with open_trace(options) as trace:
        for batch in trace._batches(forget=True):
            tally.add(batch)
        tally.settle(trace.position)
    if options.json:
        print_json(_json(tally, options.top) | {"findings": findings_json(trace)})
    else:
        _print(trace.name, tally, options.top)
    return print_findings(trace)


def _largest(shares: dict[Any, Share], top: int) -> list[tuple[Any, Share]]:
    return sorted(shares.items(), key=lambda item: (-item[1].bytes, str(item[0])))[:top]


def _json(tally: Tally, top: int) -> dict[str, Any]:
    return {
        "records": tally.total.records,
        "bytes": tally.total.bytes,
        "bytes_outside_records": tally.lost,
        "types": [{"type": name, **_share(share)} for name, share in _largest(tally.types, len(tally.types))],
        "providers": [
            {"id": number, "name": json_text(name), **_share(share)}
            for (number, name), share in _largest(tally.providers, top)
        ],
        "categories": _texts_json(tally.categories, top),
        "names": _texts_json(tally.names, top),
        "strings": _references_json(tally.strings),
        "threads": _references_json(tally.threads),
        "drops": {
            "buffer_filled_up": tally.filled_up,
            "reports": tally.drops,
            "records": tally.dropped.records,
            "bytes": tally.dropped.bytes,
        },
    }


def _share(share: Share) -> dict[str, int]:
    return {"records": share.records, "bytes": share.bytes}


def _texts_json(texts: Texts, top: int) -> list[dict[str, Any]]:
    return [
        {"name": None if text is None else json_text(text), **_share(share)}
        for text, share in _largest(texts.shares, top)
    ]


def _references_json(one: References) -> dict[str, int]:
    return {
        "definitions": one.defined,
        "slots": one.slots,
        "redefinitions": one.redefined,
        "references": one.by_slot,
        "inline": one.inline,
        "undefined": one.undefined,
    }


def _print(name: str, tally: Tally, top: int) -> None:
    total = tally.total
    outside = f", {tally.lost:,} bytes outside of records" if tally.lost else ""
    print(f"{printable(name)}: {total.records:,} records, {human_size(total.bytes)}{outside}")
    every = total.bytes
    _print_shares("type", _largest(tally.types, len(tally.types)), len(tally.types), every)
    providers = [(f"{number} {name}", share) for (number, name), share in _largest(tally.providers, top)]
    _print_shares("provider", providers, len(tally.providers), every)
    for title, texts in (("category", tally.categories), ("name", tally.names)):
        rows = [(_shown(text), share) for text, share in _largest(texts.shares, top)]
        _print_shares(title, rows, len(texts.shares) + texts.rest_texts, every)
    print()
    headers = ["table", ">definitions", ">slots", ">redefinitions", ">references", ">inline", ">undefined"]
    tables = (("strings", tally.strings), ("threads", tally.threads))
    print_table(headers, [(title, *_references_json(one).values()) for title, one in tables])
    if tally.filled_up or tally.drops:
        print()
    if tally.filled_up:
        print(f"a buffer filled up: told {tally.filled_up:,} times, records were likely lost")
    if tally.drops:
        lost = f"{tally.dropped.records:,} records, {tally.dropped.bytes:,} bytes"
        print(f"dropped by the kernel: {lost}, told by {tally.drops:,} drop_stats events")


def _shown(text: str | None) -> str:
    return "(undefined)" if text is None else text or '""'


def _print_shares(title: str, shares: Iterable[tuple[str, Share]], different: int, every: int) -> None:
    rows = [(share.records, share.bytes, f"{100 * share.bytes / every:.1f}%", text) for text, share in shares]
    if not rows:
        return
    print()
    print_table([">records", ">bytes", ">share", title], rows)
    if different > len(rows):
        print(f"and {different - len(rows):,} more")
