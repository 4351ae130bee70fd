"""Measure what stain normalisation does to retrieval: `python -m bench.stain_normalisation [FOLDER] [--patches 16]`.

Real H&E slides are cut into patches. Half of the patches of each slide are the archive; the others are the queries, as
they were scanned, and as other laboratories might have stained them: their stains unmixed and mixed again with other
colours and strengths. A query is right if the nearest patch of the archive is of its slide, and, among the patches of
other patients, if the nearest is of its site. Features are compared by their cosine.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import numpy as np

from bench.restained import GLASS, unmixed
from bench.stains import SLIDES, slides
from slideseek.interfaces import Featurizer
from slideseek.types import Float32, UInt8
from slideseek_components.featurizers.efficientnet_lite import EfficientNetLite2
from slideseek_components.featurizers.macenko import Macenko
from slideseek_components.selectors.grid import Grid

LABORATORIES = {
    "more blue": ((0.72, 0.62, 0.30), (0.20, 0.90, 0.38), (1.3, 0.8)),
    "more pink": ((0.55, 0.75, 0.37), (0.05, 0.95, 0.30), (0.8, 1.4)),
    "faded": ((0.60, 0.68, 0.42), (0.20, 0.88, 0.43), (0.6, 0.6)),
}
"""By name: the colours of haematoxylin and eosin, and their strengths relative to the slide's own."""

FIELD_MPP, SIDE = 1.0, 224


def restained(image: UInt8, name: str) -> UInt8:
    """Return an H&E patch, uint8 (s, s, 3), as another laboratory would have stained it."""
    haematoxylin, eosin, strength = LABORATORIES[name]
    amounts = zip(unmixed(image), (haematoxylin, eosin), strength)
    density = sum(s * a[..., None] * (np.array(v) / np.linalg.norm(v)) for a, v, s in amounts)
    return np.asarray(np.clip(GLASS * 10**-density + 0.5, 0, 255), dtype=np.uint8)


def unit(features: Float32) -> Float32:
    """Return rows of unit length."""
    return np.asarray(features / np.linalg.norm(features, axis=1, keepdims=True), dtype=np.float32)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=SLIDES, help="slides, and slides.csv about them")
    parser.add_argument("--patches", type=int, default=16, help="patches per slide")
    given = parser.parse_args()
    with (given.folder / "slides.csv").open(encoding="utf-8") as file:
        known = {row["slide_id"]: (row["patient_id"], row["site"]) for row in csv.DictReader(file)}
    images: list[UInt8] = []
    owners: list[str] = []
    for slide in slides(given.folder):
        every = Grid(size=SIDE, mpp=FIELD_MPP).select(slide).xy
        some = every[np.linspace(0, len(every) - 1, min(given.patches, len(every))).round().astype(int)]
        images += [slide.read((int(x), int(y)), SIDE, FIELD_MPP) for x, y in some]
        owners += [slide.id] * len(some)
    patches, half = np.stack(images), np.arange(len(images)) % 2 == 0
    of = np.array(owners)
    patient, site = (np.array([known[name][at] for name in owners]) for at in (0, 1))
    other = patient[~half][:, None] != patient[half][None]
    network: Featurizer = EfficientNetLite2()
    both: tuple[Featurizer, ...] = network, Macenko(of=network)
    print(f"{half.sum()} patches in the archive, {(~half).sum()} queries, of {len(set(owners))} slides\n")
    print("| queries | same slide | same slide, macenko | same site | same site, macenko |\n|---|---|---|---|---|")
    archives = [unit(one.featurize(patches[half])) for one in both]
    for name in ("as scanned", *LABORATORIES):
        asked = np.stack([restained(image, name) if name in LABORATORIES else image for image in patches[~half]])
        slide_right, site_right = [], []
        for one, archive in zip(both, archives):
            similar = unit(one.featurize(asked)) @ archive.T
            slide_right.append(np.mean(of[half][similar.argmax(axis=1)] == of[~half]))
            nearest = np.where(other, similar, -2).argmax(axis=1)
            site_right.append(np.mean(site[half][nearest] == site[~half]))
        print(f"| {name} | {' | '.join(f'{share:.1%}' for share in (*slide_right, *site_right))} |")


if __name__ == "__main__":
    main()
