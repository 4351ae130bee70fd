"""Watch a folder: take in slides as they come, and build."""
