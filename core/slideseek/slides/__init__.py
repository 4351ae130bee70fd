"""Slides: file formats, opening, physical resolution, resampling, outlines and regions.

- Files: `file_formats` (endings, slides of several files), `discovery` (slides in folders), `content_fingerprint`.
- Opening: `reader` asks the readers, which are plugins. They share `array_slide` (a slide in memory), `limits` (of what
  is decoded at once) and `slide_errors`.
- Elsewhere: `remote_path` (a URL as a path), `remote_slides` (finds slides at a URL, looks up their versions).
- Pixels: `pyramid` (read a square, padding outside the slide), `levels`, `resampling`, `patch_images`.
- Resolution: `resolution` (µm per pixel, magnification to µm per pixel).
- Shapes: `geojson` (annotation files), `polygons` (what lies inside), `area` (the queried part of a slide),
  `region_slide` (that part as a slide).

Tissue is found by selectors, not here.
"""
