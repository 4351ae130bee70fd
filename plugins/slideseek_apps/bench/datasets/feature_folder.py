"""A manifest and a folder of feature files as a dataset."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from slideseek.archive.manifest import ManifestRow, read_manifest
from slideseek.errors import UsageError
from slideseek.types import SlideRecord
from slideseek_apps.bench.datasets.dataset import Source
from slideseek_apps.bench.datasets.feature_files import find_files, lazy_bags, match_files


@dataclass(frozen=True)
class FeatureFolder:
    """Take the patch features TRIDENT, CLAM or NumPy files hold, and what a manifest says of the slides.

    path: the folder with one feature file a slide. manifest: the CSV; a column `split` (`train`, `test`) is kept for
    protocols with a fixed split. allow_missing_patient: count a slide without a patient as a patient of its own.
    """

    path: Path
    manifest: Path | None = None
    allow_missing_patient: bool = False

    def load(self) -> Source:
        """Match feature files to the manifest's rows; a row or a file that cannot be used is a problem."""
        if self.manifest is None:
            raise UsageError(
                f"{self.path}: a feature folder needs a manifest that says whose slides they are",
                "pass --set dataset.manifest=FILE.csv, or manifest = ... in the table [dataset]",
            )
        features = find_files(self.path)
        manifest = read_manifest(self.manifest, self.allow_missing_patient)
        known = [_record(row) for row in manifest.rows]
        files, problems, notes = match_files(features.files, known)
        records = tuple(record for record in known if record.id in files)
        bags = lazy_bags(files, {record.id: record.site for record in records})
        return Source(
            features.name,
            records,
            bags,
            problems=(*manifest.problems, *problems),
            notes=(*features.notes, *manifest.notes, *notes),
        )


def _record(row: ManifestRow) -> SlideRecord:
    return SlideRecord(row.id, row.path, row.patient, row.site, row.label, row.center, row.mpp, "", row.fields)
