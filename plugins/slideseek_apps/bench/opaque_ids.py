"""Bags as encoders see them: under opaque ids, and without the site where the site is the answer."""

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
    """Replace slide ids before plugins see them.

    Slide ids often contain a diagnosis, and equal distances are ordered by id: with opaque ids neither can help. In a
    horizontal protocol the site is the answer, so bags come without it.

    ids: opaque ids by slide id. real: slide ids by opaque id. sites: by slide id, the site of its bag.
    """

    dataset: Dataset
    ids: Mapping[str, str]
    real: Mapping[str, str]
    sites: Mapping[str, str]

    @classmethod
    def make(cls, dataset: Dataset, records: Sequence[SlideRecord], protocol: Protocol) -> OpaqueIds:
        """Make opaque ids that depend on the dataset alone."""
        ids = {record.id: f"slide-{digest([dataset.fingerprint, record.id])[:16]}" for record in records}
        shown = protocol.mode == "vertical"
        sites = {record.id: record.site if shown else "" for record in records}
        return cls(dataset, ids, {name: slide_id for slide_id, name in ids.items()}, sites)

    def bag(self, slide_id: str) -> Bag:
        """Return the bag of a slide as plugins see it."""
        return replace(self.dataset.bags[slide_id], slide_id=self.ids[slide_id], site=self.sites[slide_id])

    def with_real_ids(self, error: SlideseekError) -> SlideseekError:
        """Return an error whose text has the real slide ids, for people."""
        cause, fix = error.cause, error.fix
        for name, slide_id in self.real.items():
            if name in cause:
                cause = cause.replace(name, slide_id)
        renamed = type(error).__new__(type(error))
        SlideseekError.__init__(renamed, cause, fix)
        return renamed


class OpaqueBags(Sequence[Bag]):
    """The bags of some slides as plugins see them; each is read when it is indexed."""

    def __init__(self, opaque: OpaqueIds, slide_ids: Sequence[str]) -> None:
        self._opaque = opaque
        self._slide_ids = slide_ids

    def __len__(self) -> int:
        return len(self._slide_ids)

    @overload
    def __getitem__(self, at: int) -> Bag: ...

    @overload
    def __getitem__(self, at: slice) -> OpaqueBags: ...

    def __getitem__(self, at: int | slice) -> Bag | OpaqueBags:
        if isinstance(at, slice):
            return OpaqueBags(self._opaque, self._slide_ids[at])
        return self._opaque.bag(self._slide_ids[at])
