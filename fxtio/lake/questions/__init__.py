"""Questions to a lake, as SQL over its tables: memory is bounded by what is returned, and by the limits of DuckDB.

`parts` says which part of the lake is asked, `rankings` lists and ranks, `hits` finds single slices, `comparisons`
tells what differs between runs, `contents` says what there is.
"""

from __future__ import annotations

from fxtio.lake.questions.comparisons import Diff, Side
from fxtio.lake.questions.contents import Contents, Values
from fxtio.lake.questions.hits import ORDERS, Hits
from fxtio.lake.questions.parts import KEYS, Part
from fxtio.lake.questions.rankings import OF_TRACES, SORTS, Ranking
from fxtio.timeline.answers.answer import QuestionError

__all__ = [
    "KEYS",
    "OF_TRACES",
    "ORDERS",
    "SORTS",
    "Contents",
    "Diff",
    "Hits",
    "Part",
    "QuestionError",
    "Ranking",
    "Side",
    "Values",
]
