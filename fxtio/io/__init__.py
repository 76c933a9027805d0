"""Bytes in and out: paths, file objects, pipes, URLs; compressed or not."""
