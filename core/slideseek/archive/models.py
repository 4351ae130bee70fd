"""Fitted encoders on disk: one folder per model, named by its content; each file's SHA-256 is in the catalogue."""

from __future__ import annotations

from pathlib import Path

from slideseek.archive.files import move, remove, replacing_folder, write_bytes
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
    row = ModelRow(settings, key, f"{FOLDER}/{key[:24]}", learnt_from, files, slides, seconds)
    if model_is_whole(root, row):  # a refit with the same result
        remove(root / FOLDER / "new")
    else:
        remove(root / row.folder)  # of the same name, and damaged
        move(root / FOLDER / "new", root / row.folder)
    return row


def keep_training_logs(training: Path, model: Path) -> None:
    """Copy the logs of a finished training next to its model, and drop the checkpoints."""
    for log in sorted(training.iterdir()):
        if log.suffix in (".csv", ".json") and not (model / log.name).exists():
            write_bytes(model / log.name, log.read_bytes())
    remove(training)


def load_model(root: Path, encoder: Trainable, row: ModelRow) -> None:
    """Restore a fitted encoder after checking every file against its SHA-256."""
    if damaged := _damaged(root, row):
        raise DamagedError(f"{damaged} is missing or damaged", "run 'slideseek build' to fit it again")
    encoder.load(root / row.folder)


def model_is_whole(root: Path, row: ModelRow | None) -> bool:
    """Return whether there is a model, with every file as it was saved."""
    return row is not None and _damaged(root, row) is None


def _damaged(root: Path, row: ModelRow) -> Path | None:
    """Return a file of a model that is missing or damaged, if there is one."""
    files = ((root / row.folder / name, sha256) for name, sha256 in row.files.items())
    return next((file for file, sha256 in files if not file.is_file() or sha256_file(file) != sha256), None)
