"""What sources recorded, out of a trace."""

from __future__ import annotations

import sys
from typing import Any

from support.tracer_check import Seen

RAISED = sys.version_info >= (3, 12)
"""Whether raised exceptions are recorded, and not only those that nobody handles."""


def instants(seen: Seen, category: str) -> list[tuple[str, dict[str, Any]]]:
    """Names and arguments of a category's instants, by track and time."""
    found = []
    for row in seen.rows(category=category).tolist():
        assert seen.kinds[row] in ("instant", "async_instant")
        found.append((seen.names[row], seen.args(row)))
    return found


def logs(seen: Seen) -> list[str]:
    """The log records of a trace."""
    return [str(message) for message in seen.tables["logs"]["message"].to_list()]


def told(seen: Seen, how: str) -> list[tuple[str, str]]:
    """Types and messages of exceptions that became known so."""
    return [(name, args["message"]) for name, args in instants(seen, "exceptions") if args["how"] == how]
