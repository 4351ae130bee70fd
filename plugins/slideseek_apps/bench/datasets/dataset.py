"""The data of a benchmark: slides with their patients, sites and labels, and their bags of features."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from slideseek.archive.manifest import Problem
from slideseek.digests import digest, digest_bytes
from slideseek.errors import SlideseekError, one_line
from slideseek.types import Bag, Float32, SlideRecord

SPLIT = "split"
"""The free field of a record that holds the side of a fixed split a slide is on: `train` or `test`."""


class LazyBags(Mapping[str, Bag]):
    """Bags that are read from disk each time they are used, so that a benchmark holds only a few at a time."""

    def __init__(self, ids: Mapping[str, Callable[[], Bag]]) -> None:
        self._readers = ids

    def __getitem__(self, slide_id: str) -> Bag:
        return self._readers[slide_id]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._readers)

    def __len__(self) -> int:
        return len(self._readers)


@dataclass(frozen=True, slots=True)
class Source:
    """What an adapter found; no bag has been read yet.

    bags: by slide id. identities: by slide id, the SHA-256 or MD5 of the slide's file, where it is known. problems:
    files and rows that cannot be used. notes: shown to the person who runs the benchmark. featurizers: the names that
    the features go by, for encoders that need certain ones; none if they are unknown.
    """

    name: str
    records: tuple[SlideRecord, ...]
    bags: Mapping[str, Bag]
    identities: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()
    featurizers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Dataset:
    """Slides whose features were all read once, sorted by id; each has a patient and a site.

    features: by slide id, the SHA-256 of its features whatever the order of its patches. fingerprint: SHA-256 of
    slides, features and labels together; equal fingerprints are the same benchmark. width: of one feature vector.
    """

    name: str
    records: tuple[SlideRecord, ...]
    bags: Mapping[str, Bag]
    features: Mapping[str, str]
    identities: Mapping[str, str]
    fingerprint: str
    width: int
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()
    featurizers: tuple[str, ...] = ()

    @property
    def patients(self) -> int:
        """Number of patients."""
        return len({record.patient for record in self.records})


def examine(source: Source) -> Dataset:
    """Read every bag once; slides that cannot be read become problems, and the rest is the dataset.

    A slide without a patient is a patient of its own. Where no slide has a site, all are of one site, named after the
    dataset: a search within the site is then a search of everything, and conditioned encoders have a condition.
    """
    problems, notes = list(source.problems), list(source.notes)
    kept: list[SlideRecord] = []
    features: dict[str, str] = {}
    width = 0
    for record in sorted(source.records, key=lambda record: record.id):
        if record.id in features:
            raise SlideseekError(f"dataset {source.name!r} has two slides {record.id!r}", "give each slide its own id")
        try:
            bag = source.bags[record.id]
            if width and bag.width != width:
                raise SlideseekError(f"it has {bag.width} features per patch, others have {width}", "leave it out")
            if not np.isfinite(bag.features).all():
                raise SlideseekError("some of its features are not finite numbers", "compute them again")
        except Exception as error:  # a reader given a damaged file may raise anything; the rest still runs
            problem = error if isinstance(error, SlideseekError) else SlideseekError(one_line(error), "leave it out")
            problems.append(Problem(record.id, problem.cause, problem.fix))
            continue
        width = bag.width
        # All slides without patches have the same features, but they are not duplicates.
        features[record.id] = features_digest(bag.features) if len(bag) else digest(["no patches", record.id])
        kept.append(record)
    if not kept:
        first = f" ({problems[0].subject}: {problems[0].cause})" if problems else ""
        raise SlideseekError(f"dataset {source.name!r} has no slide that can be used{first}", "check the path")
    records = tuple(_whole(kept, source.name, notes))
    facts = [[r.id, r.patient, r.site, r.label, r.center, r.fields.get(SPLIT, ""), features[r.id]] for r in records]
    return Dataset(
        source.name,
        records,
        source.bags,
        features,
        {i: name for i, name in source.identities.items() if i in features},
        digest(facts),
        width,
        tuple(problems),
        tuple(notes),
        source.featurizers,
    )


def features_digest(features: Float32) -> str:
    """Return the SHA-256 of features (n, width), the same for any order of the patches."""
    rows = (hashlib.sha256(row).digest() for row in np.ascontiguousarray(features, dtype="<f4"))
    return digest_bytes(f"{features.shape}".encode(), *sorted(rows))


def _whole(records: list[SlideRecord], name: str, notes: list[str]) -> Iterator[SlideRecord]:
    """Give every slide a patient and, where no slide has one, a site."""
    alone = sum(not record.patient for record in records)
    if alone:
        notes.append(f"{alone} of {len(records)} slides have no patient: each counts as a patient of its own")
    one_site = not any(record.site for record in records)
    if one_site:
        notes.append(f"no slide has a site: all count as one site, {name!r}")
    for record in records:
        yield replace(record, patient=record.patient or record.id, site=record.site or (name if one_site else ""))
