"""The version of slideseek. A module of its own, so that every layer can name it without the package above it."""

__version__ = "0.1.0"
