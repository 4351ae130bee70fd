"""Compare all encoders on all real feature sets: one table with intervals and the top group of every column.

    python -m bench.all_encoders --keep DIR --page docs/results/all-encoders.md

Five seeds, the sets and the two protocols of `python -m bench.encoders`: trained on the archive (five folds by patient,
candidates are the training folds), and archive never seen (fitted on half of the patients, the other half is searched).
Intervals are the middle 95 % of a bootstrap over patients. The top group holds every encoder that the best one does not
clearly beat: the middle 95 % of the paired differences include zero, sites and patients drawn with replacement.

`--keep DIR` keeps the distances between slides, so that the table can be made in parts: `--sets`, `--encoders` and
`--minutes` choose a part, `--only-compute` prints no table. An encoder whose options or revision changed is computed
again. `--page` replaces the tables of a page, from the line that names this command on.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.all_encoder_entries import CONDITIONED, entries, revisions
from bench.encoder_codes import Entry, Near, distances, encode, file_name, training
from bench.encoder_scores import Ranked, rank
from bench.encoder_sets import PROTOCOLS, FeatureSet, Protocol, Split, Task, load_sets, splits, tasks_of
from bench.encoders import DATA
from slideseek.digests import digest
from slideseek.errors import SlideseekError
from slideseek.interfaces import Encoder, Trainable, implements
from slideseek.types import Code, Float64
from slideseek_apps.bench.bootstrap import Estimate, Resampled
from slideseek_apps.bench.class_sums import Statistic, collect, count, f1, macro, mean_of_queries, positions
from slideseek_apps.bench.rank_stability import Stability, rank_stability

NEIGHBOURS = 3
MARK = "<!-- Written by python -m bench.all_encoders; everything below this line is replaced. -->"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help="folder that holds bags/*.npz")
    parser.add_argument("--keep", type=Path, required=True, help="keep distances in this folder, and use those there")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--sets", nargs="*", default=[], help="ucsb, musk1, atlas, atlas2; all when left out")
    parser.add_argument("--encoders", nargs="*", default=[], help="only the rows with these names")
    parser.add_argument("--minutes", type=float, default=0, help="stop computing after this time; run again to go on")
    parser.add_argument("--only-compute", action="store_true", help="compute distances, print no table")
    parser.add_argument("--page", type=Path, help="replace the tables of this page")
    given = parser.parse_args()
    given.keep.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + 60 * given.minutes if given.minutes else float("inf")
    rows = [row for row in entries() if not given.encoders or row.name in given.encoders]
    columns = []
    for features in load_sets(given.data, given.sets):
        usable = [row for row in rows if row.name not in CONDITIONED or all(features.sites)]
        left = compute(features, usable, given.seeds, given.keep, until)
        if left:
            sys.exit(f"{features.name}: {left} fits are left; run the same command again")
        if not given.only_compute:
            columns += list(columns_of(features, usable, given.seeds, given.keep))
    if columns:
        page = "\n".join(tables([row.name for row in rows], columns, given.seeds))
        if given.page:
            before = given.page.read_text("utf-8").split(MARK)[0] if given.page.exists() else ""
            given.page.write_text(f"{before}{MARK}\n\n{page}", "utf-8")
        else:
            print(page)


def compute(features: FeatureSet, rows: Sequence[Entry], seeds: int, keep: Path, until: float) -> int:
    """Compute the distances that are not kept yet, split by split: rows that share a network train it once.

    Return how many are left at the time `until`.
    """
    left = 0
    for seed in range(seeds):
        for protocol in PROTOCOLS:
            for split in splits(features, protocol, seed):
                for row in rows:
                    file = kept_file(features, row, seed, protocol, split, keep)
                    if file.exists():
                        continue
                    if time.monotonic() > until:
                        left += 1
                        continue
                    unfinished = file.with_suffix(".unfinished.npz")
                    np.savez_compressed(unfinished, near=distances_after_fit(features, row, seed, split))
                    unfinished.replace(file)
    return left


def kept_file(features: FeatureSet, row: Entry, seed: int, protocol: Protocol, split: Split, keep: Path) -> Path:
    """Return where the distances of one fit are kept: the name changes with the options and the revision."""
    encoder = row.make(seed, len(set(features.labels)))
    named = digest([repr(encoder), *revisions(encoder)])[:12]
    return keep / file_name(f"{features.name} {row.name} {named} {seed} {protocol} {split.number}.npz")


UNTRAINED: dict[tuple[str, str], Near] = {}
"""By set and encoder, the distances of encoders that learn nothing: the same for every split."""


def distances_after_fit(features: FeatureSet, row: Entry, seed: int, split: Split) -> Near:
    """Fit an encoder on the training slides of a split, and return (slides, slides): inf for slides without a code."""
    encoder = row.make(seed, len(set(features.labels)))
    bits = encoder.spec(features.bags[0].width).kind == "bits"
    if not implements(encoder, Trainable):
        key = (features.name, repr(encoder))
        if key not in UNTRAINED:
            UNTRAINED[key] = distances(encode(encoder, features.bags), bits)
        return UNTRAINED[key]
    encoder.fit(*training(features, split.train))
    if row.name not in CONDITIONED:
        codes = encode(encoder, features.bags)
        return distances(codes, bits) if bits else cosine_distances(codes)
    codes = list(codes_of_known_sites(features, encoder))
    coded = positions([code.slide_id for code in codes], [bag.slide_id for bag in features.bags])
    near = np.full((len(features.bags), len(features.bags)), np.inf)
    near[np.ix_(coded, coded)] = distances(codes, bits)
    return near


def codes_of_known_sites(features: FeatureSet, encoder: Encoder) -> Iterator[Code]:
    """Yield the codes of the slides whose site the encoder was fitted on."""
    for bag in features.bags:
        try:
            yield encoder.encode(bag)
        except SlideseekError:
            continue


def cosine_distances(codes: Sequence[Code]) -> Near:
    """Return what index `cosine` measures, up to rounding, by one product: codes may have a million values."""
    rows = np.concatenate([code.rows for code in codes]).astype(np.float64)
    rows /= np.maximum(np.sqrt(np.square(rows).sum(axis=1, keepdims=True)), np.finfo(np.float64).tiny)
    return np.asarray(1.0 - rows @ rows.T)


@dataclass(frozen=True)
class Cell:
    """One encoder in one column: two measures with their intervals in %, and the place by mAP."""

    precision: Estimate
    votes: Estimate
    place: Stability


@dataclass(frozen=True)
class Column:
    """One task under one protocol: the cell of every encoder that can be compared there."""

    task: Task
    protocol: Protocol
    queries: int
    cells: Mapping[str, Cell]

    @property
    def title(self) -> str:
        """What the column is called in a table."""
        return f"{self.task.name}, {self.protocol}"


def columns_of(features: FeatureSet, rows: Sequence[Entry], seeds: int, keep: Path) -> Iterator[Column]:
    """Yield the columns of a set. An encoder that does not answer the same queries as the first one has no cell, nor
    has one that is given the site where the site is searched for."""
    for task in tasks_of(features):
        for protocol in PROTOCOLS:
            ranked = {row.name: ranked_of(task, row, protocol, seeds, keep) for row in rows}
            first = next(iter(ranked.values()))
            same = {
                name: own
                for name, own in ranked.items()
                if (task.within or name not in CONDITIONED)
                and all(np.array_equal(a.rows, b.rows) for a, b in zip(own, first))
            }
            yield Column(task, protocol, sum(len(one.rows) for one in first), cells_of(task, same))


def ranked_of(task: Task, row: Entry, protocol: Protocol, seeds: int, keep: Path) -> list[Ranked]:
    """Search for every slide of a task, for each seed, by the distances that are kept."""
    found = []
    for seed in range(seeds):
        near = []
        for split in splits(task.features, protocol, seed):
            with np.load(kept_file(task.features, row, seed, protocol, split, keep)) as stored:
                near.append((split, stored["near"]))
        found.append(rank(task, protocol, near))
    return found


def cells_of(task: Task, ranked: Mapping[str, Sequence[Ranked]]) -> dict[str, Cell]:
    """Score encoders that answered the same queries; all share the draws of the bootstrap."""
    patients, classes = sorted(set(task.features.groups)), sorted(set(task.targets))
    member, truth = positions(task.features.groups, patients), positions(task.targets, classes)
    first_site = dict(reversed(list(zip(task.features.groups, task.features.sites))))
    sites = positions([first_site[patient] for patient in patients], sorted(set(first_site.values())))
    size = (len(patients), len(classes))
    precisions, votes = {}, {}
    for name, seeds in ranked.items():
        precisions[name] = np.stack(
            [collect(member[one.rows], truth[one.rows], one.precision / 100, size) for one in seeds]
        )
        said = [positions(one.said[NEIGHBOURS], classes) for one in seeds]
        votes[name] = np.stack([count(member[one.rows], truth[one.rows], s, size) for one, s in zip(seeds, said)])
    places = rank_stability(list(precisions.values()), sites, mean_of_queries)
    return {
        name: Cell(percent(precisions[name], mean_of_queries), percent(votes[name], macro(f1)), place)
        for name, place in zip(ranked, places)
    }


def percent(sums: Float64, statistic: Statistic) -> Estimate:
    """Return a statistic with its interval, in %."""
    found = Resampled(sums).estimate(statistic)
    return Estimate(100 * found.value, 100 * found.low, 100 * found.high)


def tables(names: Sequence[str], columns: Sequence[Column], seeds: int) -> Iterator[str]:
    """Yield the lines of the tables: mAP with the top groups, macro F1, and the probabilities to be first."""
    yield f"{seeds} seeds. **Bold**: in the top group of the column. Each figure is followed by its 95 % interval."
    yield ""
    yield from _table(f"mAP, % ({seeds} seeds)", names, columns, _precision, groups=True)
    yield ""
    yield from _table(f"macro F1 of the {NEIGHBOURS} nearest, %", names, columns, _votes)
    yield ""
    yield from _table("probability of the highest mAP, %; ranks (middle 95 %)", names, columns, _place)
    yield ""
    yield "| column | slides | patients | classes | queries counted, all seeds |"
    yield "|---|---|---|---|---|"
    for column in columns:
        features = column.task.features
        sizes = (len(features.bags), len(set(features.groups)), len(set(column.task.targets)), column.queries)
        yield f"| {column.title} | " + " | ".join(f"{size:,}" for size in sizes) + " |"
    yield ""


def _table(
    head: str, names: Sequence[str], columns: Sequence[Column], show: Callable[[Cell], str], groups: bool = False
) -> Iterator[str]:
    """Yield one table. groups: with a last column, in how many top groups an encoder is."""
    titles = [head, *(column.title for column in columns)] + (["top groups"] if groups else [])
    yield "| " + " | ".join(titles) + " |"
    yield "|---" * len(titles) + "|"
    for name in names:
        cells = [column.cells.get(name) for column in columns]
        shown = [show(cell) if cell else "–" for cell in cells]
        if groups:
            there = [cell for cell in cells if cell]
            shown.append(f"{sum(cell.place.top for cell in there)} of {len(there)}")
        yield f"| {name} | " + " | ".join(shown) + " |"


def _precision(cell: Cell) -> str:
    shown = f"{cell.precision.value:.1f}"
    return f"{f'**{shown}**' if cell.place.top else shown} {_interval(cell.precision)}"


def _votes(cell: Cell) -> str:
    return f"{cell.votes.value:.1f} {_interval(cell.votes)}"


def _place(cell: Cell) -> str:
    return f"{100 * cell.place.first:.0f}; {cell.place.low}–{cell.place.high}"


def _interval(estimate: Estimate) -> str:
    return f"({estimate.low:.0f}–{estimate.high:.0f})"


if __name__ == "__main__":
    main()
