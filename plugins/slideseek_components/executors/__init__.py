"""Executors: run the work of a build.

- Executors: `local` (in the process that builds), `dask_cluster` (on the workers of a Dask scheduler).
- Shared: `background` (runs an iterator in a thread, behind a short queue).
"""
