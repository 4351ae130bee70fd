"""A trained model on its device: slides to the values of their codes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from slideseek.errors import SlideseekError
from slideseek.types import Bag
from slideseek_components.encoders.bags import finite_features
from slideseek_components.encoders.deep.contribution import PatchShares
from slideseek_components.encoders.deep.device import free_threads
from slideseek_components.encoders.deep.kept_entries import KeptEntries
from slideseek_components.encoders.deep.model import Model
from slideseek_components.encoders.deep.patch_gradients import entries_of
from slideseek_components.encoders.deep.settings import Precision, Settings
from slideseek_components.encoders.deep.slide_gradients import Gradients, SlideInput, Values, WantedEntries

_TOGETHER = 16
"""Training slides loaded at a time; small ones share a pass through the network."""


@dataclass(frozen=True)
class Coder:
    """Compute the gradients of slides, and the entries of them that codes keep.

    Callers ensure with `reproducible(1)` that bits do not depend on threads; see `Gradients`.

    name: the encoder in messages. wanted: the entries to compute, by site or under "" for all, made when first used.
    """

    name: str
    model: Model
    settings: Settings
    precision: Precision
    gradients: Gradients
    wanted: dict[str, WantedEntries] = field(default_factory=dict)

    @classmethod
    def on(cls, device: torch.device, name: str, model: Model, settings: Settings, precision: Precision) -> Coder:
        """Copy the network of `model` to a device."""
        if precision == "float64" and device.type == "mps":
            raise SlideseekError("precision = 'float64' does not exist on MPS", "set device = 'cpu'")
        network = model.copy_network().to(device, torch.float64 if precision == "float64" else torch.float32)
        gradients = Gradients(network, model.inputs, settings.coded_layers(model.width))
        return cls(name, model, settings, precision, gradients)

    def keeping(self, kept: dict[str, KeptEntries]) -> Coder:
        """Return a coder that keeps these entries, by site or under "" for all."""
        return replace(self, model=replace(self.model, kept=kept), wanted={})

    @property
    def threads(self) -> int:
        """CPU threads that may share the work now; read it before `reproducible` limits them."""
        return free_threads() if self.gradients.device.type == "cpu" else 1

    def values(self, bags: Sequence[Bag], threads: int) -> Iterator[Values]:
        """Yield the centred and scaled values (M,) of each bag; small bags share a pass through the network."""
        slides = [replace(self._input(bag), wanted=self._wanted(bag)) for bag in bags]
        for bag, mean in zip(bags, self.gradients.means(slides, threads)):
            yield self._kept(bag).apply(_finite(bag, mean))

    def whole(self, bags: Sequence[Bag], threads: int) -> Iterator[Values]:
        """Yield the mean gradient of Eq. 15 over the chosen layers, before any selection, of each bag: (entries,)."""
        return self.gradients.means([self._input(bag) for bag in bags], threads)

    def of_training(
        self, bags: Sequence[Bag], which: Sequence[int], threads: int, whole: bool = False
    ) -> Iterator[tuple[int, Bag, Values]]:
        """Yield (number, bag, values) of those slides `which` have patches, a few bags in memory at a time.

        whole: whole gradients instead of the values of codes.
        """
        for start in range(0, len(which), _TOGETHER):
            loaded = [(i, bags[i]) for i in which[start : start + _TOGETHER]]
            loaded = [(i, bag) for i, bag in loaded if len(bag)]
            found = (self.whole if whole else self.values)([bag for _, bag in loaded], threads)
            for (i, bag), values in zip(loaded, found):
                yield i, bag, values

    def shares(self, bag: Bag) -> PatchShares:
        """Return what attribution needs: always on the CPU, since it runs in float64, which some devices lack."""
        cpu = Coder.on(torch.device("cpu"), self.name, self.model, self.settings, self.precision)
        own, kept = cpu._input(bag), self._kept(bag)
        everything = np.arange(cpu.gradients.size, dtype=np.int64)
        entries = entries_of(cpu.gradients.layers, everything if kept.chosen is None else kept.chosen)
        return PatchShares(cpu.gradients, own.features, own.site, entries, kept)

    def _input(self, bag: Bag) -> SlideInput:
        """Return a bag to take the whole gradient of, after its features and its site have been checked."""
        features, site = finite_features(bag, self.model.width), self.model.site_number(bag, self.name)
        return SlideInput(features, site, WantedEntries())

    def _kept(self, bag: Bag) -> KeptEntries:
        return self.model.kept[self._statistics_of(bag)]

    def _wanted(self, bag: Bag) -> WantedEntries:
        name = self._statistics_of(bag)
        if name not in self.wanted:
            self.wanted[name] = self.gradients.wanted(self.model.kept[name].chosen)
        return self.wanted[name]

    def _statistics_of(self, bag: Bag) -> str:
        """Return which training statistics encode `bag`: those of its site, or "" for all slides."""
        return "" if "" in self.model.kept else bag.site


def _finite(bag: Bag, mean: Values) -> Values:
    """Return the mean gradient of `bag`; raise an error if the squares of its features overflowed."""
    with np.errstate(over="ignore"):
        length = np.dot(mean, mean)
    # The squared length is a cheap first check; if it overflows itself, the values are checked.
    if not np.isfinite(length) and not np.isfinite(mean).all():
        raise SlideseekError(
            f"slide {bag.slide_id!r} has features too large to take the gradient of their squared error",
            "compute its features again, or set precision = 'float64' or clip",
        )
    return mean
