"""The codec that formats share: words of bit fields and records, each declared once.

`word`, `parts` and `record` are for declarations.  Everything else is derived from these: `generate` makes scalar
functions, `columns` and `encode_columns` work on numpy columns, `describe` makes texts for people.
"""
