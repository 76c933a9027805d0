"""Python values to events with table references: the inside of the friendly writer.

There is one way that can do everything: typed arguments, a typed record, its codec.  Events of the same name, thread
and arguments come again and again, though; for those a closure over packed constants (`fxtio.codec.template`) appends
the bytes with one `struct` call.  It refuses whatever is not of exactly its shape, and a property test holds the two
ways together.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from fxtio.codec.generate import encode
from fxtio.codec.parts import Thread
from fxtio.codec.template import Template, compiled
from fxtio.errors import EncodeError
from fxtio.fxt import arguments as a
from fxtio.fxt import records as r
from fxtio.fxt.enums import EventType
from fxtio.fxt.layout import (
    EventWord,
    Int32ArgumentWord,
    StringArgumentWord,
    StringWord,
    ThreadWord,
    Uint32ArgumentWord,
)

Args = Mapping[str, Any] | None
Emit = Callable[..., bool]

STRING_SLOTS = StringWord.fields["index"].mask
THREAD_SLOTS = ThreadWord.fields["index"].mask
MAX_ARGS = EventWord.fields["arg_count"].mask
SHORT_TEXT = 256
"""Argument text of at most so many bytes goes into the string table; longer text is written inline."""

BUFFER = 1 << 16
"""When so many bytes wait, they are handed on."""

MAX_SHAPES = 10_000
"""So many closures are kept; then they are made again as needed."""

_PER_RECORD = 2 + 2 * MAX_ARGS
"""The most strings that one record can refer to; so many slots are free when a record begins."""

_MIN32, _MAX32 = Int32ArgumentWord.fields["value"].limits
_MAX_UNSIGNED32 = Uint32ArgumentWord.fields["value"].limits[1]
_MAX64, _MAX_UNSIGNED64 = (1 << 63) - 1, (1 << 64) - 1

EVENT_CLASS = {
    EventType(cls.words[0].fields["event_type"].value).name.lower(): cls
    for cls in r.RECORDS.classes
    if issubclass(cls, r.Event)
}
_WITH_TAIL = {kind for kind, cls in EVENT_CLASS.items() if {"end", "id"} & set(cls.__struct_fields__)}


class Koid(int):
    """A kernel object id, as an argument's value."""

    __slots__ = ()


class Pointer(int):
    """A pointer, as an argument's value."""

    __slots__ = ()


