"""What encoders made of other encoders share: how the inner ones are fitted and where they keep their checkpoints."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from slideseek.errors import SlideseekError
from slideseek.interfaces import Attributable, BatchEncoder, Checkpointed, Encoder, Progress, Trainable, implements
from slideseek.types import Bag, Code


@dataclass(frozen=True)
class Training:
    """What `fit` or `fit_in` was given. folder: for checkpoints, None for none."""

    bags: Sequence[Bag]
    labels: Sequence[str]
    groups: Sequence[str]
    folder: Path | None = None
    progress: Progress | None = None

    def fit(self, part: Encoder, name: str) -> None:
        """Fit an inner encoder if it learns, with checkpoints in the folder `name` if it writes any."""
        if implements(part, Checkpointed) and self.folder is not None:
            own = self.folder / name
            own.mkdir(exist_ok=True)
            part.fit_in(own, self.bags, self.labels, self.groups, self.progress)
        elif implements(part, Trainable):
            part.fit(self.bags, self.labels, self.groups)


@dataclass
class Composite(Checkpointed, Attributable, BatchEncoder, ABC):
    """An encoder made of encoders. Inner ones are copied before they are fitted, so a failed fit changes nothing."""

    name: ClassVar[str]

    @abstractmethod
    def _learn(self, training: Training) -> None:
        """Fit copies of the inner encoders, learn from their codes, and take them over."""

    @abstractmethod
    def _inner(self) -> Sequence[Encoder]:
        """Return the inner encoders."""

    def fit(self, bags: Sequence[Bag], labels: Sequence[str], groups: Sequence[str]) -> None:
        """Fit the inner encoders, then learn from their codes of the training slides."""
        self._learn(Training(bags, labels, groups))

    def fit_in(
        self,
        folder: Path,
        bags: Sequence[Bag],
        labels: Sequence[str],
        groups: Sequence[str],
        progress: Progress | None = None,
    ) -> None:
        """Fit like `fit`; inner encoders with checkpoints write them into folders of their own below `folder`."""
        _claim(folder, self.name, bags, labels, groups)
        self._learn(Training(bags, labels, groups, folder, progress))
        if progress is not None and not any(implements(part, Checkpointed) for part in self._inner()):
            progress({"epoch": 1, "epochs": 1})

    def encode(self, bag: Bag) -> Code:
        """Return the code of one bag, the same as `encode_many` gives it."""
        return self.encode_many([bag])[0]


def _claim(folder: Path, name: str, bags: Sequence[Bag], labels: Sequence[str], groups: Sequence[str]) -> None:
    """Note in a training folder what is learnt from; a folder of another training is an error."""
    total = hashlib.sha256(json.dumps([name, list(labels), list(groups)]).encode())
    for bag in bags:
        total.update(f"{bag.slide_id}\0{bag.site}\0".encode())
        total.update(np.ascontiguousarray(bag.features).view(np.uint8).data)
    note = folder / "training.json"
    text = json.dumps({"encoder": name, "slides": len(bags), "sha256": total.hexdigest()})
    if not note.exists():
        note.write_text(text, encoding="utf-8")
    elif note.read_text(encoding="utf-8") != text:
        raise SlideseekError(f"{folder} has the training of other slides", "train in an empty folder")
