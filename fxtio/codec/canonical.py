"""Records as JSON and back, with the names of their specifications, as `conformance/CANONICAL.md` lists them.

A record is a msgspec struct.  The tag of its class is its `type`, and `msgspec.field(name=...)` names a field where the
specification calls it other than Python does.  A name such as `extension.scope` is that of a field in an object
`extension`; one that begins with `_` is that of a field which the canonical form does not have.  A field that has a
default is left out where it is None.

There are two forms: `shown` is the canonical one, where a number is a text and a text says whether it is UTF-8, and
`described` is for people and `jq`.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from operator import attrgetter
from types import UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin, get_type_hints

import msgspec

from fxtio.codec.record import Opaque, once
from fxtio.errors import FxtioError

Json = dict[str, Any]

_DOUBLE = "f64:"
_BARE = object()

Identifier = Annotated[str, _BARE]
"""A text that is always UTF-8, and which the canonical form has as it is."""


@once
def type_of(cls: type[Any]) -> str:
    """Return the type that the records of a class have."""
    return str(cls.__struct_config__.tag)


def classes_named(name: str, *, classes: Sequence[type[Any]]) -> frozenset[type[Any]]:
    """Return the classes of records that a name stands for: that of a class, of a base class of some, or of a type.

    Capital letters, hyphens, underscores and blanks do not count; `unknown` is `Opaque`.

    Args:
        name: the name.
        classes: the classes to choose from.

    Raises:
        FxtioError: there are none; the message lists the names of all.
    """
    wanted = _folded(name).replace("unknown", "opaque")
    result = frozenset(
        cls
        for cls in classes
        if wanted in (_folded(type_of(cls)), *(_folded(base.__name__) for base in cls.__mro__ if _is_record(base)))
    )
    if not result or len(result) >= len(set(classes) - {Opaque}):
        raise FxtioError(f"there is no record type {name!r}, only {', '.join(cls.__name__ for cls in classes)}")
    return result


def _folded(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "").replace(" ", "")


def _has_type(cls: Any) -> bool:
    return cls.__struct_config__.tag is not None


class JsonField(NamedTuple):
    """A field of a record, as JSON has it.

    Attributes:
        attribute: its name in Python.
        name: its name in JSON.
        outer: the object that it is in, an empty text for the record itself.
        is_canonical: whether the canonical form has it.
        is_optional: whether it is left out where it is None.
        is_identifier: whether the canonical form has it as it is, see `Identifier`.
        kinds: the types that its value may have.
    """

    attribute: str
    name: str
    outer: str
    is_canonical: bool
    is_optional: bool
    is_identifier: bool
    kinds: tuple[Any, ...]


@once
def fields_of(cls: type[Any]) -> tuple[JsonField, ...]:
    """Return the fields of a class of records."""
    hints, marked, result = get_type_hints(cls), get_type_hints(cls, include_extras=True), []
    for each in msgspec.structs.fields(cls):
        outer, dot, inner = each.encode_name.partition(".")
        is_optional = each.default is not msgspec.NODEFAULT
        name = (inner if dot else outer).removeprefix("_")
        kinds = tuple(_kinds(hints[each.name]))
        is_canonical = not each.encode_name.startswith("_")
        is_identifier = _BARE in getattr(marked[each.name], "__metadata__", ())
        place = each.name, name, outer if dot else ""
        result.append(JsonField(*place, is_canonical, is_optional, is_identifier, kinds))
    return tuple(result)


def _kinds(hint: Any) -> Iterator[Any]:
    """Yield the types of which a value may be."""
    if get_origin(hint) in (Union, UnionType):
        for each in get_args(hint):
            yield from _kinds(each)
    else:
        yield hint


# ---- the canonical form


def shown_record(record: Any, show: Callable[[str, Any], Any] | None = None) -> Json:
    """Return the fields of a record in the canonical form, after its type if it has one.

    Args:
        record: the record.
        show: returns the JSON of a value, given its attribute and itself; by default that of `shown`.
    """
    cls = type(record)
    result: Json = {"type": type_of(cls)} if _has_type(cls) else {}
    for field in fields_of(cls):
        value = getattr(record, field.attribute)
        if field.is_canonical and not (value is None and field.is_optional):
            within = result.setdefault(field.outer, {}) if field.outer else result
            if show is not None:
                within[field.name] = show(field.attribute, value)
            else:
                within[field.name] = value if field.is_identifier else shown(value)
    return result


def shown(value: Any) -> Any:
    """Return the canonical form of a value: a text, a number, bytes, a record, or several of them."""
    match value:
        case None | bool():
            return value
        case int():
            return str(value)
        case str():
            return shown_text(value)
        case float():
            return f"{_DOUBLE}{struct.pack('>d', value).hex()}"
        case bytes() | memoryview():
            return value.hex()
        case msgspec.Struct():
            return shown_record(value)
        case _:
            return [*map(shown, value)]


def shown_text(text: str) -> Json:
    """Return the canonical form of a text, whose bytes that are not UTF-8 are surrogate escapes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return {"hex": text.encode("utf-8", "surrogateescape").hex()}
    return {"text": text}


def parsed_record(
    cls: type[Any], source: Json, parse: Callable[[JsonField, Any], Any] | None = None, **values: Any
) -> Any:
    """Return the record of a class that has a canonical form.

    Args:
        cls: the class.
        source: the form; what it leaves out is None, or has its default.
        parse: returns a value, given its field and its form; by default that of `parsed`.
        values: attributes that the form does not have.

    Raises:
        KeyError: a field is missing.
        TypeError: the record lacks a value that the form cannot have, or a value is of a wrong type.
        ValueError: a value cannot be parsed.
    """
    for field in [each for each in fields_of(cls) if each.is_canonical]:
        within = source.get(field.outer, {}) if field.outer else source
        if field.name in within or not field.is_optional:
            form = within[field.name]
            if parse is not None:
                form = parse(field, form)
            elif not field.is_identifier:
                form = parsed(form, field.kinds)
            values[field.attribute] = form
        elif type(None) in field.kinds:
            values[field.attribute] = None
    return cls(**values)


