"""Measure which slides are found too often, by set distance: `python -m bench.hubs [--work FOLDER]`.

Two archives. *mixed*: the shared atlas slides, cuts of them down to the size of a biopsy and painted slides
(`bench.mixed_archive`), built by the default engine with any number of patches per slide and with at most 50. *atlas2*:
stored features of 102 real slides, of which each keeps a random number of patches from 5 to 80; means over draws.
Every slide is searched for among those of other patients.

size: Spearman's correlation of how often a slide is found with its number of patches without a bound.
x share @k: how often the slide that is found most is among k hits, divided by its fair share. never: slides that no
query finds among 5. mAP: of the site, over all candidates, in %. time: of a query, relative to the first row of its
table; compiled kernels, one thread.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.encoders import DATA
from bench.mixed_archive import built, write_mixed
from bench.two_stage import atlas2, markdown
from slideseek.config import default_config
from slideseek.plugins import load_registry
from slideseek.types import Bag, Code, Hit
from slideseek_apps.bench.datasets.from_archive import ArchiveData
from slideseek_apps.bench.hub_counts import Candidates, hubs
from slideseek_apps.bench.hubness import Hubness
from slideseek_apps.bench.ranked_lists import QueryHits, RankedHit
from slideseek_components.encoders.yottixel import Yottixel
from slideseek_components.indexes import hamming
from slideseek_components.indexes.hamming import Hamming

VARIANTS: dict[str, dict[str, Any]] = {
    "query (Yottixel)": {},
    "target": {"direction": "target"},
    "symmetric": {"direction": "symmetric"},
    "query, centring 0.9": {"centring": 0.9},
    "symmetric, centring 0.5": {"direction": "symmetric", "centring": 0.5},
    "symmetric, centring 0.75": {"direction": "symmetric", "centring": 0.75},
    "symmetric, centring 0.9": {"direction": "symmetric", "centring": 0.9},
    "symmetric, centring 1": {"direction": "symmetric", "centring": 1.0},
}
BOUNDS = (0, 50)
KS = (3, 5, 10)
DRAWS = 3
CHANCE = 20
"""Draws of hits at random."""
BOUND = "most = 50, "
"""What bounds the patches of a slide in the default configuration."""


@dataclass(frozen=True)
class Slides:
    """Bags with what is known of their slides. sizes: patches without a bound; sites: "" for unknown."""

    bags: Sequence[Bag]
    patients: Sequence[str]
    sites: Sequence[str]
    sizes: dict[str, int]


@dataclass(frozen=True)
class Measured:
    """The figures of one index. hubs: by k. precision: mAP in %, NaN without sites. seconds: per query."""

    hubs: dict[int, Hubness]
    precision: float
    seconds: float


def measured(slides: Slides, options: dict[str, Any]) -> Measured:
    """Search with every slide among those of other patients."""
    codes = [Yottixel().encode(bag) for bag in slides.bags]
    index = Hamming(**options)
    index.add(codes)
    patients = np.array(slides.patients)
    masks = [patients != patient for patient in slides.patients]
    index.search(codes[0], 1)  # compiles, and measures the references
    started = time.perf_counter()
    lists = [index.search(code, max(KS), mask) for code, mask in zip(codes, masks)]
    seconds = (time.perf_counter() - started) / len(codes)
    found = _hubs(slides, [[hit.slide_id for hit in hits] for hits in lists])
    return Measured(found, _precision(slides, index, codes, masks), seconds)


def at_random(slides: Slides, seed: int) -> Measured:
    """Return the figures of hits that are drawn at random: what chance makes of them."""
    rng, patients = np.random.default_rng(seed), np.array(slides.patients)
    ids = np.array([bag.slide_id for bag in slides.bags])
    lists = [rng.permutation(ids[patients != patient])[: max(KS)].tolist() for patient in slides.patients]
    return Measured(_hubs(slides, lists), float("nan"), float("nan"))


def _hubs(slides: Slides, lists: Sequence[Sequence[str]]) -> dict[int, Hubness]:
    """Return the hubs by k. lists: the ids of the hits of every slide."""
    candidates, patients = Candidates(dict(slides.sizes)), np.array(slides.patients)
    ids = np.array([bag.slide_id for bag in slides.bags])
    for patient in slides.patients:
        candidates.count(ids[patients != patient].tolist(), 1)
    queries = [
        QueryHits(name, "", tuple(RankedHit(hit, "") for hit in hits)) for name, hits in zip(ids.tolist(), lists)
    ]
    return {k: one for k in KS if (one := hubs(queries, candidates, k)) is not None}


def _precision(slides: Slides, index: Hamming, codes: Sequence[Code], masks: Sequence[Any]) -> float:
    """Return the mean average precision of the site over all candidates, in %."""
    site = dict(zip((bag.slide_id for bag in slides.bags), slides.sites))
    if not all(site.values()):
        return float("nan")
    found = []
    for code, mask in zip(codes, masks):
        ranked: list[Hit] = index.search(code, len(codes), mask)
        right = np.array([site[hit.slide_id] == site[code.slide_id] for hit in ranked])
        if right.any():
            found.append(100 * float((np.cumsum(right)[right] / (np.flatnonzero(right) + 1)).mean()))
    return float(np.mean(found))


def mixed(work: Path, data: Path) -> dict[int, Slides]:
    """Return the slides of the mixed archive by the bound of their patches."""
    manifest = write_mixed(work / "slides", data)
    sizes: dict[str, int] = {}
    found = {}
    for bound in BOUNDS:
        root = work / f"most-{bound}"
        built(root, manifest, default_config() if bound else default_config().replace(BOUND, ""))
        source = ArchiveData(root).load(load_registry())
        bags = [source.bags[record.id] for record in source.records]
        sizes = sizes or {bag.slide_id: len(bag) for bag in bags}
        patients = [record.patient for record in source.records]
        found[bound] = Slides(bags, patients, [""] * len(bags), sizes)
    return found


def thinned(data: Path, seed: int, bound: int) -> Slides:
    """Return the slides of atlas2, each with a random number of patches from 5 to 80, at most `bound` of them."""
    features, rng = atlas2(data).features, np.random.default_rng(seed)
    sizes = np.exp(rng.uniform(np.log(5), np.log(80), len(features.bags))).astype(int)
    kept = [rng.permutation(len(bag))[:size] for bag, size in zip(features.bags, sizes)]
    full = {bag.slide_id: len(rows) for bag, rows in zip(features.bags, kept)}
    bags = [
        Bag(bag.slide_id, bag.features[rows[: bound or None]], bag.xy[rows[: bound or None]], bag.site)
        for bag, rows in zip(features.bags, kept)
    ]
    return Slides(bags, features.groups, features.labels, full)


def table(draws: Callable[[int], Sequence[Slides]]) -> str:
    """Return the table of an archive: every bound of the patches and every variant of the index, means over draws."""
    random = [at_random(one, seed) for one in draws(0)[:1] for seed in range(CHANCE)]
    lines, base = [["hits drawn at random", *_shown(random, 1.0)]], 0.0
    for bound in BOUNDS:
        slides = draws(bound)
        for name, options in VARIANTS.items():
            figures = [measured(one, options) for one in slides]
            base = base or float(np.mean([one.seconds for one in figures]))
            lines.append([f"{f'at most {bound}' if bound else 'any'}, {name}", *_shown(figures, base)])
            print(lines[-1], flush=True)
    head = ["patches, distance", "size @5", "size @10", *(f"x share @{k}" for k in KS), "skew @5", "never @5"]
    return markdown([*head, "mAP", "time"], lines)


def _shown(figures: Sequence[Measured], base: float) -> list[str]:
    """Return the cells of a row: means of the figures. base: seconds of the first row."""
    shown = [f"{np.mean([one.hubs[k].size for one in figures]):+.2f}" for k in (5, 10)]
    shown += [f"{np.mean([one.hubs[k].largest for one in figures]):.1f}" for k in KS]
    shown += [f"{np.mean([one.hubs[5].skew for one in figures]):.2f}"]
    shown += [f"{np.mean([one.hubs[5].never for one in figures]):.0f}"]
    means = float(np.mean([one.precision for one in figures])), float(np.mean([one.seconds for one in figures])) / base
    return shown + ["" if np.isnan(value) else f"{value:.{digits}f}" for value, digits in zip(means, (1, 2))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help="folder that holds slides-atlas and bags")
    parser.add_argument("--work", type=Path, default=Path("bench-hubs"), help="keeps slides and archives between runs")
    given = parser.parse_args()
    hamming.COMPILED_AFTER = 0  # time the kernels alone
    slides = mixed(given.work, given.data)
    numbers = sorted(slides[0].sizes.values())
    print(f"mixed: {len(numbers)} slides with {numbers[0]} to {numbers[-1]} patches without a bound")
    tables = {
        "mixed": table(lambda bound: [slides[bound]]),
        "atlas2": table(lambda bound: [thinned(given.data, seed, bound) for seed in range(DRAWS)]),
    }
    for name, text in tables.items():
        print(f"\n{name}\n\n{text}")


if __name__ == "__main__":
    main()
