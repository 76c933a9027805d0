"""One timeline for all formats: processes, threads, slices, instants, counters, samples and more as tables.

`Timeline` makes the tables of a trace.  The room `timeline` of each format maps its records to `parts`; `nesting` makes
slices of them; `schema` declares the tables.
"""

from fxtio.timeline.timeline import Timeline, open_timeline

__all__ = ["Timeline", "open_timeline"]
