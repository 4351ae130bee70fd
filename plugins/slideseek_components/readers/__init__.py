"""Readers: open slides, in files and elsewhere.

- Of files: `openslide_reader` (whole-slide formats), `tiff_reader` (TIFFs that OpenSlide does not read), `image_reader`
  (plain images). Shared: `tiff_layout` (finds TIFFs that were cut short), `bit_depth` (samples to 8 bits),
  `whole_images` (a limit against decompression bombs).
- Elsewhere: `remote_reader` (URLs), which reads `remote_tiff` by ranges; `dicom_reader` (series in object stores and of
  DICOMweb); `idc_manifest` (lists the Imaging Data Commons). Shared: `object_store` (requests through fsspec),
  `object_cache` (what was read, within a bound), `inside_levels` (pads what lies outside a level).
"""
