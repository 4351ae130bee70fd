"""Builds on the workers of a real Dask scheduler."""

import os
import shutil
import signal
import subprocess
from typing import Any

import pytest

from slideseek.api import open_archive
from slideseek.building.build import BuildOptions
from slideseek.building.fit_work import FitWork
from slideseek.building.reporting import Reporter
from slideseek.errors import SlideseekError
from slideseek_apps.cluster import dask_worker, packed_work

pytestmark = pytest.mark.slow

SLIDES = 24
KILLS = 10

DEADLY = '''
import os, signal, time
from dataclasses import dataclass
from slideseek.hookspecs import hookimpl
from slideseek_components.selectors.grid import Grid

@dataclass
class Deadly(Grid):
    """Ends the process that works on the fourth slide."""

    code_revision = 1

    def select(self, slide):
        if slide.id == "s03":
            os.kill(os.getpid(), signal.SIGKILL)
        return super().select(slide)

@hookimpl
def register_selectors(register):
    register("deadly", f"{__name__}:Deadly", "ends a process")
'''


@pytest.fixture
def on_dask(dask, archive):
    """A function that returns a fresh archive whose builds run on Dask."""

    def make(name="archive"):
        return archive(name, f'\n[executor]\nuse = "dask"\naddress = "{dask.address}"\nwait = 60\n')

    return make


def build(folder, reporter=None, engines=(), **options):
    with open_archive(folder) as opened:
        return opened.build(engines, reporter=reporter, options=BuildOptions(**options))


class Acting(Reporter):
    """Call a function after each slide."""

    def __init__(self, act):
        self.act = act
        self.slides = []

    def slide(self, report):
        self.slides.append(report.slide_id)
        self.act(len(self.slides))


def test_it_stores_what_a_local_build_stores(on_dask, local_rows, stored, waiting):
    folder = on_dask()
    summary = build(folder)
    assert summary.counts == {"ok": SLIDES} and not summary.failures
    assert stored(folder) == local_rows
    assert not waiting(folder)


def test_killed_workers_lose_nothing_and_nothing_is_done_twice(dask, on_dask, local_rows, stored, waiting):
    killed: list[Any] = []

    def kill(count):
        if len(killed) < KILLS and dask.kill_a_worker():
            killed.append(count)

    reporter, folder = Acting(kill), on_dask()
    summary = build(folder, reporter)
    assert len(killed) == KILLS
    assert summary.counts == {"ok": SLIDES} and not summary.failures
    assert len(set(reporter.slides[:SLIDES])) == SLIDES, "each slide is reported once"
    assert stored(folder) == local_rows, "every attempt counts one"
    assert not waiting(folder)


def test_an_interrupted_build_goes_on_where_it_stopped(on_dask, dask, local_rows, stored, waiting):
    def interrupt(count):
        if count == 3:
            raise KeyboardInterrupt

    folder = on_dask()
    with pytest.raises(KeyboardInterrupt):
        build(folder, Acting(interrupt))
    summary = build(folder, executor="local")
    assert summary.counts == {"skipped": 3, "ok": SLIDES - 3}
    assert stored(folder) == local_rows and not waiting(folder)
    assert not dask.client.processing() or not any(dask.client.processing().values()), "the workers have stopped"


def test_a_slide_that_ends_its_workers_fails_and_the_others_go_on(on_dask, dask, tmp_path_factory, monkeypatch):
    trusted = tmp_path_factory.getbasetemp()
    monkeypatch.setenv("SLIDESEEK_TRUST", str(trusted))
    folder = on_dask()
    text = (folder / "slideseek.toml").read_text()
    engines = 'plugins = ["deadly.py"]\n' + text.replace('use = "grid"', 'use = "deadly"').partition("[[engine]]")[0]
    words = "[[engine]]" + text.replace('use = "grid"', 'use = "deadly"').split("[[engine]]")[2]
    (folder / "slideseek.toml").write_text(engines + words)
    (folder / "deadly.py").write_text(DEADLY)
    summary = build(folder)
    assert set(summary.failures) == {"s03"} and summary.counts == {"ok": SLIDES - 1, "failed": 1}
    assert "the workers that it was given to died" in summary.failures["s03"].cause


def test_another_version_on_the_workers_is_one_error(on_dask, monkeypatch):
    monkeypatch.setattr(packed_work, "__version__", "9.9.9")
    folder = on_dask()
    with pytest.raises(SlideseekError, match=r"a worker \(.+\) has slideseek .+, and the build has 9\.9\.9") as error:
        build(folder)
    assert error.value.fix == "install the same version on all workers"


