"""Answers from a timeline: what took the time, the tree of calls, what is like this, what ran when, what held a loop.

Each function reads a timeline once, or twice if threads or processes are selected, in bounded memory.
"""

from fxtio.timeline.answers.answer import Answer, QuestionError, summary
from fxtio.timeline.answers.blocking import Block, Blocks, Loop, blocking
from fxtio.timeline.answers.find import Condition, Hit, Hits, find
from fxtio.timeline.answers.lanes import Lane, Lanes, lanes
from fxtio.timeline.answers.overview import Overview, overview
from fxtio.timeline.answers.top import top
from fxtio.timeline.answers.tree import tree

__all__ = [
    "Answer",
    "Block",
    "Blocks",
    "Condition",
    "Hit",
    "Hits",
    "Lane",
    "Lanes",
    "Loop",
    "Overview",
    "QuestionError",
    "blocking",
    "find",
    "lanes",
    "overview",
    "summary",
    "top",
    "tree",
]
