"""The codec that formats share: records, each declared once, in three families.

| Family | Records consist of | Declared with | One record | Many records |
|---|---|---|---|---|
| this package | words of bit fields | `word`, `parts`, `record` | `generate` | `columns`, `encode_columns` |
| `stream` | single bytes and LEB128 numbers | `declare` | `codec`, `values` | `steps`, `kernels` |
| `text` | items of a line | `items`, `declare` | `codec` | `lines`, `columns`, `digits` |

In each, `layout_of` returns what the declaration of a class says.  For all of them, `canonical` makes JSON, and
`describe` and `annotation` texts for people.
"""
