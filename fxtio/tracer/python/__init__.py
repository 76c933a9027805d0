"""The recorder in Python: what runs where the one in C is not there.

`store` holds the file and the threads' places in it, `site` texts and call sites, `event` writes records, `span` is
what a program calls, `code` and `traced` are what the interpreter calls.  The interpreter lets nothing in between
statements that call nothing; where this matters, a comment says so.
"""
