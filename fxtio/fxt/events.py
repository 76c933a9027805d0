"""Encode events that are given one by one as Python values.

`ProviderEncoder` holds the string and thread tables of a provider; its events refer to their slots.  An event is
encoded by its typed record.  The next event with the same type, thread, names and argument types is encoded by a
template: the bytes of the first one are divided into constants and variables, by the declarations; a generated function
checks the values and appends the event with a single `struct` call.  It refuses whatever is not of exactly its shape,
which is then encoded by its typed record.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from fxtio.codec.generate import Order, encode
from fxtio.codec.integers import text_bytes
from fxtio.codec.parts import Header, Many, Number
from fxtio.codec.record import layout_of
from fxtio.codec.word import Word
from fxtio.errors import EncodeError, LayoutError, shown
from fxtio.fxt import records as r
from fxtio.fxt.layout import MAX_ARGUMENTS, MAX_STRING_SLOT, MAX_THREAD_SLOT
from fxtio.fxt.records import EVENT_CLASSES, String, StringReference, Thread, ThreadRecord

Args = Mapping[str, Any] | None

MAX_TABLE_TEXT = 256
"""Argument text of at most this many bytes goes into the string table; longer text is written inline."""

BUFFER_BYTES = 1 << 16
"""A writer with more bytes than this in its buffer passes them on."""

ENDS_EARLY = "ends before it starts"
"""The message about an operation that a call refuses; recorded traces have such operations, and `put` writes them."""

MAX_TEMPLATES = 10_000
"""When a provider has this many templates, they are dropped and made again as needed."""

_STRINGS_PER_RECORD = 2 + 2 * MAX_ARGUMENTS
_WITH_END = {kind for kind, cls in EVENT_CLASSES.items() if "end" in cls.__struct_fields__}
_WITH_TAIL = _WITH_END | {kind for kind, cls in EVENT_CLASSES.items() if "id" in cls.__struct_fields__}

Append = Callable[..., bool]
"""`append(out, timestamp, tail, *values)` appends an event to `out`, or returns False if the values do not fit."""

_CODES = {1: "b", 2: "h", 4: "i", 8: "q"}
_NUMBER_CODES = {"u": "Q", "i": "q", "f": "d"}
_WORD_BYTES = 8

# ---- templates


class Template:
    """A sequence of constant bytes and variables.

    Args:
        order: the byte order.

    Attributes:
        operands: for every operand of the `struct` call, the source of a variable, or None for constant bytes.
        constants: the byte ranges of the constants in a record, as pairs of begin and end.
    """

    def __init__(self, order: Order) -> None:
        self.operands: list[str | None] = []
        self.constants: list[tuple[int, int]] = []
        self._is_big_endian = order == "big"
        self._format = ">" if self._is_big_endian else "<"

    def constant(self, size: int) -> None:
        """Append `size` bytes that are the same in all events of a template."""
        begin = struct.calcsize(self._format)
        self.constants.append((begin, begin + size))
        self._format += f"{size}s"
        self.operands.append(None)

    def variable(self, source: str, code: str) -> None:
        """Append a variable with its `struct` code."""
        self._format += code
        self.operands.append(source)

    def word(self, word: type[Word], name: str, source: str) -> None:
        """Append a word in which only the field `name` varies, and nothing but reserved bits follows it.

        A value that does not fit in the field must be refused by the caller where reserved bits follow.

        Raises:
            LayoutError: the field does not begin at a whole byte, or other bits follow it.
        """
        field = word.fields[name]
        size = (word.width - field.lo) // 8
        above = [other for other in word.fields.values() if other.lo > field.hi]
        if field.lo % 8 or size not in _CODES or any(other.role != "reserved" for other in above):
            raise LayoutError(f"{word.__name__}.{name} cannot vary in a template")
        code = _CODES[size] if field.signed else _CODES[size].upper()
        if self._is_big_endian:
            self.variable(source, code)
            self.constant(field.lo // 8)
        else:
            self.constant(field.lo // 8)
            self.variable(source, code)

    def pack(self) -> Callable[..., bytes]:
        """Return the `struct` function; it raises `struct.error` for a value that does not fit."""
        return struct.Struct(self._format).pack


def _integer_test(limits: list[tuple[int, int]]) -> str:
    """Return the source of the test for an integer class that comes after classes with these (overlapping) limits.

    The `struct` call refuses integers that are too large for their class.
    """
    if not limits:
        return "type({0}) is int"
    least, most = min(low for low, _ in limits), max(high for _, high in limits)
    return f"type({{0}}) is int and not {least} <= {{0}} <= {most}"


_TESTS: dict[Any, str] = {
    r.NullArgument: "{0} is None",
    r.DoubleArgument: "type({0}) is float",
    r.StringArgument: "type({0}) is str",
    r.PointerArgument: "type({0}) is Pointer",
    r.KoidArgument: "type({0}) is Koid",
    r.BoolArgument: "type({0}) is bool",
} | {cls: _integer_test(list(r.INTEGER_LIMITS.values())[:number]) for number, cls in enumerate(r.INTEGER_LIMITS)}
"""For every argument class the source of a test that a value is encoded with it."""


def has_template(argument: r.Argument) -> bool:
    """Return whether events with this argument have a template: not those with a blob, or with inline text."""
    return type(argument) in _TESTS and type(getattr(argument, "value", None)) is not str


@cache
def event_template(
    kind: str, classes: tuple[type[r.Argument], ...], order: Order
) -> tuple[Callable[..., Append], list[tuple[int, int]]]:
    """Generate the function that makes templates for events of a kind with arguments of these classes.

    Args:
        kind: the event type, a key of `EVENT_CLASSES`.
        classes: the classes of the arguments.
        order: the byte order.

    Returns:
        A function of the string table (slots by text) and the constants that returns an `Append`; and the byte ranges
        of the constants in a record.
    """
    template = Template(order)
    template.constant(_WORD_BYTES)
    values = [f"v{number}" for number in range(len(classes))]
    for name, part in layout_of(EVENT_CLASSES[kind]).parts:
        if isinstance(part, Number) and not part.optional:
            template.variable("timestamp" if name == "timestamp" else "tail", _NUMBER_CODES[part.kind])
        elif isinstance(part, Many):
            for value, cls in zip(values, classes, strict=True):
                _add_argument(template, cls, value)
    tests = [_TESTS[cls].format(value) for value, cls in zip(values, classes, strict=True)]
    in_order = "timestamp <= tail" if kind in _WITH_END else "True"  # both are integers where they could be packed
    constants = [f"c{number}" for number in range(len(template.constants))]
    names = iter(constants)
    operands = ", ".join(next(names) if operand is None else operand for operand in template.operands)
    source = f"""
