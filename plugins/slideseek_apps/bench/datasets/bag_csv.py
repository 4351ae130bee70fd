"""Multiple-instance bags in one CSV file."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from slideseek.errors import SlideseekError
from slideseek.plugins import Registry
from slideseek.types import Bag, SlideRecord
from slideseek_apps.bench.datasets.dataset import SPLIT, Source

_KNOWN = ("bag", "label", "patient", "site", "center", SPLIT)


@dataclass(frozen=True)
class BagCsv:
    """Take bags from a CSV with one row per instance: `bag`, `label`, then one column per feature.

    `patient`, `site`, `center` and `split` are optional; every other column is a feature.

    path: the file. site: the site of all bags, where the file has none.
    """

    path: Path
    site: str = ""

    @classmethod
    def recognises(cls, path: Path) -> bool:
        """Say whether the path is a `.csv` file."""
        return path.is_file() and path.suffix.lower() == ".csv"

    def load(self, registry: Registry) -> Source:
        """Read the rows and gather them into bags; rows of one bag that disagree are an error that names the line."""
        records: dict[str, SlideRecord] = {}
        rows: dict[str, list[list[float]]] = {}
        for line, said, numbers in self._rows():
            record = SlideRecord(
                said["bag"],
                "",
                said.get("patient", ""),
                said.get("site", "") or self.site,
                said["label"],
                said.get("center", ""),
                fields={SPLIT: said[SPLIT]} if said.get(SPLIT) else {},
            )
            if records.setdefault(record.id, record) != record:
                raise self._error(line, f"bag {record.id!r} has another label, patient or site than above")
            rows.setdefault(record.id, []).append(numbers)
        bags = {}
        for name, values in rows.items():
            features = np.array(values, dtype=np.float32)
            bags[name] = Bag(name, features, np.zeros((len(features), 2), np.int32), records[name].site)
        return Source(self.path.stem, tuple(records.values()), bags)

    def _rows(self) -> Iterator[tuple[int, dict[str, str], list[float]]]:
        try:
            with self.path.open(newline="", encoding="utf-8-sig") as stream:
                reader = csv.reader(stream)
                header = [name.strip() for name in next(reader, [])]
                known = {name.lower(): i for i, name in enumerate(header) if name.lower() in _KNOWN}
                if "bag" not in known or "label" not in known or len(known) == len(header):
                    raise self._error(1, f"columns bag, label and one or more features are needed, not {header}")
                wide = [i for i in range(len(header)) if i not in known.values()]
                for cells in reader:
                    if len(cells) != len(header):
                        raise self._error(reader.line_num, f"{len(cells)} cells, {len(header)} columns")
                    try:
                        numbers = [float(cells[i]) for i in wide]
                    except ValueError as error:
                        raise self._error(reader.line_num, f"a feature is not a number ({error})") from error
                    yield reader.line_num, {name: cells[i].strip() for name, i in known.items()}, numbers
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise SlideseekError(
                f"{self.path} cannot be read as a CSV ({error})", "check the path and save it as UTF-8"
            ) from error

    def _error(self, line: int, what: str) -> SlideseekError:
        return SlideseekError(f"{self.path}, line {line}: {what}", "write rows as bag,label,feature,feature,...")
