"""Write a new plugin distribution that works from the first minute: `create(folder, name, kind)`."""

from slideseek.testing.scaffold.create import create

__all__ = ["create"]
