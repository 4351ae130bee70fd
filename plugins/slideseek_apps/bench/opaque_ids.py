"""Bags as an encoder may see them: under names that say nothing, without what is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import overload

from slideseek.digests import digest
from slideseek.errors import SlideseekError
from slideseek.types import Bag, SlideRecord
from slideseek_apps.bench.datasets.dataset import Dataset
from slideseek_apps.bench.protocol import Protocol


@dataclass(frozen=True)
class OpaqueIds:
    """Hand bags to plugins under opaque ids.

    Slide ids often carry a diagnosis, and equal distances are ordered by id: with opaque ids neither can help. In a
    horizontal protocol the site is what is asked for, so bags come without it.

    names: by slide id, the opaque id. real: the other way round. sites: by slide id, the site to give.
    """

    dataset: Dataset
    names: Mapping[str, str]
    real: Mapping[str, str]
    sites: Mapping[str, str]

    @classmethod
    def make(cls, dataset: Dataset, records: Sequence[SlideRecord], protocol: Protocol) -> OpaqueIds:
        """Make opaque ids that depend on the dataset alone."""
        names = {record.id: f"slide-{digest([dataset.fingerprint, record.id])[:16]}" for record in records}
        shown = protocol.mode == "vertical"
        sites = {record.id: record.site if shown else "" for record in records}
        return cls(dataset, names, {name: slide_id for slide_id, name in names.items()}, sites)

    def bag(self, slide_id: str) -> Bag:
        """Return the bag of a slide as plugins see it."""
        return replace(self.dataset.bags[slide_id], slide_id=self.names[slide_id], site=self.sites[slide_id])

    def named(self, error: SlideseekError) -> SlideseekError:
        """Return an error with the slides' own ids in its text, for people."""
        cause, fix = error.cause, error.fix
        for name, slide_id in self.real.items():
            if name in cause:
                cause = cause.replace(name, slide_id)
        renamed = type(error).__new__(type(error))
        SlideseekError.__init__(renamed, cause, fix)
        return renamed


class OpaqueBags(Sequence[Bag]):
    """The bags of some slides as plugins see them; each is read when it is asked for."""

    def __init__(self, opaque: OpaqueIds, slide_ids: Sequence[str]) -> None:
        self._opaque = opaque
        self._ids = slide_ids

    def __len__(self) -> int:
        return len(self._ids)

    @overload
    def __getitem__(self, at: int) -> Bag: ...

    @overload
    def __getitem__(self, at: slice) -> OpaqueBags: ...

    def __getitem__(self, at: int | slice) -> Bag | OpaqueBags:
        if isinstance(at, slice):
            return OpaqueBags(self._opaque, self._ids[at])
        return self._opaque.bag(self._ids[at])
