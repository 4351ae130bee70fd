"""Readers: open slides, in files and elsewhere.

- Of any file: `isolated_reader`, which is asked first and has the others read in a process of its own, with limits
  (`slide_process` here, `slide_process_main` there).
- Of files: `openslide_reader` (whole-slide formats), `tiff_reader` (TIFFs that OpenSlide does not read), `image_reader`
  (plain images). Shared: `tiff_layout` (finds TIFFs that were cut short, and their tiles), `reduced_tiles` (thumbnails
  of slides without coarse levels), `bit_depth` (samples to 8 bits), `whole_images` (a limit against decompression
  bombs).
- Elsewhere: `remote_reader` (URLs), which reads `remote_tiff` by ranges; `dicom_reader` (series in object stores and of
  DICOMweb); `idc_manifest` (lists the Imaging Data Commons). Shared: `object_store` (requests through fsspec),
  `object_cache` (what was read, within a bound), `inside_levels` (pads what lies outside a level).
"""
