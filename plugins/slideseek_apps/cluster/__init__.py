"""Builds on other machines: the work of a build is packed, done by the workers of a cluster, and taken in here.

- `plugin` registers the executor.
- In the process that builds: `dask_executor` (gives slides to workers), `dask_scheduler` (reach a scheduler, look after
  its workers), `suspects` (slides whose workers died: are they to blame?).
- In a worker: `dask_worker` (does the work on a slide, or fits an encoder).
- In both: `packed_work` (the work as text, and back).
"""
