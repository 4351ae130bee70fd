"""The state of a training run after an epoch, in one file that is replaced atomically.

Random numbers and data order follow from the seed and the epoch number, so only the weights, the optimiser state and
the epoch are stored.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from slideseek.errors import DamagedError, SlideseekError
from slideseek_components.encoders.model_file import write_atomically

FORMAT = 1
_FILE = "checkpoint.safetensors"
_LOG = "training.csv"

LogRow = dict[str, float]
"""One epoch of the training log."""


@dataclass
class TrainingState:
    """How far training got.

    epoch: epochs done. weights, first, second, best: tensors by parameter name (the network, Adam's two moments, the
    best network so far on the validation slides). best_loss: its loss there. waited: epochs since. log: one row per
    epoch.
    """

    epoch: int
    weights: dict[str, Tensor]
    first: dict[str, Tensor]
    second: dict[str, Tensor]
    best: dict[str, Tensor]
    best_loss: float
    waited: int
    steps: int
    log: list[LogRow]


def write_checkpoint(folder: Path, fingerprint: str, state: TrainingState) -> None:
    """Replace the checkpoint in `folder`, and the training log `training.csv` next to it."""
    head = {
        "format": FORMAT,
        "fingerprint": fingerprint,
        "epoch": state.epoch,
        "best_loss": state.best_loss.hex(),
        "waited": state.waited,
        "steps": state.steps,
        "log": state.log,
    }
    groups = {"weights": state.weights, "first": state.first, "second": state.second, "best": state.best}
    tensors = {
        f"{group}/{name}": t.detach().cpu().contiguous() for group, ts in groups.items() for name, t in ts.items()
    }
    write_atomically(folder / _FILE, save(tensors, metadata={"state": json.dumps(head)}))
    write_log(folder, state.log)


def read_checkpoint(folder: Path, fingerprint: str, shapes: Mapping[str, torch.Size]) -> TrainingState | None:
    """Return the state in `folder`, None if there is none; raise an error if it belongs to another run.

    shapes: of the network's parameters, checked before anything is read.
    """
    path = folder / _FILE
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            head: dict[str, Any] = json.loads((file.metadata() or {})["state"])
            if head["format"] != FORMAT or head["fingerprint"] != fingerprint:
                raise SlideseekError(
                    f"the checkpoint in {folder} belongs to other options, slides or another version",
                    "train in an empty folder, or restore the original options and slides",
                )
            tensors: dict[str, dict[str, Tensor]] = {"weights": {}, "first": {}, "second": {}, "best": {}}
            for key in list(file.keys()):
                group, name = key.split("/", 1)
                if tuple(file.get_slice(key).get_shape()) != tuple(shapes[name]):
                    raise ValueError(f"{key} has another shape")
                tensors[group][name] = file.get_tensor(key)
        if any(tensors[group].keys() != shapes.keys() for group in ("weights", "first", "second")):
            raise ValueError("tensors are missing")
        return TrainingState(
            int(head["epoch"]),
            tensors["weights"],
            tensors["first"],
            tensors["second"],
            tensors["best"],
            float.fromhex(head["best_loss"]),
            int(head["waited"]),
            int(head["steps"]),
            list(head["log"]),
        )
    except (OSError, SafetensorError, ValueError, KeyError, TypeError) as error:
        raise DamagedError(f"{path} cannot be used ({error})", "delete it to train from scratch") from error


def drop_checkpoint(folder: Path) -> None:
    """Delete the checkpoint in `folder`, if there is one, and its training log."""
    (folder / _FILE).unlink(missing_ok=True)
    (folder / _LOG).unlink(missing_ok=True)


def write_log(folder: Path, log: Sequence[LogRow]) -> None:
    """Write the training log as `training.csv`, one row per epoch."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(log[0]) if log else ["epoch"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(log)
    write_atomically(folder / _LOG, text.getvalue().encode())
