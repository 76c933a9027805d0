"""Texts and call sites: what is the same in all events of one place in the program, looked up once."""

from __future__ import annotations

from array import array

from fxtio.tracer.python import store
from fxtio.tracer.python.store import WORD, layout, session

MOST_ARGS = 15
MOST_NAME = 250
"""Bytes of a name that stands in its event."""

_MOST_DEFINED = 32_000
_MOST_SITES = 40_000


exact = str.__str__
"""A text as a plain string: the methods of others may be the program's own."""


def cut(data: bytes, most: int) -> bytes:
    """At most so many bytes of a text, cut where a character begins."""
    if len(data) <= most:
        return data
    session.cut += 1
    return data[:most].decode(errors="ignore").encode()


def utf8(text: str) -> bytes:
    """The bytes of a text; what has none is escaped."""
    return str.encode(text, "utf-8", "backslashreplace")


def padded(data: bytes) -> bytes:
    """With zeros behind it, up to a whole word."""
    return data + bytes(-len(data) % WORD)


def _slot(text: str) -> int:
    data = utf8(text)
    slot = store.file.slots + 1
    if not data or slot > layout["string_slots"] or len(data) > _MOST_DEFINED:
        return 0
    body = padded(data)
    header = layout["string"] + slot * layout["string_slot"] + len(data) * layout["string_size"]
    header += (len(body) // WORD + 1) * layout["size"]
    if not store.define(array("Q", [header]).tobytes() + body):
        return 0
    store.file.slots = session.texts[text] = slot
    return slot


def text_slot(text: str) -> int:
    """The slot of a text, defining it when it is new; 0 where it has to stand in its events.  Only for one thread."""
    return session.texts.get(text) or _slot(text)


class Site:
    """What is the same in all events of one place in the program.

    Args:
        category: of its events.
        name: of its events.
        keys: of their arguments.

    Attributes:
        generation: the session that what follows belongs to.
        swift: the same if category and name are in the string table, else 0.
        refs: both in an event's header.
        front: their words, where they stand in the event.
        left_out: keys that are too many for an event.
        keys_at: the keys in arguments' headers, 0 for those that have no slot.
        begin: the header of the begin of a span without arguments, but for the thread.
        end: of its end.
        instant: of a moment.
    """

    __slots__ = (
        "begin", "category", "end", "front", "generation", "instant", "keys", "keys_at", "left_out", "name", "refs",
        "swift",
    )  # fmt: skip

    def __init__(self, category: str, name: str, keys: tuple[str, ...] = (), /) -> None:
        for position, value in enumerate((category, name), 1):
            if not isinstance(value, str):
                raise TypeError(f"Site() argument {position} must be str, not {type(value).__name__}")
        if not isinstance(keys, tuple):
            raise TypeError(f"Site() argument 3 must be tuple, not {type(keys).__name__}")
        self.category, self.name, self.keys = exact(category), exact(name), keys[:MOST_ARGS]
        self.left_out = max(0, len(keys) - MOST_ARGS)
        self.generation = self.swift = self.refs = self.begin = self.end = self.instant = 0
        self.front = b""
        self.keys_at: tuple[int, ...] = ()


def _reference(site: Site, text: str) -> int:
    """The reference of a name; it goes into the events themselves if it has no slot."""
    if not text:
        return 0
    if slot := text_slot(text):
        return slot
    data = cut(utf8(text), MOST_NAME)
    site.front += padded(data)
    session.inlined += 1
    return layout["text_inline"] + len(data)


def _bind(site: Site) -> bool:
    site.front = b""
    refs = _reference(site, site.category) * layout["event_category"]
    site.refs = refs + _reference(site, site.name) * layout["event_name"]
    site.keys_at = tuple([text_slot(key) * layout["argument_name"] for key in site.keys])
    site.begin, site.end, site.instant = [
        layout[kind] + 2 * layout["size"] + site.refs for kind in ("begin", "end", "instant")
    ]
    site.generation = session.generation
    site.swift = 0 if site.front else session.generation
    return True


def bind(site: Site) -> bool:
    """Make a site ready for the session.  Whether its events can be recorded."""
    if site.generation == session.generation:
        return True
    if session.only is not None and site.category not in session.only:
        return False
    if session.without is not None and site.category in session.without:
        return False
    return store.alone(_bind, site, False)


by_name: dict[str, Site] = {}
sites: dict[tuple[str, ...], Site] = {}
"""What is known of this session: by name where there is nothing else, else by name, category and keys."""


def site_of(name: str, category: str, keys: tuple[str, ...] = ()) -> Site:
    """The site of these; the same one for the same."""
    place = (name, category, *keys)
    simple = category == "" and not keys
    site = by_name.get(name) if simple else sites.get(place)
    if site is None:
        site = Site(category, name, keys)
        if len(sites) + len(by_name) < _MOST_SITES:
            if simple:
                by_name[exact(name)] = site
            else:
                sites[place] = site
    return site


def forget_sites() -> None:
    """The session is over."""
    by_name.clear()
    sites.clear()
