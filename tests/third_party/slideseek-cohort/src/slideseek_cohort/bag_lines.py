"""The kind of data `bag-jsonl`: bags in one JSON-lines file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from slideseek.archive.manifest import Problem
from slideseek.errors import SlideseekError
from slideseek.plugins import Registry
from slideseek.types import Bag, SlideRecord
from slideseek_apps.bench.datasets import SPLIT, Source


@dataclass(frozen=True)
class BagLines:
    """Take bags from a JSON-lines file: one object per slide with `slide_id`, `label` and `features`.

    `features` is a list of vectors, one per patch. `patient`, `site`, `center` and `split` are optional.

    path: the file. site: the site of slides whose line has none.
    """

    path: Path
    site: str = ""

    @classmethod
    def recognises(cls, path: Path) -> bool:
        """Say whether the path is a `.jsonl` file."""
        return path.is_file() and path.suffix.lower() == ".jsonl"

    def load(self, registry: Registry) -> Source:
        """Read the lines; a line that is not a slide is a problem, and the rest is used."""
        try:
            lines = self.path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise SlideseekError(f"{self.path} cannot be read ({error})", "check the path") from error
        records: list[SlideRecord] = []
        bags: dict[str, Bag] = {}
        problems: list[Problem] = []
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                record, bag = self._slide(json.loads(line))
            except (ValueError, TypeError, KeyError) as error:
                cause = f"it is not a slide ({error})"
                problems.append(Problem(f"{self.path.name}, line {number}", cause, "fix the line"))
                continue
            records.append(record)
            bags[record.id] = bag
        return Source(self.path.stem, tuple(records), bags, problems=tuple(problems))

    def _slide(self, said: dict[str, Any]) -> tuple[SlideRecord, Bag]:
        """Return one slide with its bag; whatever is wrong is a `ValueError`, `TypeError` or `KeyError`."""
        features = np.array(said["features"], dtype=np.float32)
        if features.ndim != 2:
            raise ValueError("features: one list of numbers per patch")
        text = {name: str(said.get(name) or "") for name in ("slide_id", "patient", "site", "label", "center", SPLIT)}
        if not text["slide_id"]:
            raise ValueError("slide_id: one or more characters")
        site, split = text["site"] or self.site, {SPLIT: text[SPLIT]} if text[SPLIT] else {}
        record = SlideRecord(text["slide_id"], "", text["patient"], site, text["label"], text["center"], fields=split)
        return record, Bag(record.id, features, np.zeros((len(features), 2), np.int32), site)
