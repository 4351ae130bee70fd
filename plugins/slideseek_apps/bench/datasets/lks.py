"""The Liver-Kidney-Stomach set (LKS) of immunofluorescence slides as a dataset."""

from __future__ import annotations

import csv
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from slideseek.archive.manifest import Problem
from slideseek.config import CONFIG_NAME
from slideseek.errors import SlideseekError, UsageError
from slideseek.plugins import Registry
from slideseek.types import SlideRecord
from slideseek_apps.bench.datasets.dataset import SPLIT, Source
from slideseek_apps.bench.datasets.feature_files import find_files, lazy_bags, match_files
from slideseek_apps.bench.datasets.from_archive import ArchiveData

LABELS = MappingProxyType({"train": "Train_Labels.csv", "test": "Test_Labels.csv"})
FOLDERS = MappingProxyType({"train": "Train", "test": "Test"})
EXPECTED = MappingProxyType({"train": 479, "test": 205})
SITE = "liver-kidney-stomach"
"""Every slide shows all three tissues, so there is one site."""

FLUORESCENCE = (
    "LKS slides are bright on a dark background: features must come from a selector with tissue = 'fluorescence',"
    " or most patches are empty"
)


@dataclass(frozen=True)
class Lks:
    """Take the slides `Train/*.tif` and `Test/*.tif` with `Train_Labels.csv` and `Test_Labels.csv`, and their features.

    The set has no patient ids, so each slide is a patient of its own; its two folders are the fixed split.

    path: the folder of the set. features: an archive of the slides or a folder of feature files named after them;
    `features` within `path` when left out. engine: the engine of the archive whose features are used.
    """

    path: Path
    features: Path | None = None
    engine: str | None = None

    @classmethod
    def recognises(cls, path: Path) -> bool:
        """Say whether the folder has a label file of the set."""
        return any((path / name).is_file() for name in LABELS.values())

    def load(self, registry: Registry) -> Source:
        """Read both label files and match features to slides."""
        known: list[SlideRecord] = []
        problems: list[Problem] = []
        notes = [FLUORESCENCE]
        for split in LABELS:
            records = self._side(split)
            if len(records) != EXPECTED[split]:
                notes.append(f"{LABELS[split]} names {len(records)} slides, the published set has {EXPECTED[split]}")
            known.extend(records)
        twice = [name for name, count in Counter(record.id for record in known).items() if count > 1]
        if twice:
            raise SlideseekError(f"slide {twice[0]!r} is in both label files of {self.path}", "keep it on one side")
        place = self.features or self.path / "features"
        if (place / CONFIG_NAME).is_file():
            source = ArchiveData(place, self.engine).load(registry)
            truth = {record.id: record for record in known}
            records = [_joined(record, truth[record.id]) for record in source.records if record.id in truth]
            return Source("lks", tuple(records), source.bags, source.identities, (), (*notes, *source.notes))
        if not place.is_dir():
            raise UsageError(
                f"{place} has no features of the slides",
                "build an archive of Train and Test (tissue = 'fluorescence') and pass dataset.features=ARCHIVE",
            )
        files, problems, more = match_files(find_files(place).files, known)
        kept = tuple(record for record in known if record.id in files)
        return Source("lks", kept, lazy_bags(files, dict.fromkeys(files, SITE)), {}, tuple(problems), (*notes, *more))

    def _side(self, split: str) -> list[SlideRecord]:
        """Return the slides of one label file: the first column is the file name, the second its class."""
        path = self.path / LABELS[split]
        try:
            with path.open(newline="", encoding="utf-8-sig") as stream:
                reader = csv.reader(stream)
                rows = [(reader.line_num, [cell.strip() for cell in cells]) for cells in reader if any(cells)]
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise SlideseekError(
                f"{path} cannot be read ({error})", f"name the folder that holds {' and '.join(LABELS.values())}"
            ) from error
        if rows and len(rows[0][1]) > 1 and rows[0][1][1].lower() in ("label", "class", "labels"):
            rows = rows[1:]
        records = []
        for line, cells in rows:
            if len(cells) < 2 or not cells[0] or not cells[1]:
                raise SlideseekError(f"{path}, line {line}: {cells} is not a file name and a class", "write FILE,CLASS")
            file = f"{FOLDERS[split]}/{cells[0]}"
            records.append(SlideRecord(Path(cells[0]).stem, file, site=SITE, label=cells[1], fields={SPLIT: split}))
        return records


def _joined(built: SlideRecord, truth: SlideRecord) -> SlideRecord:
    """Return the archive's record of a slide with the site, class and split of the set."""
    return replace(built, site=truth.site, label=truth.label, fields={**built.fields, **truth.fields})
