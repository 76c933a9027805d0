"""The command `python tests/fuzz`, see `fuzz.engine`."""

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parent.parent)  # modules of this folder are called like formats

from fuzz.engine import main  # noqa: E402

sys.exit(main())
