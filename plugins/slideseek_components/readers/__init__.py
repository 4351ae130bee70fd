"""Readers: open the files of slides.

- Readers: `openslide_reader` (whole-slide formats), `tiff_reader` (TIFFs that OpenSlide does not read), `image_reader`
  (plain images).
- Shared: `tiff_layout` (finds TIFFs that were cut short), `bit_depth` (samples to 8 bits),
  `whole_images` (a limit against decompression bombs).
"""