class Packer:
    """The tables of one provider, and the events that go through them.

    Args:
        out: where records are appended.
        enter: called to make this provider the one that the next record belongs to, and to hand on a full buffer.

    Attributes:
        current: whether the next record in `out` will belong to this provider.
    """

    def __init__(self, out: bytearray, enter: Callable[[], object]) -> None:
        self.out = out
        self.current = False
        self._enter = enter
        self._strings: dict[str, int] = {"": 0}
        self._threads: dict[Thread, int] = {}
        self._numbers: dict[Thread, int] = {}
        self._by_number: list[Thread] = []
        self._shapes: dict[tuple[Any, ...], Emit] = {}

    def number_of(self, thread: Thread) -> int:
        """A number that stands for a thread and is quick to compare."""
        number = self._numbers.setdefault(thread, len(self._by_number))
        if number == len(self._by_number):
            self._by_number.append(thread)
        return number

    def clear(self) -> None:
        """Forget the tables."""
        self._strings = {"": 0}
        self._threads = {}
        self._shapes = {}

    def make_room(self, strings: int = _PER_RECORD) -> None:
        """Start the string table again if so many new strings might not find room.

        Only between records, so that no slot that a record refers to is used again before the record is there.

        Raises:
            EncodeError: the table is too small for them in any case.
        """
        if strings > STRING_SLOTS:
            raise EncodeError(f"{strings:,} different strings at once, {STRING_SLOTS:,} are the most", "strings")
        if len(self._strings) + strings > STRING_SLOTS:
            self._strings = {"": 0}
            self._shapes = {}

    def make_thread_room(self, threads: Sequence[Thread]) -> None:
        """Start the thread table again if these threads do not all find room beside those that are there."""
        if len(self._threads.keys() | set(threads)) > THREAD_SLOTS:
            self._threads = {}
            self._shapes = {}

    def reference(self, text: str, field: str = "name") -> int:
        """The slot of a string, defining it when it is new.

        Raises:
            EncodeError: it is no text, or over 32,000 bytes.
        """
        if not isinstance(text, str):
            raise EncodeError(f"{text!r} is no text", field)
        slot = self._strings.get(text)
        if slot is None:
            text = str.__str__(text)  # of a subclass, the text itself and not what it shows
            slot = len(self._strings)
            try:
                self.out += encode(r.String(slot, text))
            except EncodeError as error:
                raise EncodeError(str(error), field) from None
            self._strings[text] = slot
        return slot

    def thread_reference(self, thread: Thread) -> int:
        """The slot of a thread, defining it when it is new."""
        slot = self._threads.get(thread)
        if slot is None:
            slot = len(self._threads) + 1
            if slot > THREAD_SLOTS:  # the one that has been there longest gives way
                slot = self._threads[next(iter(self._threads))]
            self.out += encode(r.ThreadRecord(slot, thread.process, thread.thread))  # type: ignore[arg-type]
            if len(self._threads) == THREAD_SLOTS:
                del self._threads[next(iter(self._threads))]
                self._shapes = {}
            self._threads[thread] = slot
        return slot

    def event(
        self, kind: str, thread: int, category: str, name: str, timestamp: int, args: Args, tail: int | None
    ) -> None:
        """Append an event.

        Args:
            kind: the event type's name.
            thread: the thread's number, see `number_of`.
            category: the category.
            name: the name.
            timestamp: the moment in ticks.
            args: the arguments.
            tail: the word behind the arguments, for event types that have one.

        Raises:
            EncodeError: something cannot be said; no part of the event is written.
        """
        out = self.out
        if not self.current or len(out) > BUFFER:
            self._enter()
        try:
            if args:
                if self._shapes[kind, thread, category, name, *args](out, timestamp, tail, *args.values()):
                    return
            elif self._shapes[kind, thread, category, name](out, timestamp, tail):
                return
        except (KeyError, TypeError, AttributeError, struct.error):
            pass  # a new name, a new text, a value of another size, or something that the long way refuses in words
        self._long_way(kind, thread, category, name, timestamp, args, tail)

    def _long_way(
        self, kind: str, thread: int, category: str, name: str, timestamp: int, args: Args, tail: int | None
    ) -> None:
        """Append an event by its typed record, and keep its shape for the next one."""
        self.make_room()
        made = self.arguments(args)
        slot = self.thread_reference(self._by_number[thread])
        references = slot, self.reference(category, "category"), self.reference(name)
        data = encode(EVENT_CLASS[kind](timestamp, *references, made, *((tail,) if kind in _WITH_TAIL else ())))
        self.out += data
        classes = tuple(map(type, made))
        if _UNSHAPED.isdisjoint(classes) and not any(type(one.value) is str for one in made if hasattr(one, "value")):
            if len(self._shapes) >= MAX_SHAPES:
                self._shapes = {}
            make, cuts = _shape(kind, classes)
            constants = (data[begin:end] for begin, end in cuts)
            self._shapes[kind, thread, category, name, *(args or ())] = make(self._strings, *constants)

    def arguments(self, args: Args) -> tuple[a.Argument, ...]:
        """Python values as typed arguments: the smallest integer type that fits, the type of the wrapper, ...

        Raises:
            EncodeError: too many, or a value that no type holds.
        """
        if args is None:
            return ()
        if not isinstance(args, Mapping):
            raise EncodeError(f"a {type(args).__name__} is no mapping from names to values", "args")
        if len(args) > MAX_ARGS:
            raise EncodeError(f"{len(args)} arguments, {MAX_ARGS} are the most", "args")
        return tuple([self._argument(key, value) for key, value in args.items()])

    def _argument(self, key: str, value: Any) -> a.Argument:
        name = self.reference(key, "args")
        where = f"args[{key!r}]"
        if hasattr(value, "dtype"):  # of numpy: one number goes, an array does not
            if getattr(value, "ndim", 1):
                raise EncodeError(f"no argument type holds a {type(value).__name__}", where)
            value = value.item()
        if value is None:
            return a.NullArgument(name)
        if isinstance(value, bool):
            return a.BoolArgument(name, value)
        if isinstance(value, Pointer):
            return a.PointerArgument(name, int(value))
        if isinstance(value, Koid):
            return a.KoidArgument(name, int(value))
        if isinstance(value, str):
            if len(text_bytes(value, where)) > SHORT_TEXT:
                return a.StringArgument(name, str.__str__(value))
            return a.StringArgument(name, self.reference(value, where))
        if isinstance(value, bytes | bytearray | memoryview):
            return a.BlobArgument(name, bytes(value))
        try:
            return _integer(name, operator.index(value), where)
        except TypeError:
            pass
        try:
            return a.DoubleArgument(name, float(value))
        except (TypeError, ValueError, OverflowError):
            raise EncodeError(f"no argument type holds a {type(value).__name__}", where) from None


