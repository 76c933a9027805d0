"""What fills a trace, what it refers to in vain, and what it says it has lost: the counts of `present_tally`, told."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from fxtio.fxt.present_tally import References, Share, Tally, Texts
from fxtio.fxt.reader import FxtTrace
from fxtio.present import Report, ReportTable, human_size, json_text

Shares = Sequence[tuple[Any, Share]]
"""What is counted, and the records that it has."""


def stats(trace: FxtTrace, top: int) -> Report:
    """What fills a trace.

    Args:
        trace: the trace; all of it is read.
        top: tell only of so many providers, categories and names: the largest.
    """
    tally = Tally()
    for batch in trace._batches(forget=True):
        tally.add(batch)
    tally.settle(trace.position)
    total = tally.total
    outside = f", {tally.lost:,} bytes outside of records" if tally.lost else ""
    title = f"{trace.name}: {total.records:,} records, {human_size(total.bytes)}{outside}"
    return Report(title, tables=[*_tables(tally, top)], notes=[*_losses(tally)], json=_json(tally, top))


def _largest(shares: dict[Any, Share], top: int) -> Shares:
    return sorted(shares.items(), key=lambda item: (-item[1].bytes, str(item[0])))[:top]


def _tables(tally: Tally, top: int) -> Iterator[ReportTable]:
    every = tally.total.bytes
    yield from _shares_table("type", _largest(tally.types, len(tally.types)), len(tally.types), every)
    providers = [(f"{number} {name}", share) for (number, name), share in _largest(tally.providers, top)]
    yield from _shares_table("provider", providers, len(tally.providers), every)
    for title, texts in (("category", tally.categories), ("name", tally.names)):
        shares = [(_shown(text), share) for text, share in _largest(texts.shares, top)]
        yield from _shares_table(title, shares, len(texts.shares) + texts.rest_texts, every)
    headers = ["table", ">definitions", ">slots", ">redefinitions", ">references", ">inline", ">undefined"]
    tables = (("strings", tally.strings), ("threads", tally.threads))
    yield ReportTable(headers, [(title, *_references_json(one).values()) for title, one in tables])


def _shares_table(title: str, shares: Shares, different: int, every: int) -> Iterator[ReportTable]:
    """A table of shares of `every` bytes, of which there are so many different ones; none if there are none."""
    rows = [(share.records, share.bytes, f"{100 * share.bytes / every:.1f}%", text) for text, share in shares]
    if rows:
        yield ReportTable([">records", ">bytes", ">share", title], rows, different - len(rows))


def _shown(text: str | None) -> str:
    return "(undefined)" if text is None else text or '""'


def _losses(tally: Tally) -> Iterator[str]:
    if tally.filled_up:
        yield f"a buffer filled up: told {tally.filled_up:,} times, records were likely lost"
    if tally.drops:
        lost = f"{tally.dropped.records:,} records, {tally.dropped.bytes:,} bytes"
        yield f"dropped by the kernel: {lost}, told by {tally.drops:,} drop_stats events"


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
