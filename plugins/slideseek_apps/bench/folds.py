"""Patient-disjoint folds: deal patients into folds, or put them on the two sides of a split.

scikit-learn's `StratifiedGroupKFold` is not used, since a seed must give the same folds on every installation. Until
pull request 32540 of 2025 it did not balance classes when it shuffled; releases with that fix give other folds for the
same seed, and both kinds of release are allowed here. It has no leave-one-patient-out and no drawn test side either.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from slideseek.errors import SlideseekError, UsageError
from slideseek.types import SlideRecord
from slideseek_apps.bench.datasets.dataset import SPLIT
from slideseek_apps.bench.protocol import Protocol

_SIDES = {"train": "train", "training": "train", "test": "test", "testing": "test", "val": "", "validation": ""}


@dataclass(frozen=True, slots=True)
class Fold:
    """One fold: positions in the list of slides, ascending.

    train: slides to fit on, none where nothing is fitted. test: queries. among: candidates of the search.
    """

    number: int
    train: tuple[int, ...]
    test: tuple[int, ...]
    among: tuple[int, ...]


def taking_part(records: Sequence[SlideRecord], protocol: Protocol) -> list[SlideRecord]:
    """Return the slides a protocol can use: those with a site and, in vertical search, a label."""
    return [r for r in records if r.site and (protocol.mode == "horizontal" or r.label)]


def target_of(record: SlideRecord, protocol: Protocol) -> str:
    """Return the target of a slide: its label in a vertical protocol, its site in a horizontal one."""
    return record.label if protocol.target == "label" else record.site


def make_folds(records: Sequence[SlideRecord], protocol: Protocol, seed: int, learns: bool) -> list[Fold]:
    """Return the folds of a protocol, the same for the same seed.

    learns: whether the encoder is fitted. One that is not fitted needs no folds when all slides are candidates: its
    hits would be the same.
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
    """Return the fold of each slide: groups of slides that must stay together are dealt out class by class."""
    group = groups(records, protocol)
    names = sorted(set(group))
    if len(names) < max(2, protocol.folds):
        what = "patients" if protocol.leave_out == "patient" else "centres that share no patient"
        raise SlideseekError(
            f"protocol {protocol.name!r}: {len(names)} {what} cannot be dealt into {protocol.folds or 2} folds",
            "set folds lower, or 0 for one fold per patient or centre",
        )
    if protocol.folds == 0:
        return [names.index(name) for name in group]
    dealt = {name: position % protocol.folds for position, name in enumerate(_by_class(records, group, protocol, seed))}
    return [dealt[name] for name in group]


def _by_class(records: Sequence[SlideRecord], group: Sequence[str], protocol: Protocol, seed: int) -> list[str]:
    """Return the groups in a seeded order, those of the same site and target next to each other."""
    names = sorted(set(group))
    first: dict[str, tuple[str, str]] = {}
    for record, name in zip(records, group):
        first.setdefault(name, (record.site, target_of(record, protocol)))
    order = np.random.default_rng([seed, 7]).permutation(len(names))
    return sorted((names[i] for i in order), key=lambda name: first[name])


def groups(records: Sequence[SlideRecord], protocol: Protocol) -> list[str]:
    """Return the group of each slide, which stays on one side.

    A group is a patient; with leave_out = `center` it is all slides linked by common patients and centres.
    """
    if protocol.leave_out == "patient":
        return [record.patient for record in records]
    if unknown := [record.id for record in records if not record.center]:
        raise SlideseekError(
            f"protocol {protocol.name!r} leaves centres out, and {len(unknown)} slide(s) have none ({unknown[0]!r})",
            "give them a centre, or set leave_out = 'patient'",
        )
    names = sorted({f"c {record.center}" for record in records} | {f"p {record.patient}" for record in records})
    place = {name: i for i, name in enumerate(names)}
    centers = [place[f"c {record.center}"] for record in records]
    patients = [place[f"p {record.patient}"] for record in records]
    links = coo_array((np.ones(len(records)), (centers, patients)), shape=(len(names), len(names)))
    _, group = connected_components(links, directed=False)
    first: dict[int, str] = {}  # a group is named after the first of its members, which decides the order of folds
    for name, number in zip(names, group):
        first.setdefault(number, name)
    return [first[group[i]] for i in patients]


def _sides(records: Sequence[SlideRecord], protocol: Protocol, seed: int) -> list[str]:
    """Return `train`, `test` or "" (neither) for each slide."""
    if protocol.test:
        group = groups(records, protocol)
        order = _by_class(records, group, protocol, seed)
        drawn = {name for i, name in enumerate(order) if int((i + 1) * protocol.test) > int(i * protocol.test)}
        return ["test" if name in drawn else "train" for name in group]
    said: Mapping[str, str]
    if protocol.split is not None:
        said, where = _read_split(protocol.split), str(protocol.split)
    else:
        said, where = {record.id: record.fields.get(SPLIT, "") for record in records}, "the dataset's split column"
    sides = []
    for record in records:
        word = said.get(record.id, "").lower()
        if word and word not in _SIDES:
            raise UsageError(f"{where}: slide {record.id!r} is on side {word!r}", "use train and test")
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
