"""Compare every encoder on real features: majority of the 3 nearest slides, macro F1, patients apart.

    python -m bench.encoders --seeds 5

A seed draws the folds and trains the networks. Everything that is learnt (weights, standardisation, centring, choice of
bits) is learnt from the training folds; the slides of the test fold are searched for among the training slides. A
patient is never on both sides. Only slides whose class has a training slide at all are counted. `+-` is the standard
error of the mean over seeds, by a bootstrap over patients; `vs` columns are paired differences to that encoder with
their own standard error. A row is left out where the network has fewer gradients than the bits asked for.

The networks of preset `paper` get standardised inputs, are large and train for 150 epochs: hours on two cores.
`--keep DIR` keeps what was answered, so that the table can be made in parts and goes on where it was stopped;
`--paper-epochs` shortens their training, and the rows then say so.

`--change 'layers = []'` adds a row: deep-sbfv, preset best, 5,000 bits, with that option changed (several with `;`;
`preset = "paper"; selection = "separation"` changes the other preset).
`--variants` adds rows that read the same networks otherwise: several side by side; the values of the 5,000 entries
projected on the directions that n training slides span, all n - 1 or half of them, then rotated (ITQ) or whitened.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from bench.encoder_variants import Joined, Projected
from slideseek.errors import SlideseekError
from slideseek.interfaces import Encoder, Index, Trainable, implements
from slideseek.searching.votes import majority
from slideseek.types import Bag
from slideseek_components.encoders.bovw import Bovw
from slideseek_components.encoders.c_gmm_fv import ConditionedGmmFisher
from slideseek_components.encoders.deep.settings import CODING
from slideseek_components.encoders.deep_bfv import DeepBinaryFisherVector
from slideseek_components.encoders.deep_fv import DeepFisherVector
from slideseek_components.encoders.deep_sbfv import DeepSparseBinaryFisherVector
from slideseek_components.encoders.deep_sfv import DeepSparseFisherVector
from slideseek_components.encoders.gmm_fv import GmmFisher
from slideseek_components.encoders.max import Max
from slideseek_components.encoders.mean import Mean
from slideseek_components.encoders.vlad import Vlad
from slideseek_components.encoders.yottixel import Yottixel
from slideseek_components.indexes.cosine import Cosine
from slideseek_components.indexes.hamming import Hamming

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
NEAREST = 3
BITS = (128, 500, 5_000, 40_000)
RESAMPLES = 1000


@runtime_checkable
class Keeping(Protocol):
    """What can train in a folder and go on there; variants do it without being plugins that can be saved."""

    def fit_in(self, folder: Path, bags: Sequence[Bag], labels: Sequence[str], groups: Sequence[str]) -> None: ...


@dataclass(frozen=True)
class Task:
    """A retrieval task: `labels` are given to `fit`, `targets` are what is searched for.

    features: the name of the feature set; tasks of one set share folds and trained networks. vertical: only slides of
    the query's site are candidates (and conditioned encoders apply).
    """

    name: str
    features: str
    bags: list[Bag]
    labels: list[str]
    targets: list[str]
    groups: list[str]
    vertical: bool = False


@dataclass(frozen=True)
class Entry:
    """One row of the table: an encoder, and where it applies.

    run: entries with the same run differ only in how the trained network is read, and share one training.
    """

    name: str
    make: Callable[[int, int], Encoder]
    run: str = ""
    vertical_only: bool = False


def load_tasks(data: Path, names: Sequence[str]) -> list[Task]:
    """Load the feature sets: `ucsb`, `musk1`, and of the atlas the search for a site and, within it, for a label."""
    tasks = []
    for name, file in (("ucsb", "ucsb_breast_cancer"), ("musk1", "musk1")):
        arrays = np.load(data / "bags" / f"{file}.npz")
        bags, labels = [], []
        for number in np.unique(arrays["bag"]):
            rows = arrays["bag"] == number
            bags.append(_bag(f"{name}-{number}", arrays["x"][rows]))
            labels.append(str(arrays["y"][rows][0]))
        tasks.append(Task(name, name, bags, labels, labels, [bag.slide_id for bag in bags]))
    arrays = np.load(data / "bags" / "atlas_lite2.npz")
    sites, labels = [str(site) for site in arrays["site"]], [str(label) for label in arrays["label"]]
    bags = [_bag(str(name), arrays["x"][arrays["bag"] == i], sites[i]) for i, name in enumerate(arrays["slide_id"])]
    groups = [str(patient) for patient in arrays["patient"]]
    tasks.append(Task("atlas-site", "atlas", bags, labels, sites, groups))
    tasks.append(Task("atlas-label", "atlas", bags, labels, labels, groups, vertical=True))
    return [task for task in tasks if not names or task.name in names]


def entries(paper_epochs: int, changes: Sequence[str] = (), variants: bool = False) -> list[Entry]:
    """Return the rows of the table; `make` takes the seed and the number of labels.

    changes: options of deep-sbfv to change, each TOML text, for a row more at 5,000 bits; of preset best unless they
    name another.
    """
    rows = [
        Entry("yottixel", lambda seed, labels: Yottixel()),
        Entry("mean", lambda seed, labels: Mean(l2=True)),
        Entry("max", lambda seed, labels: Max(l2=True)),
        Entry("bovw", lambda seed, labels: Bovw(seed=seed)),
        Entry("vlad", lambda seed, labels: Vlad(seed=seed)),
        Entry("gmm-fv", lambda seed, labels: GmmFisher(seed=seed)),
        Entry("c-gmm-fv", lambda seed, labels: ConditionedGmmFisher(seed=seed), vertical_only=True),
    ]
    kinds: dict[str, Any] = {
        "deep-fv": DeepFisherVector,
        "deep-sfv": DeepSparseFisherVector,
        "deep-bfv": DeepBinaryFisherVector,
        "deep-sbfv": DeepSparseBinaryFisherVector,
    }
    for preset in ("paper", "best"):
        title, common = preset_options(preset, paper_epochs)
        for name, kind in kinds.items():
            conditions: list[tuple[str, dict[str, Any]]] = [("", {"sites": 0})]
            if preset == "paper":
                conditions.append((" conditioned", {}))
            for condition, given in conditions:
                for bits in (0, *BITS) if "bfv" in name else (0,):
                    width = {"bits": bits} if "bfv" in name else {}
                    size = f" {bits} bits" if bits else " all bits" if width else ""
                    make = partial(_deep, kind, common | given | width)
                    run = f"{name} {title}{condition}"
                    rows.append(Entry(f"{run}{size}", make, run, bool(condition)))
    if variants:
        rows += _variants()
    for change in changes:
        options = tomllib.loads(change.replace(";", "\n"))
        title, common = preset_options(options.pop("preset", "best"), paper_epochs)
        trained = {key: value for key, value in options.items() if key not in CODING}
        make = partial(_deep, DeepSparseBinaryFisherVector, common | {"sites": 0, "bits": 5_000} | options)
        run = f"deep-sbfv {title}" + (f" {json.dumps(trained)}" if trained else "")
        said = "; ".join(part.strip() for part in change.split(";") if not part.strip().startswith("preset"))
        rows.append(Entry(f"deep-sbfv {title} 5000 bits, {said}", make, run))
    return rows


def preset_options(name: str, paper_epochs: int) -> tuple[str, dict[str, Any]]:
    """Return what rows of a preset are called, and their options."""
    if name != "paper":
        return name, {"preset": name}
    # Features of very different scales make the paper's networks diverge: on all sets they are standardised.
    options: dict[str, Any] = {"preset": "paper", "standardise": True, "clip": 5.0}
    if not paper_epochs:
        return "paper", options
    return f"paper ({paper_epochs} epochs)", options | {"epochs": paper_epochs}


def _variants() -> list[Entry]:
    """Return rows of what `encoder_variants` makes of deep-sbfv, preset best, at 5,000 bits."""

    def network(seed: int, labels: int, bits: int) -> DeepSparseBinaryFisherVector:
        return DeepSparseBinaryFisherVector(preset="best", labels=labels, bits=bits, seed=seed, device="cpu")

    def joined(count: int, seed: int, labels: int) -> Encoder:
        return Joined([network(seed + 1000 * i, labels, 5_000 // count) for i in range(count)])

    def projected(whiten: bool, share: float, seed: int, labels: int) -> Encoder:
        return Projected(network(seed, labels, 5_000), whiten, share, seed)

    run = "deep-sbfv best"
    return [
        *(Entry(f"{run} 5000 bits of {count} networks", partial(joined, count), run) for count in (2, 4)),
        *(
            Entry(f"{run} {what}, {share:.0%} of n - 1", partial(projected, whiten, share), run)
            for whiten, what in ((False, "rotated bits (ITQ)"), (True, "whitened floats"))
            for share in (1.0, 0.5)
        ),
    ]


def _deep(kind: type[Encoder], options: dict[str, Any], seed: int, labels: int) -> Encoder:
    return kind(**({"labels": labels} | options | {"seed": seed, "device": "cpu"}))


def folds(task: Task, count: int, seed: int) -> NDArray[np.int64]:
    """Return int64 (slides,), the fold of each: patients dealt out class by class; count 0 leaves one patient out."""
    patients = sorted(set(task.groups))
    if count == 0:
        return np.array([patients.index(group) for group in task.groups])
    first = dict(reversed(list(zip(task.groups, task.labels))))
    order = np.random.default_rng([seed, 7]).permutation(len(patients))
    dealt = sorted(order, key=lambda i: first[patients[i]])
    fold = {patients[i]: position % count for position, i in enumerate(dealt)}
    return np.array([fold[group] for group in task.groups])


def predict(task: Task, entry: Entry, seed: int, count: int, cache: Path) -> list[str]:
    """Return the majority of the nearest for every slide, "" where a slide is not counted or finds nothing."""
    answers = [""] * len(task.bags)
    fold = folds(task, count, seed)
    for number in range(int(fold.max()) + 1):
        train, test = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
        queries = [int(i) for i in test if _counted(task, int(i), train)]
        if not queries:
            continue
        encoder = entry.make(seed, len(set(task.labels)))
        fit(encoder, task, train, cache / f"{task.features}-{file_name(entry.run)}-{seed}-{count}-{number}")
        index: Index = Hamming() if encoder.spec(task.bags[0].width).kind == "bits" else Cosine()
        index.add([encoder.encode(task.bags[i]) for i in train])
        for i in queries:
            code = encoder.encode(task.bags[i])
            near = index.search(code, NEAREST, _among(task, i, index.ids))
            place = {bag.slide_id: j for j, bag in enumerate(task.bags)}
            answers[i] = majority([task.targets[place[hit.slide_id]] for hit in near])
    return answers


def answered(task: Task, entry: Entry, seed: int, count: int, cache: Path) -> list[str]:
    """Return `predict`, kept in `cache`."""
    file = cache / f"{task.name}-{file_name(entry.name)}-{seed}-{count}.json"
    if not file.exists():
        unfinished = file.with_suffix(".unfinished")
        unfinished.write_text(json.dumps(predict(task, entry, seed, count, cache)))
        unfinished.replace(file)
    answers: list[str] = json.loads(file.read_text())
    return answers


def macro_f1(truth: Sequence[str], answers: Sequence[str], weights: NDArray[np.float64]) -> float:
    """Return the mean over classes of F1 in %, slides weighted (for the bootstrap)."""
    scores = []
    for name in sorted(set(truth)):
        true = np.array([t == name for t in truth])
        said = np.array([a == name for a in answers])
        found = float(weights[true | said].sum())
        if float(weights[true].sum()):
            both = float(weights[true & said].sum())
            scores.append(2 * both / (float(weights[true].sum()) + float(weights[said].sum())) if found else 0.0)
    return 100 * float(np.mean(scores)) if scores else 0.0


@dataclass(frozen=True)
class Result:
    """Macro F1 of one encoder on one task: the mean over seeds, and over bootstrap samples of the patients."""

    mean: float
    resampled: NDArray[np.float64]

    def against(self, other: Result) -> str:
        """Return the paired difference and its standard error."""
        return f"{self.mean - other.mean:+6.1f} +-{float((self.resampled - other.resampled).std()):4.1f}"


def score(task: Task, answers: list[list[str]], counted: list[list[bool]]) -> Result:
    """Score the answers of every seed; patients are resampled with the same draws for every encoder."""
    patients = sorted(set(task.groups))
    member = np.array([patients.index(group) for group in task.groups])
    rng = np.random.default_rng(0)
    draws = [np.ones(len(patients))] + [
        np.bincount(rng.integers(len(patients), size=len(patients)), minlength=len(patients)).astype(np.float64)
        for _ in range(RESAMPLES)
    ]
    kept = [np.flatnonzero(mask) for mask in counted]
    values = [
        np.mean(
            [
                macro_f1([task.targets[i] for i in rows], [said[i] for i in rows], draw[member[rows]])
                for said, rows in zip(answers, kept)
            ]
        )
        for draw in draws
    ]
    return Result(float(values[0]), np.array(values[1:]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help="folder that holds bags/*.npz")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--folds", type=int, default=5, help="0 leaves one patient out at a time")
    parser.add_argument(
        "--tasks", nargs="*", default=[], help="ucsb, musk1, atlas-site, atlas-label; all when left out"
    )
    parser.add_argument(
        "--keep", type=Path, help="keep trained networks and answers in this folder, and use those there"
    )
    parser.add_argument("--paper-epochs", type=int, default=0, help="epochs of preset paper instead of its 150")
    parser.add_argument("--change", action="append", default=[], metavar="TOML", help="a row with options changed")
    parser.add_argument("--variants", action="store_true", help="rows of several networks, rotated and whitened codes")
    parser.add_argument("--figure", type=Path, help="draw quality against the number of bits into this file")
    parser.add_argument("--encoders", nargs="*", default=[], help="keep rows whose name starts with one of these")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        cache = given.keep or Path(temporary)
        cache.mkdir(parents=True, exist_ok=True)
        rows = [
            row
            for row in entries(given.paper_epochs, given.change, given.variants)
            if not given.encoders or row.name.startswith(tuple(given.encoders))
        ]
        scores = {
            task.name: print_table(task, rows, given.seeds, given.folds, cache)
            for task in load_tasks(given.data, given.tasks)
        }
        if given.figure:
            from bench.encoder_figure import draw  # only this needs matplotlib

            draw(scores, BITS, given.figure)


def print_table(task: Task, rows: Sequence[Entry], seeds: int, count: int, cache: Path) -> dict[str, Result]:
    """Print the rows that apply to a task as they are done, and return their scores by name."""
    patients, classes = len(set(task.groups)), len(set(task.targets))
    print(f"\n{task.name}: {len(task.bags)} slides, {patients} patients, {classes} classes")
    print(f"{'':54s} macro F1     seconds   vs yottixel     vs gmm-fv")
    counted = [_counted_slides(task, count, seed) for seed in range(seeds)]
    found: dict[str, Result] = {}
    for entry in rows:
        if (entry.vertical_only and not task.vertical) or not _fits(entry, task):
            continue
        start = time.process_time()
        answers = [answered(task, entry, seed, count, cache) for seed in range(seeds)]
        seconds = time.process_time() - start
        result = found[entry.name] = score(task, answers, counted)
        versus = "   ".join(result.against(found[name]) for name in ("yottixel", "gmm-fv") if name in found)
        error = float(result.resampled.std())
        print(f"{entry.name:54s} {result.mean:5.1f} +-{error:4.1f} {seconds:9.1f}   {versus}", flush=True)
    return found


def file_name(name: str) -> str:
    """Return `name` with what does not belong in the name of a file replaced."""
    return "".join(c if c.isalnum() or c in "-.()" else "_" for c in name)


def _bag(name: str, features: NDArray[Any], site: str = "") -> Bag:
    return Bag(name, features.astype(np.float32), np.zeros((len(features), 2), dtype=np.int32), site)


def _counted(task: Task, i: int, train: NDArray[np.int64]) -> bool:
    return any(
        task.targets[j] == task.targets[i] and (not task.vertical or task.bags[j].site == task.bags[i].site)
        for j in train
    )


def _counted_slides(task: Task, count: int, seed: int) -> list[bool]:
    fold = folds(task, count, seed)
    return [_counted(task, i, np.flatnonzero(fold != fold[i])) for i in range(len(task.bags))]


def _among(task: Task, i: int, ids: Sequence[str]) -> NDArray[np.bool_]:
    site = {bag.slide_id: bag.site for bag in task.bags}
    return np.array([not task.vertical or site[name] == task.bags[i].site for name in ids], dtype=np.bool_)


def _fits(entry: Entry, task: Task) -> bool:
    try:
        entry.make(0, len(set(task.labels))).spec(task.bags[0].width)
    except SlideseekError:
        return False
    return True


def fit(encoder: Encoder, task: Task, train: NDArray[np.int64], cache: Path) -> None:
    """Fit an encoder that can be on the slides numbered `train`; what it trains is kept in the folder `cache`."""
    bags = [task.bags[i] for i in train]
    labels, groups = [task.labels[i] for i in train], [task.groups[i] for i in train]
    if isinstance(encoder, Keeping):
        cache.mkdir(exist_ok=True)
        encoder.fit_in(cache, bags, labels, groups)
    elif implements(encoder, Trainable):
        encoder.fit(bags, labels, groups)


if __name__ == "__main__":
    main()
