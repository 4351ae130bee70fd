"""Pixels at a physical resolution: what readers share, and what a reader from elsewhere builds on.

- `pyramid` (read any square at any resolution, padding outside the slide), `levels`, `resampling`.
- `array_slide` (a slide in memory), `resolution` (µm per pixel from what a file states).
"""
