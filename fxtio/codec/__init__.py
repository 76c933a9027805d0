"""The codec that formats share: records, each declared once, of words with bit fields, or (`stream`) of single bytes.

`word`, `parts` and `record` are for declarations.  Everything else is derived from these: `generate` makes scalar
functions, `columns` and `encode_columns` work on numpy columns, `describe` makes texts for people, `canonical` JSON.
"""
