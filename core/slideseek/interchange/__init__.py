"""Features from and for other tools: what they wrote becomes an engine's, and what an engine made becomes theirs."""

IMPORTED = "imported"
"""The name under which the selector and the featurizer that stand for imported features are registered."""
