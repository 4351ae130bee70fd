"""How far patches are out of focus, in µm, and which of them are sharp enough.

After Zhuo and Sim, "Defocus map estimation from a single image", Pattern Recognition 44(9), 2011: an edge that a lens
has blurred by a Gaussian of sigma s loses, blurred once more by r, the share 1 - s / sqrt(s² + r²) of its slope. The
ratio of slopes before and after gives s at the edges of a patch, whatever the patch shows.
"""

from __future__ import annotations

import math

import numpy as np
from PIL import Image
from scipy import ndimage

from slideseek.errors import SlideError
from slideseek.types import Float32, Float64, Mask, UInt8

REBLUR = 1.0
"""Sigma in pixels of the second blur."""

EDGES = 0.03
"""Share of the pixels of a patch, those with the steepest slopes, at which blur is measured."""

FAINT = 2.0
"""Slope in grey levels per pixel below which an edge cannot be measured: the noise of a camera."""

SIDE = 256
"""Most pixels per side that are looked at, in the middle of a patch."""

LEAST_PIXELS = 1.3
"""Blur in pixels, of the scan or of the patch as it was read, below which nothing can be said: sharp patches have about
0.5 to 0.9 (`python -m bench.stains`)."""


def blur_pixels(image: UInt8) -> float:
    """Return the sigma in pixels of the blur of RGB uint8 (s, s, 3); inf where no edge is left to measure."""
    cut = [max(0, (side - SIDE) // 2) for side in image.shape[:2]]
    part = image[cut[0] : cut[0] + SIDE, cut[1] : cut[1] + SIDE]
    grey = np.asarray(part.astype(np.uint16).sum(axis=2) / np.float32(3), dtype=np.float32)
    steep = _slope(grey)
    count = max(16, round(EDGES * steep.size))
    if steep.size <= count:
        return math.inf
    edges = np.argpartition(steep.ravel(), -count)[-count:]
    before = steep.ravel()[edges]
    if float(np.median(before)) < FAINT:
        return math.inf
    after = _slope(ndimage.gaussian_filter(grey, REBLUR, truncate=3.0)).ravel()[edges]
    ratio = float(np.median(before / np.maximum(after, 1e-3)))
    return REBLUR / float(np.sqrt(max(ratio, 1.001) ** 2 - 1))


def patch_blur(images: UInt8, mpp: Float64, native: float) -> Float32:
    """Return the blur of images, RGB uint8 (n, s, s, 3), as the sigma of a Gaussian in µm: float32 (n,).

    mpp: µm per pixel of each image (n,). native: µm per pixel of the scan; an image read finer than that is shrunk to
    it first, since the missing detail is not the fault of the focus. inf where no edge is left to measure.
    """
    found = np.empty(len(images), dtype=np.float32)
    for number, (image, resolution) in enumerate(zip(images, mpp.tolist())):
        if native > 1.05 * resolution:
            side = max(8, round(image.shape[0] * resolution / native))
            image = np.asarray(Image.fromarray(image).resize((side, side), Image.Resampling.BOX))
            resolution = native
        found[number] = blur_pixels(image) * resolution
    return found


def sharp_patches(blur_um: Float32, mpp: Float64, native: float, max_blur: float) -> tuple[Mask, list[str]]:
    """Return which patches are sharp enough, bool (n,), and a note if some are not; a `SlideError` if none is.

    blur_um, mpp, native: as of `patch_blur`. max_blur: the most blur in µm, 0 for no limit; what a scan or a patch of
    coarse pixels cannot show does not count.
    """
    limit = np.maximum(max_blur, LEAST_PIXELS * np.maximum(mpp, native))
    sharp = np.asarray(blur_um <= limit, dtype=np.bool_) if max_blur else np.ones(len(blur_um), dtype=np.bool_)
    left_out, median = int(np.count_nonzero(~sharp)), float(np.median(blur_um))
    by = f"by {median:.1f} µm" if math.isfinite(median) else "beyond measure"
    if not left_out:
        return sharp, []
    if left_out == len(sharp):
        raise SlideError(
            f"all {left_out} patches are out of focus ({by})",
            "scan the slide again, or raise the selector's 'max_blur' (0: no limit)",
        )
    mostly = f": most of the slide is blurred ({by})" if left_out > len(sharp) / 2 else ""
    return sharp, [f"{left_out} of {len(sharp)} patches are out of focus and left out{mostly}"]


def _slope(grey: Float32) -> Float32:
    """Return the steepness of grey levels (h, w), in levels per pixel, without the outermost pixels."""
    across = grey[1:-1, 2:] - grey[1:-1, :-2]
    down = grey[2:, 1:-1] - grey[:-2, 1:-1]
    return np.asarray(np.sqrt(across**2 + down**2) / 2, dtype=np.float32)
