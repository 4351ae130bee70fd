"""Slides: opening files, physical resolution, resampling, tissue, contours and discovery."""
