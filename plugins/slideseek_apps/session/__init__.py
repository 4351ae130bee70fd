"""Interactive search sessions: the prompt, its commands, scripts and relevance feedback."""
