"""Measure how often the rules for stains, artefacts and focus are right: `python -m bench.stains [FOLDER]`.

FOLDER has real H&E slides (by default those beside the checkout, in `../shared/data/slides-atlas`). Their pixels are
remixed to other stains and blurred, so that the truth is known:

- stain: how often the stain of a slide is named, by mixture;
- chromogen: the share of strongly positive pixels that the mask of tissue keeps;
- blur: what is measured on patches that a Gaussian has blurred, and the share of them that a limit leaves out.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from bench.restained import MIXTURES, out_of_focus, positive_cells, restain, unmixed
from slideseek.slides.discovery import find_slides
from slideseek.slides.reader import open_slide
from slideseek.types import Float32, UInt8
from slideseek_components.pixels.array_slide import ArraySlide
from slideseek_components.selectors.artefacts import appraise
from slideseek_components.selectors.focus import patch_blur, sharp_patches
from slideseek_components.selectors.mosaic import Mosaic
from slideseek_components.selectors.tissue import tissue_mask

SLIDES = Path(__file__).resolve().parents[2] / "shared" / "data" / "slides-atlas"

THUMBNAIL_MPP = 8.0
SIGMAS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 8.0)
LIMITS = (1.0, 1.25, 1.5, 2.0)
STRENGTHS = (1.0, 1.4, 2.2, 3.0)
CELLS = Mosaic(size=224, mpp=0.25, most=50, anchor="tissue", min_tissue=0.5)


def slides(folder: Path) -> Iterator[ArraySlide]:
    """Yield the slides of a folder, whole and in memory."""
    for path in find_slides([folder]):
        with open_slide(path) as slide:
            yield ArraySlide(slide.thumbnail(max(slide.dimensions)), slide.mpp, path.stem)


def thumbnail(slide: ArraySlide) -> UInt8:
    """Return RGB uint8 (h, w, 3) of a slide as selectors see it."""
    return slide.thumbnail(round(max(slide.dimensions) * slide.mpp / THUMBNAIL_MPP))


def named(pictures: Mapping[str, UInt8]) -> Iterator[tuple[str, str, Counter[str]]]:
    """Yield each mixture, the stain it is, and how often each stain was named."""
    yield "as scanned", "he", Counter(appraise(rgb, THUMBNAIL_MPP).stain for rgb in pictures.values())
    for name, (stain, *_) in MIXTURES.items():
        yield name, stain, Counter(appraise(restain(rgb, name), THUMBNAIL_MPP).stain for rgb in pictures.values())


def kept(rgb: UInt8, name: str, strength: float) -> float:
    """Return the share of strongly positive pixels of a remixed thumbnail that the mask keeps."""
    haematoxylin, eosin = unmixed(rgb)
    positive = (positive_cells(rgb.shape[:2]) > 0.9) & (haematoxylin + 0.6 * eosin > 0.3)
    mask = tissue_mask(restain(rgb, name, strength=strength), mpp=THUMBNAIL_MPP)
    return float(mask[positive].mean()) if positive.any() else float("nan")


def blurs(slide: ArraySlide, sigma: float) -> Float32:
    """Return the blur measured on the default patches of a slide that a Gaussian of `sigma` µm has blurred."""
    patches = CELLS.select(slide)
    seen = ArraySlide(out_of_focus(slide.thumbnail(max(slide.dimensions)), sigma / slide.mpp), slide.mpp, slide.id)
    images = np.stack([seen.read((int(x), int(y)), patches.size, 0.25) for x, y in patches.xy])
    return patch_blur(images, patches.mpp, slide.mpp)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=SLIDES)
    found = list(slides(parser.parse_args().folder))
    pictures = {slide.id: thumbnail(slide) for slide in found}
    print(f"{len(found)} slides\n\n| mixture | stain | named right | otherwise |\n|---|---|---|---|")
    for name, stain, counts in named(pictures):
        others = ", ".join(f"{other or 'nothing'} {count}" for other, count in counts.items() if other != stain)
        print(f"| {name} | {stain} | {counts[stain]} of {len(found)} | {others} |")
    print("\nStrongly positive pixels that the mask of tissue keeps, mean (least) over slides\n")
    print(f"| chromogen | {' | '.join(f'strength {s:g}' for s in STRENGTHS)} |\n|---|{'---|' * len(STRENGTHS)}")
    for name in ("dab", "aec", "fast-red"):
        shares = [[kept(rgb, name, strength) for rgb in pictures.values()] for strength in STRENGTHS]
        print(f"| {name} | {' | '.join(f'{np.nanmean(s):.1%} ({np.nanmin(s):.1%})' for s in shares)} |")
    print("\nBlur measured on patches of 56 µm, and the share left out by limit\n")
    print("| blurred by, µm | measured, µm: median (5 to 95 %) | " + " | ".join(f"limit {x:g}" for x in LIMITS) + " |")
    print("|---|---|" + "---|" * len(LIMITS))
    for sigma in SIGMAS:
        each = [(slide, blurs(slide, sigma)) for slide in found]
        every = np.concatenate([blur for _, blur in each])
        low, middle, high = np.percentile(every, [5, 50, 95], method="nearest")
        out = [f"{np.mean(np.concatenate([_left_out(s, b, limit) for s, b in each])):.1%}" for limit in LIMITS]
        print(f"| {sigma:g} | {middle:.2f} ({low:.2f} to {high:.2f}) | {' | '.join(out)} |")


def _left_out(slide: ArraySlide, blur: Float32, limit: float) -> Float32:
    # A patch that is surely sharp keeps the slide from failing as a whole.
    sharp, _ = sharp_patches(np.append(blur, np.float32(0)), np.full(len(blur) + 1, 0.25), slide.mpp, limit)
    return np.asarray(~sharp[:-1], dtype=np.float32)


if __name__ == "__main__":
    main()
