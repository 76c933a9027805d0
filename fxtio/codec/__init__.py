"""The codec that formats share: records, each declared once, in three families.

- Words of bit fields, in this package: `word`, `parts` and `record` declare them; `generate` makes the code for one
  record, `columns` and `encode_columns` are for many.
- Single bytes and LEB128 numbers, in `stream`: `declare`; `codec` and `values` for one record, `steps` and `kernels`
  for many.
- The items of a line, in `text`: `items` and `declare`; `codec` for one record, `lines`, `columns` and `digits` for
  many.

In each, `layout_of` returns what the declaration of a class says.  For all of them, `canonical` makes JSON, `show`
lines of text, and `describe`, `annotation` and `explain` texts about bytes.
"""
