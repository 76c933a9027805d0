"""Write a DCPI profile from columns, read it back, and copy it with one more line in its header.

usage: python write_a_dcpi_profile.py [PROFILE]
"""

from __future__ import annotations

import sys

import numpy as np

from fxtio.dcpi import DcpiTrace, DcpiWriter
from fxtio.dcpi.records import Line

HEADER: dict[str, str | int] = {
    "image": "19970601120000a1b2c3",
    "epoch": "9706011230",
    "platform": "synthetic.example",
    "event": "cycles",
    "period": 62000,
    "tstart": 0x120000000,
    "tsize": 65536,
    "cpuspeed": 333,
    "label": "synthetic, never measured",
}


def main(path: str) -> None:
    """Write, read and copy a profile."""
    offset = np.arange(0, 65536, 4)
    with DcpiWriter(path, header=HEADER) as profile:
        profile.write_table("samples", {"text_offset": offset, "count": offset % 97 % 5})

    with DcpiTrace(path) as trace:
        samples = trace.table("samples")
        print(f"{samples.num_rows:,} addresses with samples in {path}")
        hottest = int(samples["count"].argmax())
        print(f"{int(samples['count'].sum()):,} samples, most at {samples['address'][hottest]:#x}")
        lines = [*trace.header.lines, Line("note", "a copy")]
        with DcpiWriter(f"{path}.copy", header=lines) as copy:
            copy.write_table("samples", samples)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "synthetic.dcpi")
