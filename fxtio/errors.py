"""The exceptions of fxtio; every error that fxtio raises on purpose is a `FxtioError`.

The class tells the cause: `DecodeError` means invalid bytes in a trace, `EncodeError` a value that a format cannot
express, `FormatError` a file that is not a trace.  A fault after which reading can go on is reported as a finding (see
`fxtio.finding`), not raised.
"""

from __future__ import annotations

_MAX_SHOWN = 100
"""The most characters of a value in an error message."""


class FxtioError(Exception):
    """The base class of all errors of this package."""


class LayoutError(FxtioError):
    """A declaration of a word or a record is wrong: fields overlap, bits are undeclared, or a name is unknown."""


class EncodeError(FxtioError, ValueError):
    """The format cannot express a value.  Raised before any byte is written.

    Attributes:
        field: the field or part that the value is for, as `Record.field`, or empty.
    """

    def __init__(self, message: str, field: str = "") -> None:
        super().__init__(f"{field}: {message}" if field else message)
        self.field = field


class DecodeError(FxtioError, ValueError):
    """The bytes of a trace break a rule of the format.

    Attributes:
        rule: the id of the rule that was broken, for example `record-short`.
        offset: the byte offset in the (decompressed) trace, or -1 where it is not known.
    """

    def __init__(self, rule: str, message: str, offset: int = -1) -> None:
        where = f" (at byte {offset:,})" if offset >= 0 else ""
        super().__init__(f"{message} [{rule}]{where}")
        self.rule = rule
        self.message = message
        self.offset = offset


class FormatError(FxtioError):
    """The input is not a trace of a known format, or the format of the output is not known."""


def require_type(value: object, types: tuple[type, ...], sentence: str) -> None:
    """Check that a value is of one of some types.

    Args:
        value: the value.
        types: the types.
        sentence: the start of a sentence that says what is accepted, such as `a query is a string`.

    Raises:
        TypeError: it is of another type.
    """
    if not isinstance(value, types):
        raise TypeError(f"{sentence}, not {type(value).__name__}")


def shown(value: object) -> str:
    """Return a value as an error message has it: short, and never an error of its own."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001  # such as that of an integer of thousands of digits; the message comes first
        return f"a value of the type {type(value).__name__}"
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."


def add_file_name(error: OSError, name: str | None) -> None:
    """Let an error of the system say which file it is about, unless it does; None is a file without a name."""
    if error.filename is None and name is not None:
        error.filename = name


def described(error: BaseException) -> str:
    """Convert an error to text; one of the system to the name of its file and what is wrong, without its number."""
    if not isinstance(error, OSError) or not error.strerror:
        return str(error) or type(error).__name__
    return error.strerror if error.filename is None else f"{error.filename or repr('')}: {error.strerror}"
