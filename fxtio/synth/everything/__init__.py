"""The shape `everything`: each record, argument and option of a format, derived from its declarations.

For each class of records that a format declares, its module gives the values that each field can have by its declared
part: all members of an enumeration, a value and none, a list with and without items, a reference of each form.
`variants` combines them, so that a new declaration is in the trace without a change here.  What no declaration says is
said by the module: the order of definitions and uses, and values that other records know, such as slots and addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

Values = Mapping[str, Sequence[Any]]
"""The values that each field can have; those that can be called are made anew for each record."""


def variants(fields: Values) -> Iterator[dict[str, Any]]:
    """Yield fields with values, as often as needed for each value of each field to occur; at least once."""
    for number in range(max([len(values) for values in fields.values()], default=1)):
        chosen = {name: values[number % len(values)] for name, values in fields.items()}
        yield {name: value() if callable(value) else value for name, value in chosen.items()}


Below = Callable[[int], int]
"""Returns a random number from 0 to a limit - 1."""
