"""Write a table as CSV or Parquet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from slideseek.cli.output import csv_text
from slideseek.errors import UsageError
from slideseek_apps.reports.sharing import private_file, write_private

EXTRA = "pip install 'slideseek[interchange]'"


def needs_extra(what: str) -> UsageError:
    """Return the error for a format whose library is not installed."""
    return UsageError(f"the library for {what} is not installed", EXTRA)


def write_table(path: Path, columns: Mapping[str, Sequence[Any]]) -> None:
    """Write columns of equal length, in the format of the path's suffix: `.csv` or `.parquet`.

    None is empty. Numbers in a CSV file read back exactly; Parquet keeps types, and lists of numbers too.
    """
    if path.suffix == ".parquet":
        try:
            import pyarrow
            import pyarrow.parquet as parquet
        except ImportError as error:
            raise needs_extra("Parquet") from error
        with private_file(path) as temporary:
            parquet.write_table(pyarrow.table(dict(columns)), temporary)
        return
    rows = zip(*([_cell(value) for value in column] for column in columns.values()))
    write_private(path, csv_text(list(columns), rows))


def _cell(value: Any) -> str:
    return "" if value is None else repr(value) if isinstance(value, float) else str(value)
