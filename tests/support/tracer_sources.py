"""The events of sources in a trace."""

from __future__ import annotations

import sys
from typing import Any

from support.tracer_check import Seen

RAISED = sys.version_info >= (3, 12)
"""Whether raised exceptions are recorded, and not only those that nobody handles."""


def instants(seen: Seen, category: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the names and arguments of the instants of a category, by track and time."""
    result = []
    for row in seen.rows(category=category).tolist():
        assert seen.kinds[row] in ("instant", "async_instant")
        result.append((seen.names[row], seen.args(row)))
    return result


def logs(seen: Seen) -> list[str]:
    """Return the messages of the log records."""
    return [str(message) for message in seen.tables["logs"]["message"].tolist()]


def exceptions(seen: Seen, how: str) -> list[tuple[str, str]]:
    """Return the types and messages of exceptions with this argument `how`."""
    return [(name, args["message"]) for name, args in instants(seen, "exceptions") if args["how"] == how]
