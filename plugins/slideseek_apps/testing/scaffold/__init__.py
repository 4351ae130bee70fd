"""Create a new, working plugin distribution: `create(folder, name, kind)`."""

from slideseek_apps.testing.scaffold.create import create

__all__ = ["create"]
