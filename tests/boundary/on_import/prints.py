"""A module that prints when it is imported."""

from wrong_plugins import HonestEncoder as Encoder

print("hello from the import")
__all__ = ["Encoder"]
