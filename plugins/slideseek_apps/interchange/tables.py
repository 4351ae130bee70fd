"""Write a table as CSV or Parquet."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from slideseek.archive.files import replacing
from slideseek.errors import UsageError

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
        with replacing(path) as temporary:
            parquet.write_table(pyarrow.table(dict(columns)), temporary)
        return
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*([_cell(value) for value in column] for column in columns.values())))


def _cell(value: Any) -> str:
    return "" if value is None else repr(value) if isinstance(value, float) else str(value)
