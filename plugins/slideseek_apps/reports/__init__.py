"""Queries, hits and their evidence as HTML pages and pictures."""
