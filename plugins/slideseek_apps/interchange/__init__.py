"""Features from and for other tools: what they wrote becomes an engine's, and what an engine made becomes theirs."""
