"""Who learns and who is asked: patients dealt into folds, or put on the two sides of a split."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from slideseek.errors import SlideseekError, UsageError
from slideseek.types import SlideRecord
from slideseek_apps.bench.datasets.dataset import SPLIT
from slideseek_apps.bench.protocol import Protocol

_SIDES = {"train": "train", "training": "train", "test": "test", "testing": "test", "val": "", "validation": ""}


@dataclass(frozen=True, slots=True)
class Fold:
    """One round of fitting and asking, as positions in the list of slides, ascending.

    train: slides to learn from, none where nothing is fitted. test: slides to ask with. among: slides to look among.
    """

    number: int
    train: tuple[int, ...]
    test: tuple[int, ...]
    among: tuple[int, ...]


def taking_part(records: Sequence[SlideRecord], protocol: Protocol) -> list[SlideRecord]:
    """Return the slides a protocol can ask about: those with the target and, in vertical search, a site."""
    return [r for r in records if r.site and (protocol.mode == "horizontal" or r.label)]


def target_of(record: SlideRecord, protocol: Protocol) -> str:
    """Return what a protocol looks for: the label or the site of a slide."""
    return record.label if protocol.target == "label" else record.site


def make_folds(records: Sequence[SlideRecord], protocol: Protocol, seed: int, learns: bool) -> list[Fold]:
    """Return the run of a protocol over slides, the same for the same seed.

    learns: whether the encoder is fitted. One that is not, looking among all slides, needs no folds: the answers would
    be the same.
    """
    everyone = tuple(range(len(records)))
    if protocol.fit == "none" or (protocol.fit == "folds" and not learns and protocol.among == "all"):
        return [Fold(0, (), everyone, everyone)]
    if protocol.fit == "split":
        sides = _sides(records, protocol, seed)
        train, test = (tuple(i for i in everyone if sides[i] == side) for side in ("train", "test"))
        if not train or not test:
            raise SlideseekError(
                f"protocol {protocol.name!r}: {len(train)} training and {len(test)} test slides",
                "give the dataset a split column, or set split = FILE.csv or test = 0.4",
            )
        chosen = {"all": tuple(sorted((*train, *test))), "training": train, "test": test}[protocol.among]
        return [Fold(0, train, test, chosen)]
    folds = []
    number = _deal(records, protocol, seed)
    for fold in range(max(number) + 1):
        train = tuple(i for i in everyone if number[i] != fold)
        test = tuple(i for i in everyone if number[i] == fold)
        folds.append(Fold(fold, train, test, {"all": everyone, "training": train, "test": test}[protocol.among]))
    return folds


def _deal(records: Sequence[SlideRecord], protocol: Protocol, seed: int) -> list[int]:
    """Return the fold of each slide: groups of slides that must stay together, dealt out class by class."""
    group = groups(records, protocol)
    names = sorted(set(group))
    if len(names) < max(2, protocol.folds):
        what = "patients" if protocol.leave_out == "patient" else "centres that share no patient"
        raise SlideseekError(
            f"protocol {protocol.name!r}: {len(names)} {what} cannot be dealt into {protocol.folds or 2} folds",
            "set folds lower, or 0 for one each",
        )
    if protocol.folds == 0:
        return [names.index(name) for name in group]
    dealt = {name: position % protocol.folds for position, name in enumerate(_by_class(records, group, protocol, seed))}
    return [dealt[name] for name in group]


def _by_class(records: Sequence[SlideRecord], group: Sequence[str], protocol: Protocol, seed: int) -> list[str]:
    """Return the groups in a seeded order, those of one class (in vertical search, of one site) next to each other."""
    names = sorted(set(group))
    first: dict[str, tuple[str, str]] = {}
    for record, name in zip(records, group):
        first.setdefault(name, (record.site, target_of(record, protocol)))
    order = np.random.default_rng([seed, 7]).permutation(len(names))
    return sorted((names[i] for i in order), key=lambda name: first[name])


def groups(records: Sequence[SlideRecord], protocol: Protocol) -> list[str]:
    """Return for each slide the name of its group: its patient, and with leave_out = `center` all slides that are
    linked by patients and centres, so that neither is ever on both sides."""
    if protocol.leave_out == "patient":
        return [record.patient for record in records]
    if unknown := [record.id for record in records if not record.center]:
        raise SlideseekError(
            f"protocol {protocol.name!r} leaves centres out, and {len(unknown)} slide(s) have none ({unknown[0]!r})",
            "give them a centre, or set leave_out = 'patient'",
        )
    root: dict[str, str] = {}

    def find(name: str) -> str:
        while root.setdefault(name, name) != name:
            name = root[name]
        return name

    for record in records:
        one, other = sorted((find(f"c {record.center}"), find(f"p {record.patient}")))
        root[other] = one
    return [find(f"p {record.patient}") for record in records]


def _sides(records: Sequence[SlideRecord], protocol: Protocol, seed: int) -> list[str]:
    """Return `train`, `test` or "" (neither) for each slide."""
    if protocol.test:
        group = groups(records, protocol)
        order = _by_class(records, group, protocol, seed)
        asked = {name for i, name in enumerate(order) if int((i + 1) * protocol.test) > int(i * protocol.test)}
        return ["test" if name in asked else "train" for name in group]
    said: Mapping[str, str]
    if protocol.split is not None:
        said, where = _read_split(protocol.split), str(protocol.split)
    else:
        said, where = {record.id: record.fields.get(SPLIT, "") for record in records}, "the dataset's split column"
    sides = []
    for record in records:
        word = said.get(record.id, "").lower()
        if word and word not in _SIDES:
            raise UsageError(f"{where}: slide {record.id!r} is on side {word!r}", "sides are train and test")
        sides.append(_SIDES.get(word, ""))
    return sides


def _read_split(path: Path) -> dict[str, str]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            reader = csv.DictReader(stream)
            if not {"slide_id", SPLIT} <= set(reader.fieldnames or ()):
                raise UsageError(f"{path} needs columns slide_id and split", "name them in its first line")
            return {(row["slide_id"] or "").strip(): (row[SPLIT] or "").strip() for row in reader}
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"the split {path} cannot be read ({error})", "check the path") from error
