"""Input and output of bytes, and the base classes of readers and writers.

Traces are paths, file objects, pipes or URLs, and may be compressed.
"""
