"""Queries, hits and their evidence as pages and pictures: to read, to print, to send."""
