"""Fitted encoders on disk: one folder per model, named by its content; each file's SHA-256 is in the catalogue."""

from __future__ import annotations

import shutil
from pathlib import Path

from slideseek.archive.files import replacing, replacing_folder
from slideseek.archive.records import ModelRow
from slideseek.digests import digest, sha256_file, sha256_files
from slideseek.errors import DamagedError
from slideseek.interfaces import Trainable

FOLDER = "models"


def save_model(
    root: Path, encoder: Trainable, settings: str, learnt_from: str, slides: int, seconds: float
) -> ModelRow:
    """Write a fitted encoder below `root`/models and return the record that makes it the current one.

    The model's key includes its files: a fit with another result is another model, and the codes of the two are never
    mixed up.
    """
    with replacing_folder(root / FOLDER / "new") as temporary:
        encoder.save(temporary)
        files = sha256_files(temporary)
    key = digest([settings, learnt_from, files])
    folder = root / FOLDER / key[:24]
    if folder.exists():  # the same files: a refit with the same result
        shutil.rmtree(root / FOLDER / "new")
    else:
        (root / FOLDER / "new").rename(folder)
    return ModelRow(settings, key, f"{FOLDER}/{key[:24]}", learnt_from, files, slides, seconds)


def keep_training_logs(training: Path, model: Path) -> None:
    """Copy the logs of a finished training next to its model, and drop the checkpoints."""
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
            raise DamagedError(f"{file} is missing or damaged", "run 'slideseek build' to fit it again")
    encoder.load(folder)
