"""What a back end and bfloat16 do to features, codes and hits: `python -m bench.precision [--data DIR]`.

Every real slide is cut into quarters, so that there are enough of them, and the default engine's patches are taken from
each. The same patches go through the default network with every installed back end. Printed per back end, against
torch: the largest difference of a feature relative to the largest feature, CPU ms per image on one core, the bits of
`yottixel` codes that differ, how often the first three hits of `yottixel` and `mean` are the same, and the mean average
precision of the site and of the diagnosis, in %. Slides of the query's own patient are never candidates.
"""

from __future__ import annotations

import argparse
import csv
import os

os.environ["OMP_NUM_THREADS"] = "1"

import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from slideseek.config import default_config, parse_config
from slideseek.engine import Engine, make_engine
from slideseek.errors import SlideseekError
from slideseek.plugins import load_registry
from slideseek.slides.reader import open_slide
from slideseek.types import Float32, Float64, Mask, Patches, UInt8
from slideseek_components.pixels.array_slide import ArraySlide

RUNTIMES = (("torch", "float32"), ("onnxruntime", "float32"), ("openvino", "float32"), ("openvino", "bfloat16"))
HITS = 3


@dataclass(frozen=True, slots=True)
class Quarter:
    """The patch images of a quarter of a slide, uint8 (n, side, side, 3), and what is known about the slide."""

    images: UInt8
    patient: str
    site: str
    label: str


def quarters(data: Path, engine: Engine) -> list[Quarter]:
    """Return the quarters of all slides in which the engine's selector finds tissue."""
    found = []
    with (data / "slides-atlas" / "slides.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    for row in rows:
        path = next((data / "slides-atlas").glob(f"{row['slide_id']}.*"))
        with open_slide(path, path.stem, None) as slide:
            whole, mpp = slide.thumbnail(max(slide.dimensions)), slide.mpp
        height, width = (side // 2 for side in whole.shape[:2])
        for top in (0, height):
            for left in (0, width):
                part = ArraySlide(np.ascontiguousarray(whole[top : top + height, left : left + width]), mpp, path.stem)
                try:
                    patches: Patches = engine.select(part)
                except SlideseekError:
                    continue
                if len(patches):
                    images = [part.read((int(x), int(y)), patches.size, float(patches.mpp[0])) for x, y in patches.xy]
                    found.append(Quarter(np.stack(images), row["patient_id"], row["site"], row["diagnosis"]))
    return found


def barcodes(features: Float32) -> Mask:
    """Return the bits of `yottixel`: whether each feature rises to the next one, (n, width - 1)."""
    return np.asarray(np.diff(features, axis=1) > 0)


def set_distances(bits: list[Mask]) -> Float64:
    """Return the median over a query's patches of the least Hamming distance to a candidate's, (queries, slides)."""
    table = np.zeros((len(bits), len(bits)))
    for query, mine in enumerate(bits):
        for other, theirs in enumerate(bits):
            a, b = mine.astype(np.float32), theirs.astype(np.float32)
            apart = a.sum(1)[:, None] + b.sum(1) - 2 * a @ b.T
            table[query, other] = np.median(apart.min(axis=1))
    return table


def mean_distances(features: list[Float32]) -> Float64:
    """Return the cosine distance between mean features."""
    means = np.stack([one.mean(axis=0) for one in features]).astype(np.float64)
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    return np.asarray(1 - means @ means.T)


def ranked(distances: Float64, allowed: Mask) -> list[list[int]]:
    """Return the candidates of each query, nearest first."""
    return [[int(i) for i in np.argsort(row, kind="stable") if ok[i]] for row, ok in zip(distances, allowed)]


def mean_average_precision(ranking: list[list[int]], labels: list[str]) -> float:
    """Return the mean average precision in %, over the queries that have a candidate with their label."""
    scores = []
    for query, candidates in enumerate(ranking):
        right = np.array([labels[one] == labels[query] for one in candidates])
        if right.any():
            scores.append(float((np.cumsum(right) / np.arange(1, len(right) + 1))[right].mean()))
    return 100 * float(np.mean(scores))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    parser.add_argument("--data", type=Path, default=default)
    given = parser.parse_args()
    registry, text = load_registry(), default_config()
    parts = quarters(given.data, make_engine(parse_config(text).engine(), registry))
    patients, sites = [part.patient for part in parts], [part.site for part in parts]
    labels = [part.label for part in parts]
    allowed = np.array([[mine != other for other in patients] for mine in patients])
    count = sum(len(part.images) for part in parts)
    print(f"{len(parts)} quarters of {len(set(patients))} patients' slides, {count} patches\n")
    print("| back end | difference | CPU ms | bits | hits, yottixel | hits, mean | site | diagnosis |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    exact: list[Float32] = []
    first: list[list[list[int]]] = []
    for runtime, precision in RUNTIMES:
        if find_spec(runtime) is None:
            print(f"| {runtime}, {precision} | not installed | | | | | | |")
            continue
        options = f'use = "efficientnet-lite2", device = "cpu", backend = "{runtime}", precision = "{precision}"'
        engine = make_engine(parse_config(text.replace('use = "efficientnet-lite2"', options)).engine(), registry)
        engine.features(parts[0].images[:1])
        started = time.process_time()
        features = [engine.features(part.images) for part in parts]
        spent = 1000 * (time.process_time() - started) / count
        bits = [barcodes(one) for one in features]
        exact = exact or features
        away = max(np.abs(a - b).max() for a, b in zip(exact, features)) / max(np.abs(one).max() for one in exact)
        changed = sum(int((barcodes(a) != b).sum()) for a, b in zip(exact, bits)) / sum(b.size for b in bits)
        rankings = [ranked(set_distances(bits), allowed), ranked(mean_distances(features), allowed)]
        first = first or rankings
        same = [np.mean([a[:HITS] == b[:HITS] for a, b in zip(one, other)]) for one, other in zip(first, rankings)]
        scores = [" / ".join(f"{mean_average_precision(r, names):.1f}" for r in rankings) for names in (sites, labels)]
        print(
            f"| {runtime}, {precision} | {away:.1e} | {spent:.1f} | {changed:.2%} |"
            f" {same[0]:.0%} | {same[1]:.0%} | {scores[0]} | {scores[1]} |"
        )


if __name__ == "__main__":
    main()
