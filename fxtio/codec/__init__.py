"""The shared codec: words of bit fields and records, declared once; everything else is derived.

`word` and `parts` hold what declarations are made of, `record` reads them, `generate` makes scalar functions of them,
`columns` and `scatter` numpy ones, `describe` words for people.
"""