def make(strings, {", ".join(constants)}):
    def append(out, {", ".join(["timestamp", "tail", *values])}):
        if {" and ".join(tests) or "True"}:
            data = pack({operands})
            if {in_order}:
                out += data
                return True
        return False
    return append
"""
    scope: dict[str, Any] = {"pack": template.pack(), "Koid": r.Koid, "Pointer": r.Pointer}
    exec(compile(source, f"<fxtio template of {kind}>", "exec"), scope)
    return scope["make"], template.constants


def _add_argument(template: Template, cls: type[r.Argument], value: str) -> None:
    """Append the words of an argument whose value is the variable `value`."""
    word, part = cls.words[0], dict(layout_of(cls).parts).get("value")
    if isinstance(part, Header):
        template.word(word, part.field.name, value)
    elif isinstance(part, StringReference):
        template.word(word, part.ref, f"strings[{value}]")
    else:
        template.constant(_WORD_BYTES)
        if isinstance(part, Number):
            template.variable(value, _NUMBER_CODES[part.kind])


# ---- the tables of a provider, and its events

Savepoint = tuple[int, dict[str, int], int, dict[Thread, int], int]
"""The length of the buffer; the tables of strings and of threads, each with its length."""


class ProviderEncoder:
    """The string and thread tables of one provider, and the events that refer to them.

    Args:
        out: the buffer that records are appended to.
        order: the byte order of the records.
        call: returns the context of a call of the writer, see `fxtio.fxt.writer.Call`: within it, `out` has room and
            its next record belongs to this provider; if the call is refused, nothing of it stays.

    Attributes:
        is_current: the next record in `out` belongs to this provider.
        order: the byte order of the records.
    """

    def __init__(self, out: bytearray, order: Order, call: Callable[[], AbstractContextManager[object]]) -> None:
        self.out = out
        self.is_current = False
        self.order: Order = order
        self._call = call
        self._strings: dict[str, int] = {"": 0}
        self._threads: dict[Thread, int] = {}
        self._numbers: dict[Thread, int] = {}
        self._by_number: list[Thread] = []
        self._templates: dict[tuple[Any, ...], Append] = {}

    def thread_number(self, thread: Thread) -> int:
        """Return the number of a thread: unlike the thread it is quick to hash and compare."""
        number = self._numbers.setdefault(thread, len(self._by_number))
        if number == len(self._by_number):
            self._by_number.append(thread)
        return number

    def clear(self) -> None:
        """Empty the tables."""
        self._strings = {"": 0}
        self._threads = {}
        self._templates = {}

    def savepoint(self) -> Savepoint:
        """Return what `restore` needs to remove the records and slots that come after this call."""
        threads = self._threads
        if len(threads) == MAX_THREAD_SLOT:  # the oldest may give way
            threads = dict(threads)
        return len(self.out), self._strings, len(self._strings), threads, len(threads)

    def restore(self, savepoint: Savepoint) -> None:
        """Remove the records and the slots of strings and threads that came after a savepoint."""
        end, strings, string_count, threads, thread_count = savepoint
        del self.out[end:]
        while len(strings) > string_count:
            strings.popitem()
        while len(threads) > thread_count:
            threads.popitem()
        if self._strings is not strings or self._threads is not threads:
            self._templates = {}
        self._strings, self._threads = strings, threads

    def reserve_strings(self, count: int = _STRINGS_PER_RECORD) -> None:
        """Empty the string table if `count` new strings might not fit.

        It may be called only between records, so that no slot that a record refers to is defined anew before the record
        is written.

        Raises:
            EncodeError: the strings do not fit in an empty table either.
        """
        if count > MAX_STRING_SLOT:
            raise EncodeError(f"{count:,} different strings at once; the limit is {MAX_STRING_SLOT:,}", "strings")
        if len(self._strings) + count > MAX_STRING_SLOT:
            self._strings = {"": 0}
            self._templates = {}

    def reserve_threads(self, threads: Sequence[Thread]) -> None:
        """Empty the thread table if these threads do not fit beside those that it has."""
        if len(self._threads.keys() | set(threads)) > MAX_THREAD_SLOT:
            self._threads = {}
            self._templates = {}

    def string_slot(self, text: str, where: str = "name") -> int:
        """Return the slot of a string, after defining it if it is new.

        Raises:
            EncodeError: it is not text, or it is longer than `layout.MAX_TEXT_BYTES`.
        """
        if not isinstance(text, str):
            raise EncodeError(f"{shown(text)} is not text", where)
        slot = self._strings.get(text)
        if slot is None:
            text = str.__str__(text)  # of a subclass, the text itself and not the result of its own __str__
            slot = len(self._strings)
            try:
                self.out += encode(String(slot, text), self.order)
            except EncodeError as error:
                raise EncodeError(str(error), where) from None
            self._strings[text] = slot
        return slot

    def thread_slot(self, thread: Thread) -> int:
        """Return the slot of a thread, after defining it if it is new; it may replace the oldest thread in the table.

        Raises:
            EncodeError: a koid does not fit in 64 bits.
        """
        slot = self._threads.get(thread)
        if slot is None:
            slot = len(self._threads) + 1
            if slot > MAX_THREAD_SLOT:
                slot = self._threads[next(iter(self._threads))]
            self.out += encode(ThreadRecord(slot, thread.process, thread.thread), self.order)  # type: ignore[arg-type]
            if len(self._threads) == MAX_THREAD_SLOT:
                del self._threads[next(iter(self._threads))]
                self._templates = {}
            self._threads[thread] = slot
        return slot

    def put_event(
        self, kind: str, thread: int, category: str, name: str, timestamp: int, args: Args, tail: int | None
    ) -> None:
        """Append an event.

        Args:
            kind: the event type, a key of `EVENT_CLASSES`.
            thread: the thread's number, see `thread_number`.
            category: the category.
            name: the name.
            timestamp: the time in ticks.
            args: the arguments.
            tail: the `end` or `id` of event types that have one.

        Raises:
            EncodeError: the format cannot represent something; no part of the event is written.
        """
        out = self.out
        if not self.is_current or len(out) > BUFFER_BYTES:
            with self._call():
                self.put_event(kind, thread, category, name, timestamp, args, tail)
            return
        try:
            if args is None or (type(args) is dict and not args):
                if self._templates[kind, thread, category, name](out, timestamp, tail):
                    return
            elif self._templates[kind, thread, category, name, *args](out, timestamp, tail, *args.values()):
                return
        except (KeyError, TypeError, ValueError, AttributeError, struct.error):
            pass  # no template yet, a new text, a value of another size, or one that is refused below with a message
        with self._call():
            self.put_event_record(kind, thread, category, name, timestamp, args, tail)

    def put_event_record(
        self, kind: str, thread: int, category: str, name: str, timestamp: int, args: Args, tail: int | None
    ) -> None:
        """Append an event by its typed record, and keep a template of it; the arguments are those of `put_event`."""
        arguments = self.arguments(args)
        slot = self.thread_slot(self._by_number[thread])
        references = slot, self.string_slot(category, "category"), self.string_slot(name)
        tails = (tail,) if kind in _WITH_TAIL else ()
        data = encode(EVENT_CLASSES[kind](timestamp, *references, arguments, *tails), self.order)
        if kind in _WITH_END and tail < timestamp:  # type: ignore[operator]  # both were encoded, so they are integers
            raise EncodeError(ENDS_EARLY, "end")
        self.out += data
        if all(map(has_template, arguments)):
            if len(self._templates) >= MAX_TEMPLATES:
                self._templates = {}
            make, constants = event_template(kind, tuple(map(type, arguments)), self.order)
            template = make(self._strings, *(data[begin:end] for begin, end in constants))
            self._templates[kind, thread, category, name, *(args or ())] = template

    def arguments(self, args: Args) -> tuple[r.Argument, ...]:
        """Return Python values as typed arguments.

        Raises:
            EncodeError: there are too many, or no argument type holds a value.
        """
        if args is None:
            return ()
        if not isinstance(args, Mapping):
            raise EncodeError(f"a {type(args).__name__} is not a mapping from names to values", "args")
        check_count(args)
        return tuple([self._argument(key, value) for key, value in args.items()])

    def _argument(self, key: str, value: Any) -> r.Argument:
        name = self.string_slot(key, "args")
        where = f"args[{key!r}]"
        if hasattr(value, "dtype"):  # numpy: a scalar is accepted, an array is not
            if getattr(value, "ndim", 1):
                raise EncodeError(f"no argument type holds a {type(value).__name__}", where)
            value = value.item()
        if value is None:
            return r.NullArgument(name)
        if isinstance(value, bool):
            return r.BoolArgument(name, value)
        if isinstance(value, r.Pointer):
            return r.PointerArgument(name, int(value))
        if isinstance(value, r.Koid):
            return r.KoidArgument(name, int(value))
        if isinstance(value, str):
            if len(text_bytes(value, where)) > MAX_TABLE_TEXT:
                return r.StringArgument(name, str.__str__(value))
            return r.StringArgument(name, self.string_slot(value, where))
        if isinstance(value, bytes | bytearray | memoryview):
            return r.BlobArgument(name, bytes(value))
        try:
            number = operator.index(value)
        except TypeError:
            return _double(name, value, where)
        cls: Any = r.integer_class(number, number)
        if cls is None:
            raise EncodeError(f"{shown(number)} does not fit in 64 bits", where)
        argument: r.Argument = cls(name, number)
        return argument


def _double(name: int, value: Any, where: str) -> r.DoubleArgument:
    try:
        return r.DoubleArgument(name, float(value))
    except (TypeError, ValueError, OverflowError):
        raise EncodeError(f"no argument type holds a {type(value).__name__}", where) from None


def check_count(args: Mapping[str, Any]) -> None:
    """Check the number of arguments.

    Raises:
        EncodeError: there are too many.
    """
    if len(args) > MAX_ARGUMENTS:
        raise EncodeError(f"{len(args)} arguments; the limit is {MAX_ARGUMENTS}", "args")
