"""The browser viewer: a local server for one archive, and the page it serves."""
