"""Selectors: which patches of a slide stand for it."""
