"""slideseek: a plugin-based search engine framework for whole-slide images.

Importing the package loads nothing heavy: each submodule imports what it needs, when it is needed.
"""

__version__ = "0.1.0"
