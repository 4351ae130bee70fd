"""Selectors: choose the patches that represent a slide.

- Selectors: `mosaic`, `grid`, `random`, `sdm`, `splice`, `imported`; all but the last share `base` and choose among the
  cells of `tissue_grid`, using `fitted_grid`, `cell_sums`, `cell_colours`, `kmeans` and `small_kmeans`.
- Tissue: `tissue` (the mask of a thumbnail), `tissue_threshold` (stain against glass), `pen_and_debris` (pen marks,
  dirt, bubbles), `pixel_colours` (hue, saturation, roughness), `image_masks` (each of them found once per thumbnail).
- What a slide is like: `artefacts` (pen, folds and debris on the thumbnail), `stain_kind` (H&E, IHC and others by their
  hues), `focus` (blur of patches in µm).
"""
