"""A module that fails when it is imported."""

from wrong_plugins import boom

boom()
