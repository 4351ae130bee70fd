"""Engines over an archive: what is done, what is missing, and doing it."""
