"""Find slides that show the same tissue: copies of a file, and rescans of a slide of glass.

Rescans are other files with other pixels, so their content says nothing. Candidates are the slides nearest by the mean
of their features. Two candidates are the same if their pictures coincide somewhere: the correlation of the structures
of 1 to 4 pixels of an overview, at the best shift, quarter turn and mirror image.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import fft, ndimage

from slideseek.archive.archive import Archive
from slideseek.archive.slide_table import SlideRow
from slideseek.engine import Engine
from slideseek.errors import SlideseekError
from slideseek.interfaces import OpenedSlide
from slideseek.slides.reader import open_slide
from slideseek.types import Float32

NEIGHBOURS = 5
"""Nearest slides, by mean feature, that each slide is compared with."""

SIDE = 256
"""Longest side of an overview in pixels; its resolution is the next power of two in µm per pixel."""

CORE = 0.3
"""Share of the tissue that must be left without its edge."""

TISSUE = 10.0
"""Grey values, of 255, that tissue is darker than glass by."""

SAME = 0.3
"""Correlation from which two overviews show the same tissue.

14 real slides against a rescan of themselves (other colours, noise, shifted, turned by 181 degrees, 1 % larger): at
least 0.47. 91 pairs of different slides: at most 0.11.
"""


@dataclass(frozen=True, slots=True)
class Duplicate:
    """Two slides that show the same tissue. likeness: 1 for the same file, else the correlation of the pictures.

    leaks: the two have different patients, so that each is found for the other as if it were evidence.
    """

    first: str
    second: str
    kind: Literal["same content", "same picture"]
    likeness: float
    patients: tuple[str, str]
    leaks: bool


@dataclass(frozen=True, slots=True, eq=False)
class Overview:
    """The structures of a slide, float32 (h, w) without mean; mpp: µm per pixel, a power of two."""

    pixels: Float32
    mpp: float


def copies(archive: Archive) -> list[Duplicate]:
    """Return the pairs of slides with the same content; this reads no file."""
    found = []
    for rows in archive.catalog.slides.copies():
        found += [_pair(rows[0], row, "same content", 1.0) for row in rows[1:]]
    return found


def rescans(archive: Archive, engine: Engine, advance: Callable[[str], None] = lambda _: None) -> list[Duplicate]:
    """Return the pairs of slides whose pictures show the same tissue, most alike first. Copies are not among them.

    engine: whose features are used. A slide whose file cannot be read is left out.
    """
    ready = archive.catalog.work.ready(engine.feature_digest)
    rows = archive.catalog.slides.some([one.slide_id for one in ready])
    means = [archive.bag(one.key, row.record, trusted=True).features.mean(axis=0) for one, row in zip(ready, rows)]
    pairs = [pair for pair in nearest_pairs(np.array(means)) if rows[pair[0]].fingerprint != rows[pair[1]].fingerprint]
    overviews: dict[int, Overview] = {}
    for number in sorted({number for pair in pairs for number in pair}):
        try:
            with open_slide(archive.slide_path(rows[number].record), rows[number].id, rows[number].record.mpp) as slide:
                overviews[number] = overview(slide)
        except SlideseekError:
            continue
        finally:
            advance(rows[number].id)
    found = []
    for first, second in pairs:
        if first in overviews and second in overviews:
            alike = likeness(overviews[first], overviews[second])
            if alike >= SAME:
                found.append(_pair(rows[first], rows[second], "same picture", round(alike, 3)))
    return sorted(found, key=lambda one: -one.likeness)


def nearest_pairs(means: Float32, most: int = NEIGHBOURS) -> list[tuple[int, int]]:
    """Return the pairs (i < j) of which one is among the `most` nearest of the other by cosine. means: (n, width)."""
    if len(means) < 2:
        return []
    centred = means - means.mean(axis=0) if len(means) > 2 * most else means
    unit = centred / np.maximum(np.linalg.norm(centred, axis=1, keepdims=True), 1e-12)
    pairs: set[tuple[int, int]] = set()
    for start in range(0, len(unit), 1024):
        like = unit[start : start + 1024] @ unit.T
        like[np.arange(len(like)), start + np.arange(len(like))] = -np.inf
        count = min(most, len(unit) - 1)
        for row, near in enumerate(np.argpartition(-like, count - 1, axis=1)[:, :count].tolist()):
            pairs |= {(min(start + row, other), max(start + row, other)) for other in near}
    return sorted(pairs)


def overview(slide: OpenedSlide) -> Overview:
    """Return the structures of a slide in an overview of at most `SIDE` pixels."""
    extent = max(slide.dimensions) * slide.mpp
    mpp = 2.0 ** np.ceil(np.log2(extent / SIDE))
    thumbnail = slide.thumbnail(max(8, round(extent / mpp)))
    return Overview(structures(255.0 - thumbnail.astype(np.float32).mean(axis=2)), float(mpp))


def structures(darkness: Float32) -> Float32:
    """Return what is larger than one pixel and smaller than four, without mean, and no stronger than usual in tissue.

    The edge of the tissue is by far the strongest structure, and slides of one shape share it: it is left out, unless
    there is little else, as in needle biopsies.
    """
    fine: Float32 = ndimage.gaussian_filter(darkness, 1.0) - ndimage.gaussian_filter(darkness, 4.0)
    tissue = darkness > np.percentile(darkness, 5) + TISSUE
    core = ndimage.binary_erosion(ndimage.binary_closing(tissue, iterations=4), iterations=8, border_value=1)
    if core.sum() >= CORE * tissue.sum():
        fine, tissue = fine * core, core
    inside = np.abs(fine[tissue])
    usual = float(np.median(inside)) if inside.size else 0.0
    fine = np.asarray(np.clip(fine, -usual, usual), np.float32)
    return np.asarray(fine - fine.mean(), np.float32)


def likeness(one: Overview, other: Overview) -> float:
    """Return the correlation of two overviews at the best shift and orientation, 0 if their sizes differ too much."""
    coarse = max(one.mpp, other.mpp)
    if coarse > 2 * min(one.mpp, other.mpp):
        return 0.0
    left, right = (_at(view, coarse) for view in (one, other))
    side = fft.next_fast_len(max(left.shape) + max(right.shape))
    spectrum = fft.rfft2(left, (side, side))
    scale = float(np.linalg.norm(left) * np.linalg.norm(right))
    if scale <= 0:
        return 0.0
    return max(
        float(fft.irfft2(spectrum * np.conj(fft.rfft2(turned, (side, side))), (side, side)).max()) / scale
        for turned in _orientations(right)
    )


def _at(view: Overview, mpp: float) -> Float32:
    """Return the structures at a coarser resolution."""
    if view.mpp == mpp:
        return view.pixels
    shrunk = ndimage.zoom(ndimage.gaussian_filter(view.pixels, 1.0), view.mpp / mpp, order=1)
    return np.asarray(shrunk - shrunk.mean(), np.float32)


def _orientations(picture: Float32) -> Iterator[Float32]:
    for mirrored in (picture, picture[:, ::-1]):
        for turns in range(4):
            yield np.rot90(mirrored, turns)


def _pair(first: SlideRow, second: SlideRow, kind: Literal["same content", "same picture"], alike: float) -> Duplicate:
    patients = first.record.patient, second.record.patient
    return Duplicate(first.id, second.id, kind, alike, patients, patients[0] != patients[1] and all(patients))


def leaking(found: Sequence[Duplicate]) -> list[Duplicate]:
    """Return the duplicates over two patients."""
    return [one for one in found if one.leaks]
