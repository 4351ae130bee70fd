"""The applications built on the core: each folder is one plugin, and can be read, tested or deleted alone."""
