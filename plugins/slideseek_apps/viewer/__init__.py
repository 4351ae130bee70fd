"""The viewer in the browser: a local server over one archive, and the page it serves."""
