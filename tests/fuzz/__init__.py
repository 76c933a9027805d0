"""Fuzz targets, a module for each format, and what runs them; see `fuzz.engine`."""
