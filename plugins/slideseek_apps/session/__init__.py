"""Searching as a conversation: requests that can be asked again, their log, relevance feedback, and the prompt."""
