"""Values that hardly any method, field or column of FXT takes: of wrong types, too large, not text, and the like."""

from __future__ import annotations

import io
import math
from typing import Any

import numpy as np

from fxtio.fxt import FxtWriter, Koid, Pointer
from fxtio.table import Categories, Optional

LONE = "\ud800"


class Strange:
    """An object of which nothing can be had."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    def __index__(self) -> int:
        raise TypeError("no index")


def absurd() -> dict[str, Any]:
    """Return values of which hardly any method takes more than a few."""
    return {**_plain(), **_columns()}


def _plain() -> dict[str, Any]:
    return {
        "none": None,
        "true": True,
        "minus one": -1,
        "2**63": 1 << 63,
        "2**64": 1 << 64,
        "huge": 10**5000,
        "float": 1.5,
        "nan": math.nan,
        "infinity": math.inf,
        "complex": 1j,
        "empty text": "",
        "text": "text",
        "nul": "\0",
        "long text": "x" * 32_001,
        "longest text": "ä" * 16_000,
        "lone surrogate": LONE,
        "escape": "\udcff",
        "bytes": b"bytes",
        "many bytes": bytes(40_000),
        "list": [],
        "list of numbers": [1, 2],
        "list of text": ["a", LONE],
        "tuple": (1,),
        "pair": ([1], [0]),
        "pair of texts": (["a"], [0]),
        "pair of nothing": (None, None),
        "mapping": {},
        "arguments": {"key": 5},
        "many arguments": {str(number): number for number in range(16)},
        "number as key": {5: 5},
        "lone surrogate as key": {LONE: 5},
        "value of no type": {"key": object()},
        "lone surrogate as value": {"key": LONE},
        "number over 64 bits": {"key": 10**5000},
        "nan as value": {"key": math.nan},
        "strange value": {"key": Strange()},
        "object": object(),
        "strange object": Strange(),
        "class": int,
        "function": absurd,
        "track": FxtWriter(io.BytesIO()).thread(1, 2),
        "memory": memoryview(b"12345678")[::2],
        "koid": Koid(5),
        "pointer": Pointer(-5),
    }


def _columns() -> dict[str, Any]:
    return {
        "numpy integer": np.int64(6),
        "numpy float": np.float64(1.5),
        "array": np.array([1, 2]),
        "array of text": np.array(["a", "b"]),
        "array of objects": np.array([None, []], object),
        "array without dimensions": np.array(1),
        "pair with an array without dimensions": (np.array(1), [0]),
        "matrix": np.zeros((2, 2)),
        "no rows": np.empty(0, np.int64),
        "dates": np.zeros(1, "M8[ns]"),
        "ragged": [[1], [1, 2]],
        "categories": Categories(np.array([0], np.int32), ["a"]),
        "null": Categories(np.array([-1], np.int32), ["a"]),
        "optional": Optional(np.array([1]), np.array([False])),
    }
