"""The environment of trials, set before anything else is imported."""

import os

# Trials run in forks of this process, and a fork has none of the threads that its parent's libraries started.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
os.environ.setdefault("SLIDESEEK_NO_QUERY_LOG", "1")
