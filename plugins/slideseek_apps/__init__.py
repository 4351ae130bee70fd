"""Applications built on the core. Each folder is one plugin that can be read, tested or deleted on its own."""
