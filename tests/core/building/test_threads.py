"""Patches, features and codes are the same bytes whatever the number of threads and workers."""

import os
import sqlite3
import subprocess
import sys

import h5py
import pytest

pytestmark = pytest.mark.slow

CONFIG = """
[[engine]]
name       = "bars"
selector   = { use = "mosaic", size = 64, mpp = 1.0, percent = 30, clusters = 4, min_tissue = 0.5 }
featurizer = { use = "efficientnet-lite0", side = 96 }
encoder    = { use = "yottixel" }
index      = { use = "hamming" }

[[engine]]
name       = "mean"
selector   = { use = "mosaic", size = 64, mpp = 1.0, percent = 30, clusters = 4, min_tissue = 0.5 }
featurizer = { use = "efficientnet-lite0", side = 96 }
encoder    = { use = "mean" }
index      = { use = "cosine" }
"""


def results(folder):
    """Return every stored patch list and code, and the features of every slide, as bytes."""
    with sqlite3.connect(folder / "catalog.sqlite") as db:
        rows = db.execute("SELECT key, kind, data FROM payloads WHERE data IS NOT NULL ORDER BY key").fetchall()
        files = db.execute("SELECT key, file FROM payloads WHERE file IS NOT NULL ORDER BY key").fetchall()
    db.close()
    for key, name in files:
        with h5py.File(folder / name) as file:
            rows.append((key, "features", file["features"][:].tobytes()))
    return rows


@pytest.fixture
def build(tmp_path, tiny_slides, slideseek):
    config = tmp_path / "threads.toml"
    config.write_text(CONFIG)

    def run(threads, workers):
        folder = tmp_path / f"t{threads}w{workers}"
        assert slideseek("init", folder, "--config", config).code == 0
        manifest = tiny_slides / "manifest.csv"
        assert slideseek("add", tiny_slides, "--manifest", manifest, "-a", folder).code == 0
        names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
        done = subprocess.run(
            [sys.executable, "-m", "slideseek", "build", "-a", str(folder), "--workers", str(workers)],
            env={**os.environ, **dict.fromkeys(names, str(threads))},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return results(folder)

    return run


def test_threads_and_workers_do_not_show(build):
    first = build(threads=1, workers=0)
    assert len(first) == 8 * 4
    for threads, workers in ((2, 2), (4, 0)):
        assert build(threads, workers) == first
