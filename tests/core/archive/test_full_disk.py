"""A disk without space: a clear error, nothing lost, and the same command works once there is space again."""

import errno
import os
import resource
import signal
import sqlite3

import numpy as np
import pytest

from slideseek.archive.archive import Archive
from slideseek.archive.catalog import Catalog, NoSpaceError, unusable
from slideseek.archive.features import read_features, write_features
from slideseek.building import slide_work
from slideseek.slides.reader import open_slide
from slideseek.types import Patches


def in_fork(work):
    """Return the exit status of a forked child that does some work: negative for a signal."""
    child = os.fork()
    if child == 0:
        try:
            os._exit(work() or 0)
        except BaseException:
            os._exit(70)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_features_that_do_not_fit_are_an_error_with_the_path_and_not_a_crash(tmp_path):
    features = np.zeros((1000, 256), np.float32)
    patches = Patches.at("a", np.zeros((1000, 2)), 8, 1.0)

    def write():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        try:
            write_features(tmp_path / "a.h5", features, patches, 1.0, "key")
        except OSError as error:
            return 0 if error.errno == errno.EFBIG and str(tmp_path) in str(error.filename) else 1
        return 2

    assert in_fork(write) == 0
    assert list(tmp_path.iterdir()) == [], "nothing half-written stays"
    write_features(tmp_path / "a.h5", features, patches, 1.0, "key")
    assert read_features(tmp_path / "a.h5").features.shape == (1000, 256)


def test_an_init_that_failed_can_be_repeated(tmp_path, slideseek, tiny_config):
    root = tmp_path / "archive"
    root.mkdir()
    (root / "catalog.sqlite").touch()  # as a full disk leaves it
    done = slideseek("init", root, "--config", tiny_config)
    assert done.code == 0, done.err
    assert slideseek("status", "-a", root).code == 0


@pytest.mark.parametrize("text", ["database or disk is full", "disk I/O error", "unable to open database file"])
def test_only_a_damaged_catalogue_is_to_be_restored(text):
    error = unusable("catalog.sqlite", sqlite3.OperationalError(text))
    assert isinstance(error, NoSpaceError) and "space" in error.fix and "backup" not in error.fix
    assert "repair" in unusable("c", sqlite3.DatabaseError("database disk image is malformed")).fix


def test_a_commit_that_does_not_fit_says_so_and_the_catalogue_stays_usable(tiny_archive):
    with Archive(tiny_archive) as archive:
        catalog = archive.catalog
        pages = catalog._db.execute("PRAGMA page_count").fetchone()[0]
        catalog._db.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(NoSpaceError, match=r"catalog\.sqlite.*full"), catalog.transaction():
            catalog._db.execute(
                "INSERT INTO runs (command, started, config, versions) VALUES ('b', '', ?, '')", ("x" * 10**6,)
            )
        catalog._db.execute("PRAGMA max_page_count = 100000")
        with catalog.transaction():
            catalog.put_engine("e", "s", {})


def test_a_full_disk_can_be_searched(tiny_archive, slideseek, monkeypatch):
    from slideseek.archive import catalog

    real = catalog.connect

    def full(path, create=False, still=False, full=False):
        if not full:
            raise NoSpaceError("the disk is full", "free some space")
        return real(path, create, still, full)

    monkeypatch.setattr(catalog, "connect", full)
    assert slideseek("search", "s0", "-a", tiny_archive).code == 0
    done = slideseek("remove", "s7", "-a", tiny_archive)
    assert done.code != 0 and "free some space" in done.err
    with pytest.raises(NoSpaceError):
        Catalog(tiny_archive / "other.sqlite", create=True)


FITTED = """
[[engine]]
name       = "fitted"
selector   = { use = "grid", size = 64, mpp = 1.0, min_tissue = 0.5 }
featurizer = { use = "colour-texture" }
encoder    = { use = "gmm-fv", components = 2 }
index      = { use = "cosine" }
"""


def test_no_encoder_is_fitted_without_a_slide_that_a_disk_failed_with(tmp_path, tiny_slides, slideseek, monkeypatch):
    root, config = tmp_path / "archive", tmp_path / "fitted.toml"
    config.write_text(FITTED)
    slideseek("init", root, "--config", config)
    slideseek("add", tiny_slides, "--manifest", tiny_slides / "manifest.csv", "-a", root)
    real = open_slide

    def failing(path, *given):
        if path.name == "s3.png":
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        return real(path, *given)

    monkeypatch.setattr(slide_work, "open_slide", failing)
    done = slideseek("build", "-a", root)
    assert done.code == 1 and "is not fitted" in done.err and "'s3'" in done.err, done.err
    monkeypatch.setattr(slide_work, "open_slide", real)
    assert slideseek("build", "-a", root).code == 0
    with Archive(root) as archive:
        (model,) = [archive.catalog.model(row[0]) for row in archive.catalog._db.execute("SELECT settings FROM models")]
        assert model is not None and model.slides == 8
