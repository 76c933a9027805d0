"""The rooms of the commands under one name."""

from fxtio.coreprofiler.explain import explain, kinds_of
from fxtio.coreprofiler.report import info, json_objects, stats, text_lines
from fxtio.coreprofiler.synth import SHAPES, synth

__all__ = ["SHAPES", "explain", "info", "json_objects", "kinds_of", "stats", "synth", "text_lines"]
