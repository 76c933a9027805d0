"""Answers from a timeline: what took the time, the tree of calls, what is like this, what ran when.

Each function reads a timeline once, or twice if threads or processes are selected, and returns a table.
"""

from fxtio.timeline.answers.answer import Answer, QuestionError
from fxtio.timeline.answers.top import top

__all__ = ["Answer", "QuestionError", "top"]
