"""One timeline for all formats: processes, threads, slices, instants, counters, samples and more as tables.

`Timeline` makes the tables of a trace; `fxtio.open_timeline` opens one.  The room `timeline` of
each format maps its records to `parts`; `nesting` makes slices of them; `schema` declares the tables.
"""

from fxtio.timeline.timeline import Timeline

__all__ = ["Timeline"]
