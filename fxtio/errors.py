"""One tree of errors; every error that fxtio raises on purpose is a `FxtioError`.

Errors say whose fault it is: `DecodeError` blames the bytes, `EncodeError` blames the values, `FormatError` the choice
of file.  Faults that reading survives are not errors but findings (see `fxtio.finding`).
"""

from __future__ import annotations


class FxtioError(Exception):
    """Base of all errors of this package."""


class LayoutError(FxtioError):
    """A declaration of a word or a record contradicts itself: bits that overlap, a gap, a name that nobody declares."""


class EncodeError(FxtioError, ValueError):
    """A value cannot be said in the format.  Raised before the first byte is written.

    Attributes:
        field: the field or part that refused, as `Record.field`, or empty.
    """

    def __init__(self, message: str, field: str = "") -> None:
        super().__init__(f"{field}: {message}" if field else message)
        self.field = field


class DecodeError(FxtioError, ValueError):
    """Bytes that are not what the format says.

    Attributes:
        rule: the id of the rule that was broken, for example `record-short`.
        offset: the byte offset in the trace, or -1 where the caller knows it and the raiser does not.
    """

    def __init__(self, rule: str, message: str, offset: int = -1) -> None:
        where = f" (at byte {offset:,})" if offset >= 0 else ""
        super().__init__(f"{message} [{rule}]{where}")
        self.rule = rule
        self.message = message
        self.offset = offset


class FormatError(FxtioError):
    """The input is not a trace of a known format, or the output's format is not known."""
