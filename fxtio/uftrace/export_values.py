"""The arguments of a timeline's slices as the arguments and return values of calls.

uftrace specifies the values of a function once, by their places: the first call of a function that has arguments
decides what they are.  The values of calls that have others are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fxtio.errors import EncodeError
from fxtio.timeline.arguments import ArgumentRows
from fxtio.timeline.calls import ThreadCalls
from fxtio.timeline.parts import Registry
from fxtio.timeline.schema import ArgumentKind
from fxtio.uftrace import payloads
from fxtio.uftrace.argspec import MAX_PAYLOAD, ValueSpecs
from fxtio.uftrace.declarations import NewFunction
from fxtio.uftrace.writer import UftraceWriter

ARGUMENTS = "arguments"
"""The phrase for the arguments that are lost."""

_NAMES = "names of arguments, which are arg1, arg2 and so on now"
_TYPES = "types of arguments that are koids or booleans, which are numbers now"
_TEXTS = "texts of arguments that are too long, which are cut"
_SUFFIXES = {
    ArgumentKind.NULL: "/s",
    ArgumentKind.INTEGER: "/i64",
    ArgumentKind.UNSIGNED: "/u64",
    ArgumentKind.NUMBER: "/64",
    ArgumentKind.TEXT: "/s",
    ArgumentKind.POINTER: "/p",
    ArgumentKind.KOID: "/u64",
    ArgumentKind.BOOLEAN: "/u64",
}
_SLOT = 16  # the most bytes of a value, except the bytes of a text


class _Signature(NamedTuple):
    """The values of the calls or of the returns of a function.

    Attributes:
        names: their names in the timeline.
        order: the place of each among them, in the order of the specifications.
        specs: the specifications.
    """

    names: tuple[int, ...]
    order: tuple[int, ...]
    specs: ValueSpecs


class CallValues:
    """Makes payloads of the arguments of slices.

    Args:
        registry: has the names.
        losses: counts what the payloads do not have; those of `ARGUMENTS` become fewer by what they have.
    """

    def __init__(self, registry: Registry, losses: Counter[str]) -> None:
        self._registry = registry
        self._losses = losses
        self._signatures: dict[tuple[int, bool], _Signature | None] = {}

    def payloads(
        self, rows: ThreadCalls, args: ArgumentRows, writer: UftraceWriter, functions: dict[int, NewFunction]
    ) -> list[bytes | None] | None:
        """Return the payload of each row, None without any.

        Args:
            rows: calls.
            args: their arguments.
            writer: specifies the values of functions.
            functions: the functions by the codes of their names, which are replaced by those with specifications.
        """
        if not len(args):
            return None
        result: list[bytes | None] = [None] * len(rows.time)
        values, names, kinds = args.values(self._registry.names.values), args.name.tolist(), args.kind.tolist()
        bounds = [0, *(np.flatnonzero(np.diff(args.row)) + 1).tolist(), len(args)]
        for low, high, row in zip(bounds, bounds[1:], args.row[bounds[:-1]].tolist(), strict=False):
            key = int(rows.name[row]), bool(rows.is_exit[row])
            if key not in self._signatures:
                self._signatures[key] = self._specify(key, names[low:high], kinds[low:high], writer, functions)
            signature = self._signatures[key]
            if signature is not None and signature.names == tuple(names[low:high]):
                result[row] = self._encoded(signature, values[low:high], writer)
        return result if any(result) else None

    def _specify(
        self,
        key: tuple[int, bool],
        names: list[int],
        kinds: list[int],
        writer: UftraceWriter,
        functions: dict[int, NewFunction],
    ) -> _Signature | None:
        """Specify the values of a function by those of a call; return None if that is not possible."""
        code, is_exit = key
        order = sorted(range(len(names)), key=lambda place: kinds[place] == ArgumentKind.NUMBER)
        labels, count = [], Counter[str]()
        for place in order:
            kind = "fparg" if kinds[place] == ArgumentKind.NUMBER else "arg"
            count[kind] += 1
            labels.append("retval" if is_exit else f"{kind}{count[kind]}")
        suffixes = [_SUFFIXES[ArgumentKind(kinds[place])] for place in order]
        if is_exit:
            suffixes = [suffix if suffix != "/64" else "/f64" for suffix in suffixes]
        text = ",".join(label + suffix for label, suffix in zip(labels, suffixes, strict=True))
        try:
            function = writer.specify(functions[code], **{"returns" if is_exit else "arguments": text})
        except EncodeError:
            return None
        functions[code] = function
        texts = self._registry.names.values
        self._losses[_NAMES] += sum(texts[names[place]] != label for place, label in zip(order, labels, strict=True))
        self._losses[_TYPES] += sum(kind in (ArgumentKind.KOID, ArgumentKind.BOOLEAN) for kind in kinds)
        return _Signature(tuple(names), tuple(order), function.returns if is_exit else function.arguments)

    def _encoded(self, signature: _Signature, values: Sequence[Any], writer: UftraceWriter) -> bytes | None:
        """Return values as a payload, None if they do not fit."""
        ordered = [values[place] for place in signature.order]
        ordered = [int(value) if isinstance(value, bool) else value for value in ordered]
        texts = sum(spec.is_text for spec in signature.specs)
        if texts:
            limit = (MAX_PAYLOAD - _SLOT * len(ordered)) // texts
            ordered = [self._cut(value, limit) if isinstance(value, str) else value for value in ordered]
        try:
            payload = payloads.encode(signature.specs, ordered, writer.order)
        except EncodeError:
            return None
        self._losses[ARGUMENTS] -= len(ordered)
        return payload

    def _cut(self, text: str, limit: int) -> str:
        data = text.encode("utf-8", "surrogateescape")
        if len(data) <= limit:
            return text
        self._losses[_TEXTS] += 1
        return data[: max(limit, 0)].decode("utf-8", "ignore")
