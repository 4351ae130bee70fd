"""Encoders: from the set of patch features of a slide to one code."""
