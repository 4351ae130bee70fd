"""Comparing engines: protocols, measures and what they are computed from."""
