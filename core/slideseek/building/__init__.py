"""Build an archive: find what is missing for each engine, and compute it."""