def parsed(form: Any, kinds: tuple[Any, ...]) -> Any:
    """Return the value that has a canonical form, and one of several types."""
    match form:
        case None | bool():
            return form
        case {"text": _} | {"hex": _}:
            return parsed_text(form)
        case dict():
            return parsed_record(next(kind for kind in kinds if _is_record(kind)), form)
        case list():
            member = next(get_args(kind)[0] for kind in kinds if get_origin(kind) is tuple)
            return tuple([parsed(each, tuple(_kinds(member))) for each in form])
        case _ if bytes in kinds:
            return bytes.fromhex(form)
        case _ if form.startswith(_DOUBLE):
            return struct.unpack(">d", bytes.fromhex(form.removeprefix(_DOUBLE)))[0]
        case _:
            return int(form)


def parsed_text(form: Json) -> str:
    """Return the text that has a canonical form."""
    if "hex" in form:
        return bytes.fromhex(form["hex"]).decode("utf-8", "surrogateescape")
    text: str = form["text"]
    return text


def _is_record(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


# ---- the form for people


def described_entries(entries: Iterable[Any], *, more: Sequence[str] = ()) -> list[Json]:
    """Return the entries of a trace as JSON objects for people.

    Each has `offset`, `type` and `time` (nanoseconds or null), then the fields of the record.

    Args:
        entries: the entries, see `fxtio.formats.Entry`.
        more: further attributes of entries that come before the fields.
    """
    names, result, known = ("offset", "type", "time", *more), [], dict[Any, tuple[Any, Moved, str]]()
    get = attrgetter("offset", "time", *more)
    for entry in entries:
        record = entry.record
        cls: Any = type(record)
        if cls not in known:
            known[cls] = (*_shape(cls, *names), type_of(cls))
        make, moved, kind = known[cls]
        offset, time, *others = get(entry)
        head = {"offset": offset, "type": kind, "time": time}
        if others:
            head |= zip(more, others, strict=True)
        result.append(_placed(make(head, record), moved))
    return result


def described(record: Any, head: Json) -> Json:
    """Return the fields of a record after others, by their names: numbers and texts as they are, bytes in hexadecimal.

    Args:
        record: the record.
        head: what comes first.  A field whose name it has gets the name of the attribute, or is left out if it has
            that as well.
    """
    cls: Any = type(record)
    make, moved = _shape(cls, *head)
    return _placed(make(head, record), moved)


Moved = tuple[tuple[str, str, str], ...]
"""Names of fields that may be left out or are in an object: the object or an empty text, and their names there."""


def _placed(form: Json, moved: Moved) -> Json:
    """Return a record's form, changed such that those fields are where they belong."""
    for name, outer, inner in moved:
        value = form.pop(name)
        if value is not None:
            within = form.setdefault(outer, {}) if outer else form
            within[inner] = value
    return form


_BYTES = (bytes, bytearray, memoryview)
_AS_THEY_ARE = {int, str, bool, type(None)}


@cache
def _shape(cls: Any, *head: str) -> tuple[Callable[[Json, Any], Json], Moved]:
    """Return how the records of a class are described after some names.

    Returns:
        A generated function that returns the fields of a record after others, and those that `_placed` moves.
    """
    fields = [
        (field.attribute if field.name in head else field.name, field)
        for field in fields_of(cls)
        if not (field.name in head and field.attribute in head)
    ]
    values = []
    for name, field in fields:
        convert = "" if all(map(_is_plain, field.kinds)) else "plain"
        values.append(f"{name!r}: {convert}(record.{field.attribute})")
    source = f"lambda head, record: {{**head, {', '.join(values)}}}"
    moved = tuple(
        (name, field.outer, field.name if field.outer else name) for name, field in fields if field.is_optional
    )
    return eval(source, {"plain": plain}), moved  # of names that are declared


def _is_plain(kind: Any) -> bool:
    """Return whether the form of values of a type is what msgspec makes of them."""
    if not _is_record(kind):
        return kind in _AS_THEY_ARE
    fields = fields_of(kind)
    is_regular = all(field.name == field.attribute and not field.outer and not field.is_optional for field in fields)
    return is_regular and all(_is_plain(each) for field in fields for each in field.kinds) and not _has_type(kind)


class _Converters(dict[type[Any], Callable[[Any], Any]]):
    """Functions that return values of a type in the form for people; each is made when the first value comes."""

    def __missing__(self, cls: type[Any]) -> Callable[[Any], Any]:
        self[cls] = convert = self._made(cls)
        return convert

    def _made(self, cls: Any) -> Callable[[Any], Any]:
        if issubclass(cls, tuple):
            return lambda values: [self[type(each)](each) for each in values]
        if issubclass(cls, _BYTES):
            return lambda value: value.hex()
        if issubclass(cls, float):
            return _number
        if not issubclass(cls, msgspec.Struct):
            return lambda value: value
        head = {"type": type_of(cls)} if _has_type(cls) else {}
        make, moved = _shape(cls, *head)
        return partial(described, head=head) if moved else partial(make, head)


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else {"inf": "Infinity", "-inf": "-Infinity"}.get(str(value), "NaN")


_CONVERTERS = _Converters()


def plain(value: Any) -> Any:
    """Return a value in the form for people: a text, a number, bytes, a record, or several of them."""
    return _CONVERTERS[type(value)](value)
