"""Valid calls of all public methods of the writers, by format, from which `test_calls` makes absurd ones."""
