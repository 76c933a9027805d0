"""Pages about records of byte streams, as Markdown: what their declarations say, for the reference."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from fxtio.codec.docstrings import doc_of, title_of
from fxtio.codec.pages import section_head
from fxtio.codec.stream.declare import (
    Choice,
    Item,
    Repeated,
    StreamPart,
    StreamRecord,
    layout_of,
    parts_of,
    single,
)


def stream_markdown(cls: type[StreamRecord]) -> str:
    """Return a section of Markdown about a record: its first byte, and its parts with the versions that have them."""
    doc = doc_of(cls)
    lines = section_head(3, cls.__name__, f"{title_of(cls)}.", doc.text)
    for head in cls.first_bytes:
        layout = layout_of(cls, head.since or 1)
        assert layout is not None
        values = " or ".join(f"`{value:#04x}`" for value in layout.bytes())
        lines.append(f"First byte {values}{_range(head.since, head.before)}.")
    if cls.subtype is not None:
        lines.append(f"After the time a byte {int(cls.subtype)}.")
    lines += ["", "| Field | In the file | Data versions |", "|---|---|---|"]
    lines += list(field_rows(cls))
    return "\n".join([*lines, ""])


def field_rows(cls: type[Item], prefix: str = "", *, first_version: int = 1) -> Iterator[str]:
    """Yield a row of a Markdown table for each part: the field, its encoding, and the versions that have it.

    Args:
        cls: the class.
        prefix: comes before the names of the fields.
        first_version: the first version that there is.
    """
    for name, parts in parts_of(cls).items():
        for part in parts:
            versions = _versions(part.since, part.before, first_version)
            when = f"; only where `{part.when[0]}` is {_numbers(part.when[1])}" if part.when else ""
            yield f"| `{prefix}{name}` | {_encoding(part)}{when} | {versions} |"
        if not parts:
            yield f"| `{prefix}{name}` | in the first byte | |"
        items = next(
            (part.of for part in parts if isinstance(part, Repeated) and not isinstance(part.of, StreamPart)),
            None,
        )
        if items is not None:
            yield from field_rows(items, f"{prefix}{name}[].", first_version=first_version)


def _range(since: float, before: float) -> str:
    versions = _versions(since, before)
    return f" (data versions {versions})" if versions else ""


def _versions(since: float, before: float, first: int = 1) -> str:
    if since <= first:
        return "" if before == inf else f"before {before:g}"
    return f"{since:g} on" if before == inf else f"{since:g} to before {before:g}"


def _numbers(values: tuple[int, ...]) -> str:
    return ", ".join(str(int(value)) for value in values)


def _encoding(part: StreamPart) -> str:
    """Return how a part is encoded, in the words of the documents."""
    match part:
        case Choice(by=by, cases=cases):
            encodings = [f"{_numbers(values)}: {_encoding(case)}" for values, case in cases]
            return f"by `{by}`: {'; '.join(encodings)}"
        case Repeated(of=of, until_zero=until_zero):
            what = f": {_encoding(of)}" if isinstance(of, StreamPart) else ""
            return (
                f"{'items until a 0 in the place of the first number' if until_zero else 'uleb128 count, items'}{what}"
            )
    return single(part).encoding
