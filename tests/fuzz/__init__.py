"""Fuzz targets; see `fuzz.fxt`."""
