"""Byte templates: records of one shape, all constants packed beforehand, the rest left to one `struct` call.

A shape is a list of words, each constant but for one field at most.  `Template` turns it into a `struct` format whose
operands are constant bytes and variables, by the declared bit ranges; a field can vary where it fills whole bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from fxtio.codec.word import Word
from fxtio.errors import LayoutError

_CODES = {8: "b", 16: "h", 32: "i", 64: "q"}


class Template:
    """A growing shape, little-endian.

    Attributes:
        operands: for every operand of the `struct` call, the name of a variable, or None for constant bytes.
    """

    def __init__(self) -> None:
        self.operands: list[str | None] = []
        self._format = "<"

    def constant(self, size: int) -> None:
        """Add `size` bytes that are the same in every record of a series, filled in when the series begins."""
        self._format += f"{size}s"
        self.operands.append(None)

    def variable(self, name: str, code: str) -> None:
        """Add a variable with its `struct` code."""
        self._format += code
        self.operands.append(name)

    def word(self, word: type[Word], varying: str, name: str) -> None:
        """Add a word in which only the field `varying` varies.

        Raises:
            LayoutError: the field does not fill whole bytes.
        """
        field = word.fields[varying]
        if field.width not in _CODES or field.lo % 8:
            raise LayoutError(f"{word.__name__}.{varying} does not fill whole bytes")
        self.constant(field.lo // 8)
        code = _CODES[field.width]
        self.variable(name, code if field.signed else code.upper())
        if field.hi + 1 < word.width:
            self._format += f"{(word.width - field.hi - 1) // 8}x"

    def pack(self) -> Callable[..., bytes]:
        """The `struct` call; it raises `struct.error` for a value that does not fit."""
        return struct.Struct(self._format).pack

    def size(self) -> int:
        """Size of a record in bytes."""
        return struct.calcsize(self._format)


def compiled(source: str, name: str, scope: dict[str, Any]) -> Any:
    """Run generated source and take `name` out of it."""
    exec(compile(source, f"<fxtio template {name}>", "exec"), scope)
    return scope[name]
