"""The type of numpy arrays, as annotations name it."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
"""An array of any shape; where it matters, the docstring says which numbers it has."""
