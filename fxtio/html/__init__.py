"""One self-contained page about a trace, or about two: what is in it, and the file that shows it."""
