"""Measure how much tissue patches represent, and retrieval with them: `python -m bench.fields [--work FOLDER]`.

The share of tissue in cells that patches are chosen from, for the shared slides that state a resolution and for drawn
biopsies (`bench.biopsies`), with the patches of Yottixel's paper (preset `paper`) and with the default ones. For drawn
biopsies the true outline is known, so the share is that of the outline, not of the tissue that was found. pieces: those
of at least the area of a default patch (0.003 mm²) in which some cell lies; chosen: pieces with a chosen patch.

Then the retrieval before and after, on the shared atlas slides (11 slides of 9 patients): every slide is searched for
among those of other patients. mAP of the site and of the diagnosis over all candidates, and the share of slides whose
nearest slide, or most of whose three nearest, are of their site, in %. +-: standard error by a bootstrap over patients.

Last, the same with mosaics that learn their groups from 4000 or 500 cells of a slide, for several seeds of the k-means.
+-: standard error over seeds, so differences are paired.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import numpy as np
from scipy import ndimage

from bench.biopsies import biopsies
from bench.encoders import DATA
from bench.mixed_archive import ATLAS, atlas_rows, built
from bench.two_stage import markdown
from slideseek.config import default_config, make_component, parse_config
from slideseek.errors import SlideseekError
from slideseek.interfaces import Encoder, Index, Slide
from slideseek.plugins import load_registry
from slideseek.searching.votes import majority
from slideseek.slides.discovery import find_slides
from slideseek.slides.reader import open_slide
from slideseek.types import Float64, Mask
from slideseek_apps.bench.datasets.from_archive import ArchiveData
from slideseek_components.encoders.mean import Mean
from slideseek_components.encoders.yottixel import Yottixel
from slideseek_components.indexes.cosine import Cosine
from slideseek_components.indexes.hamming import Hamming
from slideseek_components.pixels.pyramid import as_pyramid
from slideseek_components.selectors import mosaic
from slideseek_components.selectors.base import TissueSelector
from slideseek_components.selectors.cell_sums import painted, spans

PRESETS = ("paper", "default")
ENOUGH = 0.8
EVERY = 4
"""Pixels of a drawn outline between those that are counted."""
PIECE_UM2 = 56.0**2
RESAMPLES = 1000
MEASURES = ["slides", "mAP site", "mAP diagnosis", "nearest, site", "majority of 3, site"]

CODES: dict[str, tuple[Encoder, Index]] = {
    "yottixel, distance of the paper": (Yottixel(), Hamming()),
    "yottixel, symmetric, centring 0.9": (Yottixel(), Hamming(direction="symmetric", centring=0.9)),
    "mean": (Mean(l2=True), Cosine()),
}
PATCHES: dict[str, str] = {
    "paper: 1000 px at 0.5 µm/px": default_config("paper"),
    "default: 224 px at 0.25 µm/px": default_config(),
    "224 px at 0.5 µm/px": default_config().replace("mpp = 0.25,", "mpp = 0.5,"),
    "224 px at 1 µm/px": default_config().replace("mpp = 0.25,", "mpp = 1.0,"),
}
SAMPLES, SEEDS = (4000, 500), 5
"""Cells that mosaics learn colour groups and places from, the present `mosaic.SAMPLE` last; seeds of their k-means."""


def selector_of(preset: str) -> TissueSelector:
    """Return the selector of a preset."""
    config = parse_config(default_config(preset)).engine()
    made = make_component(load_registry(), config.selector, f"engine.{config.name}.selector")
    if not isinstance(made, TissueSelector):
        raise TypeError(f"the selector of preset {preset!r} does not choose from a grid")
    return made


@dataclass(frozen=True)
class Coverage:
    """What the patches of one slide represent.

    share: of the tissue, in cells; NaN without tissue. chosen: patches. pieces: all, with a cell, with a chosen patch.
    """

    share: float
    chosen: int
    pieces: tuple[int, int, int]


def coverage(slide: Slide, selector: TissueSelector, outline: Mask | None) -> Coverage:
    """Measure one slide. outline: the true tissue, bool (h, w); None takes what the selector finds."""
    grid = selector.grid(slide)
    chosen = selector.choose(grid) if len(grid) else np.empty(0, np.int64)
    mask = selector.find_tissue(slide, slide.thumbnail(2048)) if outline is None else outline[::EVERY, ::EVERY]
    held, taken = (_shown(mask.shape, slide, xy, grid.extent) for xy in (grid.xy, grid.xy[chosen]))
    area = slide.dimensions[0] * slide.dimensions[1] * slide.mpp**2 / mask.size
    labels, _ = ndimage.label(mask, structure=np.ones((3, 3), dtype=np.int8))
    large = np.flatnonzero(np.bincount(labels.ravel()) * area >= PIECE_UM2)
    large = large[large > 0]
    counts = [int(np.isin(large, labels[shown]).sum()) for shown in (held, taken)]
    if outline is None:
        share = 1 - grid.left_out_um2 / grid.tissue_um2 if grid.tissue_um2 else float("nan")
    else:
        share = float(np.count_nonzero(held & mask) / np.count_nonzero(mask))
    return Coverage(share, len(chosen), (len(large), counts[0], counts[1]))


def _shown(shape: tuple[int, ...], slide: Slide, xy: np.ndarray, side: float) -> Mask:
    """Return the part of a mask of the slide that patches show."""
    width, height = slide.dimensions
    across, down = spans(xy[:, 0], side, width, shape[1]), spans(xy[:, 1], side, height, shape[0])
    return painted((shape[0], shape[1]), across, down)


def covered(data: Path, each: int) -> Iterator[tuple[str, str, list[Coverage]]]:
    """Yield for every slide its kind, its name, and what the presets represent of it."""
    selectors = [selector_of(preset) for preset in PRESETS]
    for path in find_slides([data / ATLAS, data / "slides-formats"]):
        try:
            with as_pyramid(open_slide(path)) as slide:
                name = path.stem if len(path.stem) < 40 else f"{path.parent.name} ({slide.format})"
                yield "shared", name, [coverage(slide, one, None) for one in selectors]
        except SlideseekError as error:
            print(f"left out: {path.name}: {error.cause}", flush=True)
    for drawn, outline in biopsies(each):
        yield "drawn", drawn.id, [coverage(drawn, one, outline) for one in selectors]


def coverage_table(found: Sequence[tuple[str, str, list[Coverage]]]) -> str:
    """Return one line per slide, and the least shares."""
    lines = []
    for kind, name, both in found:
        shown = [f"{one.share:.1%}" for one in both] + [str(one.chosen) for one in both]
        lines.append([f"{kind}: {name}", *shown, *("{1} of {0}; {2}".format(*one.pieces) for one in both)])
    least = [min(both[place].share for _, _, both in found) for place in range(len(PRESETS))]
    lines.append(["**least**", *(f"**{share:.1%}**" for share in least), "", "", "", ""])
    below = [sum(both[place].share < ENOUGH for _, _, both in found) for place in range(len(PRESETS))]
    lines.append([f"slides below {ENOUGH:.0%}", *(str(number) for number in below), "", "", "", ""])
    columns = [f"{what}, {preset}" for what in ("represented", "patches", "pieces; chosen") for preset in PRESETS]
    return markdown(["slide", *columns], lines)


def retrieval_table(data: Path, work: Path) -> str:
    """Build the atlas with each kind of patches, and return the retrieval by codes."""
    manifest = atlas_manifest(data, work)
    table = []
    for number, (patches, config) in enumerate(PATCHES.items()):
        root = work.parent / f"{work.name}-{number}"
        built(root, manifest, config)
        for codes, (encoder, index) in CODES.items():
            found = _with_errors(*_retrieved(root, encoder, type(index)(**_options(index))))
            table.append([f"{patches}; {codes}", *found])
            print(table[-1], flush=True)
    return markdown(["patches; codes", *MEASURES], table)


def sample_table(data: Path, work: Path, seeds: Sequence[int]) -> str:
    """Build the atlas with mosaics that learn from more or fewer cells, and compare the retrieval seed by seed."""
    manifest, table = atlas_manifest(data, work), []
    means: dict[str, list[Float64]] = {codes: [] for codes in CODES}
    for sample in SAMPLES:
        for seed in seeds:
            root = work.parent / f"{work.name}-sample-{sample}-{seed}"
            with patch.object(mosaic, "SAMPLE", sample):
                built(root, manifest, default_config().replace("most = 50,", f"most = 50, seed = {seed},"))
            for codes, (encoder, index) in CODES.items():
                values, _ = _retrieved(root, encoder, type(index)(**_options(index)))
                means[codes].append(np.nanmean(values, axis=0))
    for codes, rows in means.items():
        before, now = np.array(rows).reshape(len(SAMPLES), len(seeds), -1)
        for name, of in ((SAMPLES[0], before), (SAMPLES[1], now), ("difference", now - before)):
            errors = of.std(axis=0, ddof=1) / np.sqrt(len(seeds))
            table.append([f"{codes}; {name}", *(f"{mean:.1f} +- {e:.1f}" for mean, e in zip(of.mean(axis=0), errors))])
    return markdown(["codes; cells", *MEASURES[1:]], table)


def atlas_manifest(data: Path, work: Path) -> Path:
    """Link the atlas slides into a folder; return the manifest of them."""
    work.mkdir(parents=True, exist_ok=True)
    manifest = work / "manifest.csv"
    lines = ["slide_id,filename,case_id,primary_site,diagnosis"]
    for row in atlas_rows(data):
        place = work / row.filename
        if not place.exists():
            place.symlink_to((data / ATLAS / row.filename).resolve())
        lines.append(",".join((row.slide_id, row.filename, row.patient, row.site, row.diagnosis)))
    manifest.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return manifest


def _options(index: Index) -> dict[str, object]:
    return {"direction": index.direction, "centring": index.centring} if isinstance(index, Hamming) else {}


def _retrieved(root: Path, encoder: Encoder, index: Index) -> tuple[Float64, list[str]]:
    """Search with every slide of an archive; return the measures in %, (slides, 4), and the patients."""
    source = ArchiveData(root).load(load_registry())
    records = {record.id: record for record in source.records}
    codes = [encoder.encode(source.bags[name]) for name in records]
    index.add(codes)
    patients = np.array([records[name].patient for name in index.ids])
    rows = []
    for code in codes:
        query = records[code.slide_id]
        ranked = [records[hit.slide_id] for hit in index.search(code, len(codes), patients != query.patient)]
        sites = [record.site for record in ranked]
        rows.append(
            (
                _precision([site == query.site for site in sites]),
                _precision([record.label == query.label for record in ranked]),
                float(sites[0] == query.site),
                float(majority(sites[:3]) == query.site),
            )
        )
    return 100 * np.array(rows), [records[code.slide_id].patient for code in codes]


def _precision(right: Sequence[bool]) -> float:
    """Return the average precision of a ranking; NaN if nothing is relevant."""
    found = np.array(right)
    return float((np.cumsum(found)[found] / (np.flatnonzero(found) + 1)).mean()) if found.any() else float("nan")


def _with_errors(values: Float64, patients: Sequence[str]) -> list[str]:
    """Return the number of rows and the mean of each column, NaN left out, with its error over resampled patients."""
    names, rng = sorted(set(patients)), np.random.default_rng(0)
    of = np.array([names.index(patient) for patient in patients])
    means = []
    for _ in range(RESAMPLES):
        weights = np.bincount(rng.integers(len(names), size=len(names)), minlength=len(names))[of].astype(np.float64)
        known = ~np.isnan(values)
        means.append(
            (np.where(known, values, 0) * weights[:, None]).sum(0) / np.maximum((known * weights[:, None]).sum(0), 1)
        )
    errors = np.std(means, axis=0)
    means_shown = [f"{mean:.1f} +- {error:.1f}" for mean, error in zip(np.nanmean(values, axis=0), errors)]
    return [str(len(values)), *means_shown]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help="folder that holds slides-atlas and slides-formats")
    parser.add_argument("--work", type=Path, default=Path("bench-fields"), help="keeps archives between runs")
    parser.add_argument("--each", type=int, default=3, help="drawn biopsies of each kind")
    parser.add_argument("--only", choices=["coverage", "retrieval", "samples"], help="make one table instead of all")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="seeds of the table of samples")
    given = parser.parse_args()
    tables = []
    if given.only in (None, "coverage"):
        tables.append(coverage_table(list(covered(given.data, given.each))))
    if given.only in (None, "retrieval"):
        tables.append(retrieval_table(given.data, given.work))
    if given.only in (None, "samples"):
        tables.append(sample_table(given.data, given.work, range(given.seeds)))
    print("\n" + "\n\n".join(tables))


if __name__ == "__main__":
    main()
