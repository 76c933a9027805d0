"""The check of all rules of DCPI profiles and of listings; `consistency` has those that readers of profiles report."""

from __future__ import annotations

from fxtio.dcpi import dcpicat
from fxtio.dcpi.reader import DcpiTrace


def check(trace: DcpiTrace) -> None:
    """Read a profile once, in bounded memory, and add a finding for each fault to `trace.findings`.

    The file may be a listing of `dcpicat`, too, which has rules of its own.

    Raises:
        DecodeError: in strict mode, at the first fault.
    """
    if dcpicat.looks_like_listing(trace.head()):
        trace.read_with(dcpicat.check)
    else:
        trace.watch(lambda _: None)
