"""Exchange features with other tools: import what they computed, export what an engine computed."""
