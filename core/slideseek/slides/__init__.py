"""Slides: file formats, opening, physical resolution, resampling, outlines and regions.

- Files: `file_formats` (endings, slides of several files), `discovery` (slides in folders), `content_fingerprint`.
- Opening: `reader` chooses among `openslide_reader`, `tiff_reader` and `image_reader`; `tiff_layout` finds truncated
  files, `bit_depth` brings samples to 8 bits, `limits` stops decompression bombs, `slide_errors` has the errors.
- Pixels: `pyramid` (read a square, padding outside the slide), `levels`, `resampling`, `patch_images`.
- Resolution: `resolution` (µm per pixel, magnification to µm per pixel).
- Shapes: `geojson` (annotation files), `polygons` (what lies inside), `area` (the queried part of a slide),
  `region_slide` (that part as a slide).

Tissue is found by selectors, not here.
"""
