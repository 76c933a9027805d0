"""What tells a recording: the marks that headers begin with.  It stands alone, since it is asked of every file."""

from __future__ import annotations

HEADER_ID = 0x4D505A01
BUFFER_ID = 0x4D504C01

ID_SIZE = 4
HEADER_MARK = HEADER_ID.to_bytes(ID_SIZE, "little")
BUFFER_MARK = BUFFER_ID.to_bytes(ID_SIZE, "little")
