"""`build --shard` in the array jobs of a real Slurm, and workers that dask-jobqueue submits to it."""

import subprocess
import sys

import pytest

from slideseek.api import open_archive

pytestmark = pytest.mark.slow

SLIDES = 24


@pytest.fixture
def sbatch(slurm, tmp_path):
    """A function that submits an array of jobs and waits for it; returns what they printed."""

    def run(array, command):
        script = tmp_path / "job.sh"
        script.write_text(f"#!/bin/sh\n{command}\n")
        submitted = ["sbatch", "--wait", f"--array={array}", "--chdir", tmp_path, "--output=%a.out", script]
        done = subprocess.run(list(map(str, submitted)), env=slurm, capture_output=True, text=True, timeout=240)
        printed = {path.stem: path.read_text() for path in sorted(tmp_path.glob("*.out"))}
        assert done.returncode == 0, (done.stderr, printed)
        return printed

    return run


def test_an_array_leaves_features_and_the_next_build_takes_them_in(sbatch, archive, local_rows, stored, waiting):
    folder = archive()
    printed = sbatch("0-1", f"{sys.executable} -m slideseek build --shard auto -a {folder}")
    before = stored(folder)
    assert not before["stages"] and not before["payloads"], "the catalogue is only read"
    assert all("the next 'slideseek build' takes the features in" in text for text in printed.values())
    left = waiting(folder)
    assert len([name for name in left if name.endswith(".h5")]) == 2 * (SLIDES - 1), "two slides have the same content"
    with open_archive(folder) as opened:
        assert opened.build().counts == {"ok": SLIDES}
    assert stored(folder) == local_rows and not waiting(folder)


def test_workers_are_submitted_as_jobs(slurm, archive, local_rows, stored, monkeypatch, tmp_path):
    pytest.importorskip("dask_jobqueue")
    monkeypatch.setenv("SLURM_CONF", slurm["SLURM_CONF"])
    jobs = f'{{ cores = 1, processes = 1, memory = "1GB", interface = "lo", log_directory = "{tmp_path}" }}'
    folder = archive(more=f'\n[executor]\nuse = "dask"\ncluster = "slurm"\nwait = 60\nworkers = 1\njobs = {jobs}\n')
    with open_archive(folder) as opened:
        assert opened.build().counts == {"ok": SLIDES}
    assert stored(folder) == local_rows
