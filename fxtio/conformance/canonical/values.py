"""Canonical values that all formats have."""

from __future__ import annotations

import struct
from typing import Any


def shown_text(text: str) -> dict[str, Any]:
    """Return the canonical form of a text, whose bytes that are not UTF-8 are surrogate escapes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return {"hex": text.encode("utf-8", "surrogateescape").hex()}
    return {"text": text}


def parsed_text(value: dict[str, Any]) -> str:
    """Return the text of a canonical form."""
    if "hex" in value:
        return bytes.fromhex(value["hex"]).decode("utf-8", "surrogateescape")
    text: str = value["text"]
    return text


def shown_double(value: float) -> str:
    """Return the canonical form of a double."""
    return f"f64:{struct.pack('>d', value).hex()}"


def parsed_double(value: str) -> float:
    """Return the double of a canonical form."""
    number: float = struct.unpack(">d", bytes.fromhex(value.removeprefix("f64:")))[0]
    return number
