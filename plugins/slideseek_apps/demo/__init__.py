"""The demo: generated slides, an archive of them, a search and a report."""