def test_an_unreachable_scheduler_is_one_line(archive, slideseek):
    pytest.importorskip("distributed")
    more = '\n[executor]\nuse = "dask"\naddress = "tcp://127.0.0.1:9"\nwait = 0.5\n'
    done = slideseek("build", "-a", archive(more=more))
    assert done.code == 1 and done.err.count("error:") == 1
    assert "error: cannot reach a Dask scheduler at tcp://127.0.0.1:9" in done.err and "fix: start one" in done.err
    done = slideseek("build", "--executor", "dask", "-a", archive("other"))
    assert done.code == 2 and "the executor 'dask' has no scheduler" in done.err


def test_a_full_disk_on_a_worker_is_one_line_per_slide(on_dask, local_rows, stored):
    folder = on_dask()
    full = folder / "incoming"
    full.mkdir()
    mounted = ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(full)]
    if not shutil.which("mount") or subprocess.run(mounted, capture_output=True).returncode:
        pytest.skip("a small file system cannot be mounted here")
    try:
        summary = build(folder, engines=["bars"])
    finally:
        subprocess.run(["umount", str(full)], check=True)
    assert summary.counts["failed"] == len(summary.failures) > SLIDES / 2
    for failed in summary.failures.values():
        assert failed.cause.startswith("no space left on") and failed.fix == "free some space, then build again"
    summary = build(folder, executor="local")
    assert not summary.failures
    known = {row[0] for row in stored(folder)["payloads"]}
    assert known == {row[0] for row in local_rows["payloads"]}, "nothing is lost"


DEEP = """
[[engine]]
name       = "deep"
selector   = { use = "grid", size = 64, mpp = 1.0, min_tissue = 0.5 }
featurizer = { use = "colour-texture" }
encoder    = { use = "deep-fv", epochs = 3, hidden = [16], latent = 8 }
index      = { use = "cosine" }
"""


def models(folder):
    """Return the SHA-256 of every file of every fitted model."""
    with open_archive(folder) as opened:
        digests = [digest for (digest,) in opened.archive.catalog._db.execute("SELECT settings FROM models")]
        models = {digest: opened.archive.catalog.model(digest) for digest in digests}
        return {digest: model.files for digest, model in models.items() if model}


class Epochs(Reporter):
    """Call a function after each epoch of a training."""

    def __init__(self, act=lambda epoch: None):
        self.act, self.epochs = act, []

    def epoch(self, engine, metrics):
        self.epochs.append(int(metrics["epoch"]))
        self.act(self.epochs[-1])


def test_an_encoder_is_fitted_on_the_worker_with_a_device_and_survives_its_death(dask, on_dask, monkeypatch):
    workers = sorted(dask.client.scheduler_info()["workers"])
    dask.client.run(setattr, dask_worker, "DEVICES", ("/",), workers=workers[1:])
    seen: list[Any] = []

    def kill(epoch):
        if not seen:
            busy = [address for address, tasks in dask.client.processing().items() if tasks]
            seen.append(busy)
            os.kill(dask.client.run(os.getpid, workers=busy)[busy[0]], signal.SIGKILL)

    folders = [on_dask("local"), on_dask("far")]
    for folder in folders:
        text = (folder / "slideseek.toml").read_text()
        (folder / "slideseek.toml").write_text(DEEP + "[executor]" + text.partition("[executor]")[2])
    assert not build(folders[0], executor="local").failures
    reporter = Epochs(kill)
    monkeypatch.setattr(FitWork, "run", lambda *given: pytest.fail("fitted in the process that builds"))
    assert not build(folders[1], reporter).failures
    assert seen == [workers[1:]], "the fit went to the worker with a device"
    assert reporter.epochs[0] == 1 and reporter.epochs[-1] == 3, "another worker went on"
    assert models(folders[0]) == models(folders[1])
    assert not list((folders[1] / "training").iterdir())


def test_an_encoder_is_fitted_here_on_request(on_dask, monkeypatch):
    folder = on_dask()
    text = (folder / "slideseek.toml").read_text()
    (folder / "slideseek.toml").write_text(text.replace("wait = 60", 'wait = 60\nfit_on = "here"'))
    ran, run = [], FitWork.run

    def counted(*given):
        ran.append(1)
        return run(*given)

    monkeypatch.setattr(FitWork, "run", counted)
    assert not build(folder, engines=["words"]).failures and ran == [1]


def test_a_fit_that_fails_is_one_error(on_dask, slideseek):
    folder = on_dask()
    text = (folder / "slideseek.toml").read_text()
    (folder / "slideseek.toml").write_text(text.replace("words = 4", "words = 4000"))
    done = slideseek("build", "--engine", "words", "-a", folder)
    assert done.code == 1 and done.err.count("error:") == 1 and "Traceback" not in done.err, done.err
