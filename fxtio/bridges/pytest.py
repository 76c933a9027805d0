"""The plug-in of pytest, which pytest loads by itself: the fixture `validate_trace`.

It loads the readers only when a test uses the fixture.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from fxtio.validate import Validation


@pytest.fixture(scope="session")
def validate_trace() -> Callable[..., Validation]:
    """Return the function `fxtio.testing.asserts.assert_valid`, which checks a trace against the rules of its format.

    A call `validate_trace(trace)` fails the test if the trace breaks a rule.  It is bytes, or the path of a file or
    directory.  The keyword argument `profile` says which rules count, `ignore` has patterns of rules that do not, and
    `expected` is another trace that must mean the same.
    """
    from fxtio.testing.asserts import assert_valid

    return assert_valid
