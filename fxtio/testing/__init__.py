"""For the tests of those who read or write traces: synthetic traces, and strategies that make every valid record."""
