"""Rerankers: compare the patches of the query with those of the nearest slides."""
