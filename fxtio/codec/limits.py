"""The limits of integers of the usual widths."""

from __future__ import annotations

MAX_INT32 = (1 << 31) - 1
MAX_INT64 = (1 << 63) - 1
MIN_INT64 = -1 << 63
MAX_UINT32 = (1 << 32) - 1
MAX_UINT64 = (1 << 64) - 1
