"""Independent oracles: each trace format restated with `construct` from its specification text alone.

Strategy: an oracle shares no code, no bit position and no name with the codec under test, so that the two can only
agree by both being right. It follows the specification line by line and prefers clarity over speed.
"""
