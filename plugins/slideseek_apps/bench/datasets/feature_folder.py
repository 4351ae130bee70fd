"""A manifest and a folder of feature files as a dataset."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from slideseek.archive.manifest import ManifestRow, read_manifest
from slideseek.errors import UsageError
from slideseek.plugins import Registry
from slideseek.types import SlideRecord
from slideseek_apps.bench.datasets.dataset import Source
from slideseek_apps.bench.datasets.feature_files import find_files, is_feature_file, lazy_bags, match_files


@dataclass(frozen=True)
class FeatureFolder:
    """Take features from files of other tools, and patients, sites and labels from a manifest.

    path: the folder with one feature file per slide. manifest: the CSV; a column `split` (`train`, `test`) is used by
    protocols with a fixed split. allow_missing_patient: count a slide without a patient as a patient of its own.
    """

    path: Path
    manifest: Path | None = None
    allow_missing_patient: bool = False

    @classmethod
    def recognises(cls, path: Path) -> bool:
        """Say whether feature files lie in the folder, or below it where other tools put them."""
        if not path.is_dir():
            return False
        places = [path, *(path / name for name in ("h5_files", "pt_files", "patches", "tile_embeddings"))]
        for name in ("features_*", "slide_features_*", "slide_embeddings"):
            places += [*path.glob(name), *path.glob(f"*/{name}")]
        return any(is_feature_file(file) for place in places if place.is_dir() for file in place.iterdir())

    def load(self, registry: Registry) -> Source:
        """Match feature files to the manifest's rows; a row or a file that cannot be used is a problem."""
        if self.manifest is None:
            raise UsageError(
                f"{self.path}: a feature folder needs a manifest with the patient, site and label of each slide",
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
