"""Builds on the workers of a real Dask scheduler."""

import shutil
import subprocess

import pytest

from slideseek.api import open_archive
from slideseek.building import slide_work
from slideseek.building.build import BuildOptions
from slideseek.building.reporting import Reporter
from slideseek.errors import SlideseekError

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


def allow_failures(dask, count):
    """Set `distributed.scheduler.allowed-failures` of the running scheduler."""
    dask.client.run_on_scheduler(lambda dask_scheduler: setattr(dask_scheduler, "allowed_failures", count))


def test_killed_workers_lose_nothing_and_nothing_is_done_twice(dask, on_dask, local_rows, stored, waiting):
    killed = []

    def kill(count):
        # Not at every slide: one that is interrupted four times counts as one that kills its workers.
        if count % 2 and len(killed) < KILLS and dask.kill_a_worker():
            killed.append(count)

    reporter, folder = Acting(kill), on_dask()
    allow_failures(dask, KILLS)  # as a site does whose machines are taken away: the slides are not to blame
    try:
        summary = build(folder, reporter)
    finally:
        allow_failures(dask, 3)
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
    monkeypatch.setattr(slide_work, "__version__", "9.9.9")
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
    failed = summary.failures["s05"]
    assert "no space left on" in failed.cause and failed.fix == "free some space, then build again"
    summary = build(folder, executor="local")
    assert not summary.failures
    known = {row[0] for row in stored(folder)["payloads"]}
    assert known == {row[0] for row in local_rows["payloads"]}, "nothing is lost"
