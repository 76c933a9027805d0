"""Helpers that several test modules share. Imported as `support`: tests/ is on sys.path, the checkout is not."""
