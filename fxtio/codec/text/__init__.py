"""The engine for records of text, a line each: items, codec of one line, columns of many.

A record is declared once: its annotations carry the items of its line (`items`, `declare`).  From the declaration
follow the codec of one line (`codec`), and columns of all lines of a class (`lines`, `columns`, `digits`).  The engine
knows no record of CoreProfiler.
"""
