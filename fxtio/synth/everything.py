"""The shape `everything`: each record, argument and option of a format, derived from its declarations.

For each class of records that a format declares, its module gives the values that each field can have by its declared
part: all members of an enumeration, a value and none, a list with and without items, a reference of each form.
`Maker` combines them, so that a new declaration is in the trace without a change here.  What no declaration says is
said by the module: the order of definitions and uses, and values that other records know, such as slots and addresses.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from fxtio.synth.columns import Amount, Draw

Known = dict[tuple[type[Any] | None, str], list[Any]]
"""The values of the fields of a class (None for any class) that other records know, or that mean more than their
declaration says; those that can be called are made anew for each record."""


def variants(fields: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    """Yield fields with values, as often as needed for each value of each field to occur; at least once."""
    for number in range(max(map(len, fields.values()), default=1)):
        chosen = {name: values[number % len(values)] for name, values in fields.items()}
        yield {name: value() if callable(value) else value for name, value in chosen.items()}


class Maker(ABC):
    """Makes records that have each value of each of their fields.

    Attributes:
        now: the time of the last record.
        known: the values that no declaration tells.
    """

    STEPS: range
    """The times that may be between two records."""

    def __init__(self, now: int, draw: Draw) -> None:
        self.now = now
        self.draw = draw
        self.known: Known = {}

    def below(self, limit: int) -> int:
        """Return a random number from 0 to `limit` - 1."""
        return int(self.draw.below(limit, 1)[0])

    def tick(self) -> int:
        """Return the time of another record."""
        self.now += self.STEPS[self.below(len(self.STEPS))]
        return self.now

    @abstractmethod
    def declared(self, cls: type[Any]) -> Iterable[tuple[str, Any]]:
        """Yield the fields of a class with their declarations."""

    @abstractmethod
    def values(self, cls: type[Any], name: str, declared: Any) -> Sequence[Any]:
        """Return the values that a field can have by its declaration."""

    def make(self, cls: type[Any], values: dict[str, Any]) -> Any:
        """Return a record with these values."""
        return cls(**values)

    def records_of(self, cls: type[Any], given: Mapping[str, Sequence[Any]] | None = None) -> Iterator[Any]:
        """Yield records of a class, or items of their lists, with each value of each field.

        Args:
            cls: the class.
            given: values of fields in place of others.
        """
        given, known = given or {}, self.known
        fields = {
            name: given.get(name) or known.get((cls, name)) or known.get((None, name)) or self.values(cls, name, each)
            for name, each in self.declared(cls)
        }
        for values in variants(fields):
            yield self.make(cls, values)


def put_rounds(writer: Any, amount: Amount, rounds: Iterator[Iterable[Any]]) -> int:
    """Write the records of whole rounds until there is enough, and return how many records these are."""
    written = 0
    for records in rounds:
        for record in records:
            writer.put(record)
            written += 1
        if amount.left(written, writer.position) <= 0:
            break
    return written
