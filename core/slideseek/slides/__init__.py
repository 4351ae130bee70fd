"""Slides: file formats, opening, patches, outlines and regions.

- Files: `file_formats` (endings, slides of several files), `discovery` (slides in folders), `content_fingerprint`.
- Opening: `reader` asks the readers, which are plugins. They share `limits` (of what is decoded at once) and
  `slide_errors`; the pixels are theirs (`slideseek_components/pixels`).
- Elsewhere: `remote_path` (a URL as a path), `remote_slides` (finds slides at a URL, looks up their versions).
- Patches: `patch_images` (reads them), `magnification` (and µm per pixel).
- Shapes: `geojson` (annotation files), `polygons` (what lies inside), `area` (the queried part of a slide),
  `region_slide` (that part as a slide).

Tissue is found by selectors, not here.
"""
