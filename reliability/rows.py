"""The rows of the table, in its order. A new row is one module with a `ROW`, and one line here."""

from __future__ import annotations

from importlib import import_module

from reliability.row import Row

ROWS: tuple[str, ...] = (
    *("kills", "flips", "full_disk", "writers", "signals"),
    *("hostile_slides", "hostile_files", "canaries", "viewer_attacks", "command_lines", "soak"),
)
"""Names of the modules in this package that hold a row."""

FAULTY = frozenset(("kills", "full_disk"))
"""Rows in which calls that change a disk fail: see `disk_faults`."""


def load(name: str) -> Row:
    """Import a row."""
    row: Row = import_module(f"reliability.{name}").ROW
    return row
