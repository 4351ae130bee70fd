"""Fit fresh encoders on training slides alone; a training that was interrupted is resumed from its checkpoint."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from slideseek.archive.files import write_text
from slideseek.boundary import Owner
from slideseek.digests import digest
from slideseek.engine import resolved_settings
from slideseek.errors import DamagedError, PluginError, SlideseekError
from slideseek.interfaces import Checkpointed, Encoder, Trainable, implements
from slideseek.types import SlideRecord
from slideseek_apps.bench.grid import CellPlan
from slideseek_apps.bench.opaque_ids import OpaqueBags, OpaqueIds

OnEpoch = Callable[[Mapping[str, float]], None]

_SPENT = "seconds.json"
_OPTIONS = "options.json"


class Fitter:
    """Fit the encoder of a cell on some slides; trainings with checkpoints are kept in `folder`.

    Variants that differ only in how a trained network is read share one training: an encoder that finds a finished
    checkpoint of its own training uses it, whichever variant made it.
    """

    def __init__(self, plan: CellPlan, opaque: OpaqueIds, folder: Path, on_epoch: OnEpoch) -> None:
        self._plan, self._opaque, self._folder, self._on_epoch = plan, opaque, folder, on_epoch
        self.seconds = 0.0
        self.training: Path | None = None

    def fit(self, records: Sequence[SlideRecord]) -> Encoder:
        """Return a fresh encoder; one that learns has learnt from these slides and no others.

        `seconds` then includes the wall time of fitting, also that of a training that was already finished. `training`
        is the folder of the last checkpoint, with the training log.
        """
        encoder = self._make()
        if not implements(encoder, Trainable):
            return encoder
        bags = OpaqueBags(self._opaque, [record.id for record in records])
        labels, groups = [record.label for record in records], [record.patient for record in records]
        try:
            if implements(encoder, Checkpointed):
                return self._checkpointed(bags, labels, groups, records)
            started = time.perf_counter()
            self._owner.call("fit()", encoder.fit, bags, labels, groups)
            self.seconds += time.perf_counter() - started
        except SlideseekError as error:
            raise self._explained(error) from error
        return encoder

    def _checkpointed(
        self, bags: OpaqueBags, labels: Sequence[str], groups: Sequence[str], records: Sequence[SlideRecord]
    ) -> Encoder:
        slides = [[record.id, record.label, record.patient, self._opaque.sites[record.id]] for record in records]
        use = self._plan.variant.encoder.use
        home = self._folder / digest([use, self._opaque.dataset.fingerprint, self._plan.seed, slides])[:24]
        for place in self._places(home):
            encoder = self._make()
            if not implements(encoder, Checkpointed):
                raise self._owner.wrong("has fit_in() only sometimes")
            fresh = not place.exists()
            place.mkdir(parents=True, exist_ok=True)
            if fresh:
                write_text(place.with_name(f"{place.name}.{_OPTIONS}"), json.dumps(self._settings(), sort_keys=True))
            spent = _Clock(place.with_name(f"{place.name}.{_SPENT}"), self._on_epoch)
            try:
                self._owner.call("fit_in()", encoder.fit_in, place, bags, labels, groups, spent.epoch)
            except DamagedError:
                shutil.rmtree(place)
                place.mkdir()
                encoder = self._make()
                again = encoder.fit_in  # type: ignore[attr-defined]
                self._owner.call("fit_in()", again, place, bags, labels, groups, spent.epoch)
            except SlideseekError as error:
                if fresh or isinstance(error, PluginError):
                    shutil.rmtree(place)
                    raise
                continue  # the checkpoint is of another training
            self.seconds += spent.total()
            self.training = place
            return encoder
        raise SlideseekError(f"no room for the training of {self._plan.name} in {home}", "remove the folder")

    def _places(self, home: Path) -> list[Path]:
        """Return the training folders to try: those of the same options first, a new one last."""
        there = sorted(place for place in home.glob("[0-9]*") if place.is_dir())
        own = json.dumps(self._settings(), sort_keys=True)

        def same(place: Path) -> bool:
            options = place.with_name(f"{place.name}.{_OPTIONS}")
            return options.is_file() and options.read_text(encoding="utf-8") == own

        return [*sorted(there, key=lambda place: not same(place)), home / f"{len(there):03d}"]

    def _settings(self) -> dict[str, Any]:
        return resolved_settings(self._make(), self._plan.variant.encoder, self._plan.variant.registry)

    def _make(self) -> Encoder:
        return self._plan.make_encoder()

    @property
    def _owner(self) -> Owner:
        return self._plan.owner("encoder")

    def _explained(self, error: SlideseekError) -> SlideseekError:
        """Return an error with real slide ids; one about the site says that horizontal protocols hide it."""
        named = self._opaque.with_real_ids(error)
        if self._plan.protocol.mode == "horizontal" and "site" in named.cause:
            return SlideseekError(
                named.cause,
                "a horizontal protocol asks for the site, so bags come without it: give the engine protocols = [...]"
                " with the vertical ones only",
            )
        return named


class _Clock:
    """Count the seconds of epochs, over all attempts, in a file beside the checkpoint."""

    def __init__(self, path: Path, on_epoch: OnEpoch) -> None:
        self._path, self._on_epoch = path, on_epoch
        self._started = self._last = time.perf_counter()
        self._before = json.loads(path.read_text())["seconds"] if path.exists() else 0.0
        self._trained = 0.0

    def epoch(self, metrics: Mapping[str, float]) -> None:
        """Note the end of an epoch."""
        now = time.perf_counter()
        self._trained += now - self._last
        self._last = now
        write_text(self._path, json.dumps({"seconds": self._before + self._trained}))
        self._on_epoch(metrics)

    def total(self) -> float:
        """Return the seconds of all epochs so far and, of this attempt, of what came after them."""
        return float(self._before) + time.perf_counter() - self._started