def text_bytes(text: str, where: str) -> bytes:
    """Text as the bytes that go into a trace.

    Raises:
        EncodeError: it is no text, or no text has such a character.
    """
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise EncodeError("holds a lone surrogate, which no text has", where) from None
    except AttributeError:
        raise EncodeError(f"{text!r} is no text", where) from None


def _integer(name: int, value: int, where: str) -> a.Argument:
    if _MIN32 <= value <= _MAX32:
        return a.Int32Argument(name, value)
    if 0 <= value <= _MAX_UNSIGNED32:
        return a.Uint32Argument(name, value)
    if -_MAX64 - 1 <= value <= _MAX64:
        return a.Int64Argument(name, value)
    if not 0 <= value <= _MAX_UNSIGNED64:
        raise EncodeError(f"{value} does not fit in 64 bits", where)
    return a.Uint64Argument(name, value)


# Shapes.  An argument's class tells its words; the test before the struct call lets pass just the values that
# `_argument` would give that class (the struct call itself refuses integers that are too large).

_UNSHAPED = {a.BlobArgument}
_TEST = {
    a.NullArgument: "{0} is None",
    a.Int32Argument: "type({0}) is int",
    a.Uint32Argument: f"type({{0}}) is int and {{0}} > {_MAX32}",
    a.Int64Argument: f"type({{0}}) is int and not {_MIN32} <= {{0}} <= {_MAX_UNSIGNED32}",
    a.Uint64Argument: f"type({{0}}) is int and {{0}} > {_MAX64}",
    a.DoubleArgument: "type({0}) is float",
    a.StringArgument: "type({0}) is str",
    a.PointerArgument: "type({0}) is Pointer",
    a.KoidArgument: "type({0}) is Koid",
    a.BoolArgument: "type({0}) is bool",
}
_CODE = {
    a.Int64Argument: "q", a.Uint64Argument: "Q", a.DoubleArgument: "d", a.PointerArgument: "Q", a.KoidArgument: "Q",
}  # fmt: skip
_TRUE = int(a.BoolArgument.words[0](size=1, name=0, value=1)).to_bytes(8, "little")[4:]


@cache
def _shape(kind: str, classes: tuple[type[a.Argument], ...]) -> tuple[Callable[..., Emit], list[tuple[int, int]]]:
    """What makes the closures for events of this type with arguments of these classes.

    Returns:
        A function that takes the string table and the constants, and where the constants lie in a record (byte ranges).
    """
    template = Template()
    cuts = []
    tests = []

    def constant(size: int) -> None:
        cuts.append((template.size(), template.size() + size))
        template.constant(size)

    constant(8)
    template.variable("timestamp", "Q")
    for number, cls in enumerate(classes):
        value = f"v{number}"
        tests.append(_TEST[cls].format(value))
        if cls is a.BoolArgument:
            constant(4)
            template.variable(f"TRUE if {value} else FALSE", "4s")
        elif cls in _CODE:
            constant(8)
            template.variable(value, _CODE[cls])
        elif cls is a.NullArgument:
            constant(8)
        else:
            word = StringArgumentWord if cls is a.StringArgument else cls.words[0]
            cuts.append((template.size(), template.size() + word.fields["value"].lo // 8))
            template.word(word, "value", f"strings[{value}]" if cls is a.StringArgument else value)
    if kind in _WITH_TAIL:
        template.variable("tail", "Q")
    constants = [f"c{number}" for number in range(len(cuts))]
    names = iter(constants)
    operands = ", ".join(next(names) if operand is None else operand for operand in template.operands)
    values = "".join(f", v{number}" for number in range(len(classes)))
    source = f"""
def make(strings, {", ".join(constants)}):
    def emit(out, timestamp, tail{values}):
        if {" and ".join(tests) or "True"}:
            out += pack({operands})
            return True
        return False
    return emit
"""
    scope = {"pack": template.pack(), "Koid": Koid, "Pointer": Pointer, "TRUE": _TRUE, "FALSE": bytes(4)}
    return compiled(source, "make", scope), cuts
