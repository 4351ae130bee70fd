"""What the four deep Fisher encoders share: options, training, coding, files."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch

from slideseek.digests import digest_bytes
from slideseek.errors import NotFittedError, SlideseekError
from slideseek.interfaces import BatchEncoder, Checkpointed, Progress
from slideseek.types import Bag, Code, CodeKind, CodeSpec, Float64
from slideseek_components.encoders.attribution import check_comparable
from slideseek_components.encoders.deep.checkpoint import LogRow, write_log
from slideseek_components.encoders.deep.coder import Coder
from slideseek_components.encoders.deep.device import Device, reproducible, resolve
from slideseek_components.encoders.deep.kept_entries import learn_entries
from slideseek_components.encoders.deep.model import Model
from slideseek_components.encoders.deep.network import CVAE, Activation, Inputs
from slideseek_components.encoders.deep.settings import (
    Precision,
    Preset,
    Schedule,
    Selection,
    Settings,
    Statistics,
    resolved,
)
from slideseek_components.encoders.deep.slide_gradients import Values
from slideseek_components.encoders.deep.trainer import Trainer
from slideseek_components.encoders.deep.training_set import TrainingSet, survey
from slideseek_components.encoders.model_file import deciding_options
from slideseek_components.encoders.normalise import signed_root, unit
from slideseek_components.encoders.projection.options import Binarise, By, Kind, ProjectorOptions
from slideseek_components.encoders.projection.projector import Projector, TrainingCode, projected_spec


@dataclass
class DeepFisher(Checkpointed, BatchEncoder, ABC):
    """Encode a slide by the gradient of a conditioned variational autoencoder's reconstruction loss.

    Hemati, Kalra, Babaie, Tizhoosh, "Learning binary and sparse permutation-invariant representations for fast and
    memory efficient whole slide image search". After construction every option has a value.

    preset: `paper` uses the paper's values, `best` those that worked best on real features; an option that is not set
    takes its value from it. sites, labels: how many the network can distinguish; sites = 0 is unconditioned (codes of
    all sites are comparable), labels = 0 has no classifier. hidden, latent, activation: the network. standardise: zero
    mean and unit variance per feature. clip: then limit features to this absolute value, 0 for no limit. lambda_rec,
    lambda_kl, lambda_cls: weights of Eq. 7 (lambda 1 to 3). kl_warmup: epochs over which the KL term grows to its
    weight. epochs, batch_size, learning_rate, weight_decay, schedule: Adam. steps: stop after the epoch that reaches
    this many steps, 0 for no limit. validation: share of the patients held out. patience: stop after this many epochs
    without a better loss on them and take the best weights, 0 to never stop.
    layers: whose gradients the code may contain (such as `decoder` or `encoder.0`), all if empty. selection: keep the
    entries that vary most over training slides, or that separate the classes best. statistics: choose, centre and scale
    over the training slides of the same `site` (codes are then comparable only within a site; a site with one slide
    uses those of all), or over `all`. centre: subtract the training mean. scale: divide by the training standard
    deviation. projection, by, shrinkage, unprojected, dimensions, binarise: project the normalised gradient as encoder
    `projected` does; `none` for the gradient itself. pool: patches the shuffle pool holds in memory. threads: CPU
    threads for training; the last bits of the weights depend on it (encoding uses all threads PyTorch may use, and no
    bit depends on them). precision: of encoding. amp: train in bfloat16 on CUDA. device: where to run.
    """

    code_revision: ClassVar[int] = 3

    preset: Preset = "paper"
    sites: int | None = None
    labels: int | None = None
    hidden: tuple[int, ...] | None = None
    latent: int | None = None
    activation: Activation | None = None
    standardise: bool | None = None
    clip: float | None = None
    lambda_rec: float | None = None
    lambda_kl: float | None = None
    lambda_cls: float | None = None
    kl_warmup: int | None = None
    epochs: int | None = None
    steps: int | None = None
    batch_size: int | None = None
    learning_rate: float | None = None
    weight_decay: float | None = None
    schedule: Schedule | None = None
    validation: float | None = None
    patience: int | None = None
    layers: tuple[str, ...] | None = None
    selection: Selection | None = None
    statistics: Statistics | None = None
    centre: bool | None = None
    scale: bool | None = None
    projection: Kind | None = None
    by: By | None = None
    shrinkage: float | None = None
    unprojected: float | None = None
    dimensions: int | None = None
    binarise: Binarise | None = None
    seed: int = 0
    pool: int = 16_384
    threads: int = 1
    precision: Precision = "float32"
    amp: bool = False
    device: Device = field(default="auto", metadata={"affects_result": False})
    settings_: Settings = field(init=False, repr=False, compare=False)
    model_: Model | None = field(init=False, repr=False, compare=False, default=None)
    log_: list[LogRow] = field(init=False, repr=False, compare=False, default_factory=list)
    coder_: Coder | None = field(init=False, repr=False, compare=False, default=None)
    projector_: Projector | None = field(init=False, repr=False, compare=False, default=None)

    name: ClassVar[str]
    kind: ClassVar[CodeKind]

    def __post_init__(self) -> None:
        for option, least in (("seed", 0), ("pool", 1), ("threads", 1)):
            if getattr(self, option) < least:
                raise ValueError(f"{option}: at least {least}, not {getattr(self, option)}")
        if self.precision not in ("float32", "float64"):
            raise ValueError(f"precision: float32 or float64, not {self.precision!r}")
        if self.device not in ("auto", "cpu", "cuda", "mps"):
            raise ValueError(f"device: auto, cpu, cuda or mps, not {self.device!r}")
        given = {item.name: getattr(self, item.name) for item in fields(self) if item.init}
        self.settings_ = resolved(self.preset, given | {"keep": self._keep()})
        if self.kind == "bits" and self.settings_.projection != "none":
            self.settings_ = replace(self.settings_, keep=0)  # `bits` are then those of the projected code
        self._projection()
        if self.amp and (self.settings_.lambda_sparse or self.settings_.lambda_binary):
            raise ValueError(
                "amp: cannot be used with lambda_sparse or lambda_binary, whose second derivatives need float32"
            )
        for item in fields(self):
            if item.init and item.name in Settings.__dataclass_fields__:
                setattr(self, item.name, getattr(self.settings_, item.name))

    @abstractmethod
    def _keep(self) -> int:
        """Return how many entries of the gradient the code contains, 0 for all."""

    def _bits(self) -> int:
        """Return how many bits a projected code has, 0 for floats."""
        return 0

    def _floats(self, values: Values) -> Float64:
        """Return the float code that is projected: signed root and unit length of the values (M,)."""
        return unit(signed_root(values.astype(np.float64)))

    @abstractmethod
    def _code(self, bag: Bag, values: Values) -> Code:
        """Turn the centred and scaled values, (M,), into the code of `bag`."""

    def spec(self, width: int) -> CodeSpec:
        """Return one row with the number of entries kept, or else of parameters in the chosen layers."""
        entries = self.settings_.coded_entries(width)
        if self.settings_.keep > entries:
            raise SlideseekError(
                f"{self.name} cannot keep {self.settings_.keep} of {entries} gradient entries",
                f"set {'bits' if self.kind == 'bits' else 'keep'} = {entries} or less, or make the network larger",
            )
        projection = self._projection()
        if projection:
            return projected_spec(projection, self.settings_.keep or entries)
        return CodeSpec(self.kind, self.settings_.keep or entries)

    def fit(self, bags: Sequence[Bag], labels: Sequence[str], groups: Sequence[str]) -> None:
        """Train the network on the patches, then learn from the training slides which entries to keep."""
        self._fit(None, bags, labels, groups, None)

    def fit_in(
        self,
        folder: Path,
        bags: Sequence[Bag],
        labels: Sequence[str],
        groups: Sequence[str],
        progress: Progress | None = None,
    ) -> None:
        """Learn like `fit`, with a checkpoint in `folder` every epoch; see `Checkpointed`."""
        self._fit(folder, bags, labels, groups, progress)

    def encode(self, bag: Bag) -> Code:
        """Return the code, with the same bits for any order of the patches and any number of threads."""
        return self.encode_many([bag])[0]

    def encode_many(self, bags: Sequence[Bag]) -> list[Code]:
        """Return the codes of many bags, small ones sharing a pass through the network."""
        coder = self._coder()
        threads = coder.threads
        with reproducible(1):
            return [self._finish(bag, values) for bag, values in zip(bags, coder.values(bags, threads))]

    def gradient(self, bag: Bag) -> Float64:
        """Return the mean gradient of Eq. 15 over the chosen layers, before any selection: float64 (entries,)."""
        coder = self._coder()
        threads = coder.threads
        with reproducible(1):
            return next(coder.whole([bag], threads)).astype(np.float64)

    def save(self, folder: Path) -> None:
        """Write the network and what was learnt from its gradients into the existing empty `folder`."""
        model = self._model()
        model.write(folder, self.name, deciding_options(self))
        write_log(folder, self.log_)
        if self.projector_:
            (folder / "projection").mkdir()
            self.projector_.save(folder / "projection", deciding_options(self), model.width)

    def load(self, folder: Path) -> None:
        """Restore what `save` wrote."""
        model, projection = Model.read(folder, self.name, deciding_options(self), self.settings_), self._projection()
        projector = None
        if projection:
            projector, _ = Projector.load(folder / "projection", projection, deciding_options(self))
        self.model_, self.projector_ = model, projector
        self.coder_, self.log_ = None, []

    def space_of(self, bag: Bag) -> str:
        """Return the space of the code of `bag`: its site where codes of different sites are not comparable."""
        return bag.site if self._model().site_names else ""

    def _fit(
        self,
        folder: Path | None,
        bags: Sequence[Bag],
        labels: Sequence[str],
        groups: Sequence[str],
        progress: Progress | None,
    ) -> None:
        settings, device = self.settings_, resolve(self.device)
        if self.amp and device.type != "cuda":
            raise SlideseekError(f"amp = true needs a CUDA device, not {device.type}", "set amp = false")
        known = survey(
            bags,
            labels,
            groups,
            with_sites=bool(settings.sites or self.settings_.by_site),
            with_labels=settings.classifies or (settings.selection == "separation" and bool(settings.keep)),
            validation=settings.validation,
            seed=self.seed,
        )
        if settings.sites:
            _fits("sites", settings.sites, known.site_names)
        if settings.classifies:
            _fits("labels", settings.labels, known.label_names)
        self.spec(known.width)
        plain = Inputs.plain(known.width, settings.clip)
        inputs = Inputs(known.shift, known.scale, settings.clip) if settings.standardise else plain
        network = CVAE.seeded(self.seed, settings.shape(known.width), settings.activation)
        trainer = Trainer(network, settings, inputs, bags, known, self.seed, self.pool, device, self.amp)
        with reproducible(self.threads):
            log = trainer.run(folder, self._fingerprint(known), progress)
        coder = Coder.on(device, self.name, Model(network, inputs, known.site_names, {}), settings, self.precision)
        threads = coder.threads

        def gradients(which: Sequence[int]) -> Iterator[tuple[str, Values]]:
            for i, _, gradient in coder.of_training(bags, which, threads, whole=True):
                yield labels[i], gradient

        with reproducible(1):
            kept = learn_entries(gradients, labels, known, settings)
            coder = coder.keeping(kept)
            projector = self._learn_projection(coder, threads, bags, labels, groups)
        self.model_ = Model(network.cpu(), inputs, known.site_names, kept)
        self.log_, self.coder_, self.projector_ = log, coder, projector

    def _projection(self) -> ProjectorOptions | None:
        """Return how the normalised gradient is projected, None if it is not."""
        own = self.settings_
        if own.projection == "none":
            return None
        bits = self._bits()
        return ProjectorOptions(
            own.projection, own.by, own.shrinkage, own.unprojected, own.dimensions, bits, own.binarise, self.seed
        )

    def _learn_projection(
        self, coder: Coder, threads: int, bags: Sequence[Bag], labels: Sequence[str], groups: Sequence[str]
    ) -> Projector | None:
        """Learn the projection from the normalised gradients of the training slides, one at a time."""
        projection = self._projection()
        if projection is None:
            return None

        def codes(which: Sequence[int]) -> Iterator[TrainingCode]:
            for i, bag, values in coder.of_training(bags, which, threads):
                yield TrainingCode(i, self._floats(values), bag.site)

        return Projector.learn(projection, codes, labels, groups)

    def _finish(self, bag: Bag, values: Values) -> Code:
        """Turn the centred and scaled values, (M,), into the code of `bag`, projected or not."""
        if self.projector_ is None:
            return self._code(bag, values)
        return Code(bag.slide_id, self.projector_.rows(self._floats(values)), self.space_of(bag))

    def _projected_contributions(self, projector: Projector, bag: Bag, code: Code) -> Float64:
        """Split the similarity of projected codes; the gradient is the mean of its patches' up to a factor."""
        mine, shares = self.encode(bag), self._coder().shares(bag)
        check_comparable(bag, mine, code)
        with reproducible(1):
            mean = shares.mean()
            scale = 1.0 if shares.kept.scale is None else shares.kept.scale.astype(np.float64)
            floats = self._floats(mean / scale)
            factor = np.divide(floats, mean, out=np.zeros_like(mean), where=mean != 0)
            return projector.attribute(floats, mine.rows, code.rows, lambda weights: shares.weigh(weights * factor))

    def _fingerprint(self, known: TrainingSet) -> str:
        """Return the digest of what affects the weights: a finished run can be reused for any choice of bits."""
        run = [self.seed, self.pool, self.threads, self.amp, torch.__version__]
        options = json.dumps([self.settings_.training_options(), run], sort_keys=True)
        return digest_bytes(f"{options} {known.fingerprint}".encode())

    def _model(self) -> Model:
        if self.model_ is None:
            raise NotFittedError(self.name)
        return self.model_

    def _coder(self) -> Coder:
        if self.coder_ is None:
            self.coder_ = Coder.on(resolve(self.device), self.name, self._model(), self.settings_, self.precision)
        return self.coder_


def _fits(option: str, most: int, names: Sequence[str]) -> None:
    if len(names) > most:
        raise SlideseekError(
            f"the training slides have {len(names)} {option}, the network has room for {most}",
            f"set {option} = {len(names)} or more",
        )
