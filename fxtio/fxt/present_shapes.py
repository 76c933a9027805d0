"""Which synthetic traces there are; apart from what writes them, so that help is quick."""

SHAPES = {
    "spans": "spans that nest, with two arguments each",
    "counters": "samples of counters",
    "flows": "spans on several threads with arrows between them",
    "async": "operations that overlap and move between threads",
    "threads": "spans on very many threads",
    "mixed": "all of it, and instants",
}
