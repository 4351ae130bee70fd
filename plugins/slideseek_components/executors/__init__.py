"""Executors: run the work of a build.

- Executors: `local` (in the process that builds). The one for clusters is an application: it packs the work of a build.
- `background` runs an iterator in a thread, behind a short queue.
"""
