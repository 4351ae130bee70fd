"""Fitted encoders on disk: one folder a model, named by its key, each file's SHA-256 in the catalogue."""

from __future__ import annotations

import shutil
from pathlib import Path

from slideseek.archive.catalog import ModelRow
from slideseek.archive.files import replacing, replacing_folder, sha256_file
from slideseek.errors import DamagedError
from slideseek.interfaces import Trainable


def save_model(root: Path, encoder: Trainable, settings: str, key: str, slides: int, seconds: float) -> ModelRow:
    """Write a fitted encoder below `root`/models and return the row that makes it the current one."""
    folder = f"models/{key[:24]}"
    with replacing_folder(root / folder) as temporary:
        encoder.save(temporary)
        files = {
            str(file.relative_to(temporary)): sha256_file(file)
            for file in sorted(temporary.rglob("*"))
            if file.is_file()
        }
    return ModelRow(settings, key, folder, files, slides, seconds)


def keep_training_logs(training: Path, model: Path) -> None:
    """Copy the logs of a finished training beside its model, and drop the checkpoints."""
    for log in sorted(training.iterdir()):
        if log.suffix in (".csv", ".json") and not (model / log.name).exists():
            with replacing(model / log.name) as temporary:
                shutil.copyfile(log, temporary)
    shutil.rmtree(training)


def load_model(root: Path, encoder: Trainable, row: ModelRow) -> None:
    """Restore a fitted encoder after checking every file against its SHA-256."""
    folder = root / row.folder
    for name, expected in row.files.items():
        file = folder / name
        if not file.is_file() or sha256_file(file) != expected:
            raise DamagedError(f"{file} is missing or damaged", "run 'slideseek build --refit' to fit it again")
    encoder.load(folder)
