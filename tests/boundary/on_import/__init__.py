"""Modules of encoders, each wrong when it is imported."""
