"""Removed slides take their files with them, also when the removal was killed between its commit and the deletion."""

import pytest

from slideseek.archive.archive import Archive
from slideseek.archive.removing import remove_slides


def feature_files(root):
    return {file.relative_to(root).as_posix() for file in (root / "features").rglob("*.h5")}


@pytest.fixture
def killed_removal(tiny_archive, slideseek, monkeypatch):
    """Return an archive whose slide was removed by a process that ended right after its commit, and the slide's id."""
    assert slideseek("build", "-a", tiny_archive).code == 0
    with Archive(tiny_archive) as archive, archive.writing():
        removed = archive.catalog.slides.ids()[0]
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr("slideseek.archive.archive.remove", lambda path: (_ for _ in ()).throw(KeyboardInterrupt))
            remove_slides(archive, [removed])
    return tiny_archive, removed


def test_the_next_writer_deletes_the_files_of_a_killed_removal(killed_removal):
    root, removed = killed_removal
    before = feature_files(root)
    with Archive(root) as archive:
        assert removed not in archive.catalog.slides.ids()
        (left,) = archive.catalog.discarded()
        assert left in before
        with archive.writing():
            assert archive.catalog.discarded() == []
    assert feature_files(root) == before - {left}


def test_a_file_that_a_record_names_again_is_not_deleted(killed_removal):
    root, _ = killed_removal
    with Archive(root) as archive:
        (left,) = archive.catalog.discarded()
        with archive.catalog.transaction():
            kept = archive.catalog._db.execute("SELECT key FROM payloads WHERE file IS NOT NULL").fetchone()[0]
            archive.catalog._db.execute("UPDATE payloads SET file = ? WHERE key = ?", (left, kept))
        assert archive.catalog.discarded() == []
        with archive.writing():
            pass
    assert left in feature_files(root)
