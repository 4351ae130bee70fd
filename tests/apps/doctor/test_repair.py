"""`verify` finds damage, `repair` repairs it, `backup` copies one state while a build runs."""

import os
import shutil
import sqlite3
from contextlib import closing

import pytest

from slideseek.slides import content_fingerprint


def flip(file, byte, bit=0):
    stat, data = file.stat(), bytearray(file.read_bytes())
    data[byte] ^= 1 << bit
    file.write_bytes(data)
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def hits(slideseek, root, query="s0"):
    done = slideseek("search", query, "-a", root, "--json")
    assert done.code == 0, done.err
    return [(hit["slide"]["id"], hit["distance"], hit["slide"]["label"]) for hit in done.json["hits"]]


@pytest.fixture
def backed_up(tiny_archive, slideseek, tmp_path):
    # The model archive was moved here, so its configuration is built again as it is now.
    assert slideseek("build", "-a", tiny_archive).code == 0
    assert slideseek("backup", tmp_path / "backup", "-a", tiny_archive).code == 0
    return tiny_archive


@pytest.mark.parametrize("pattern", ["features/*/*.h5", "index/*/*/header.json", "index/*/*/*-0.npy", "slideseek.toml"])
def test_a_flipped_bit_is_found_and_repaired(backed_up, slideseek, tmp_path, pattern):
    before = hits(slideseek, backed_up)
    assert slideseek("verify", backed_up).code == 0
    file = sorted(backed_up.glob(pattern))[0]
    flip(file, file.stat().st_size // 2)
    assert slideseek("verify", backed_up).code == 1
    done = slideseek("repair", backed_up)
    assert done.code == 0, done.err
    assert slideseek("verify", backed_up).code == 0
    assert hits(slideseek, backed_up) == before


def test_a_damaged_record_comes_back_from_a_backup(backed_up, slideseek, tmp_path):
    before = hits(slideseek, backed_up)
    with closing(sqlite3.connect(backed_up / "catalog.sqlite")) as db:
        (trigger,) = db.execute("SELECT sql FROM sqlite_master WHERE name = 'slides_sealed_again'").fetchone()
        db.execute("DROP TRIGGER slides_sealed_again")
        db.execute("UPDATE slides SET patient = 'q3' WHERE id = 's3'")
        db.execute(trigger)
        db.commit()
    assert "s3" in slideseek("verify", backed_up).out
    done = slideseek("repair", backed_up, "--backup", tmp_path / "backup")
    assert done.code == 0, done.err
    assert hits(slideseek, backed_up) == before and slideseek("verify", backed_up).code == 0
    assert list(backed_up.glob("catalog-damaged-*.sqlite")), "the damaged catalogue is kept"


def test_without_a_backup_a_damaged_record_is_listed_and_the_rest_works(backed_up, slideseek):
    with closing(sqlite3.connect(backed_up / "catalog.sqlite")) as db:
        (trigger,) = db.execute("SELECT sql FROM sqlite_master WHERE name = 'slides_sealed_again'").fetchone()
        db.execute("DROP TRIGGER slides_sealed_again")
        db.execute("UPDATE slides SET patient = 'q3' WHERE id = 's3'")
        db.execute(trigger)
        db.commit()
    done = slideseek("repair", backed_up)
    assert done.code == 1 and "s3: its record is damaged" in done.err
    assert "s3" not in [slide_id for slide_id, *_ in hits(slideseek, backed_up)]
    assert slideseek("verify", backed_up).code == 0


def test_a_catalogue_that_does_not_open_is_rebuilt(backed_up, slideseek, tmp_path):
    before = hits(slideseek, backed_up)
    (backed_up / "catalog.sqlite").write_bytes(b"\0" * 5000)
    assert slideseek("search", "s0", "-a", backed_up).code == 1
    assert slideseek("verify", backed_up).code == 1
    done = slideseek("repair", backed_up, "--backup", tmp_path / "backup")
    assert done.code == 0, done.err
    assert hits(slideseek, backed_up) == before


def test_an_edited_configuration_is_not_touched(backed_up, slideseek):
    file = backed_up / "slideseek.toml"
    file.write_text(file.read_text() + "# my own remark\n")
    done = slideseek("verify", backed_up)
    assert done.code == 0 and "was edited" in done.out
    slideseek("repair", backed_up)
    assert file.read_text().endswith("# my own remark\n")
    assert slideseek("repair", backed_up, "--configuration").code == 0


def test_slides_known_by_samples_are_checked_whole(tmp_path, tiny_config, tiny_slides, slideseek, monkeypatch):
    tiny_archive = tmp_path / "new"
    assert slideseek("init", tiny_archive, "--config", tiny_config).code == 0
    monkeypatch.setattr(content_fingerprint, "WHOLE_BYTES", 100)
    monkeypatch.setattr(content_fingerprint, "BLOCK_BYTES", 16)
    monkeypatch.setattr(content_fingerprint, "BLOCKS", 4)
    assert slideseek("add", tiny_slides, "--manifest", tiny_slides / "manifest.csv", "-a", tiny_archive).code == 0
    assert slideseek("build", "-a", tiny_archive).code == 0
    first = slideseek("verify", tiny_archive, "--slides")
    assert first.code == 0 and "8 checksums kept for the first time" in first.out, first.out
    assert '"s3' not in (tiny_archive / "slide-checksums.json").read_text(), "neither ids nor paths are in it"
    flip(tiny_slides / "s3.png", 50)
    assert slideseek("verify", tiny_archive).code == 0, "samples and dates do not show it"
    second = slideseek("verify", tiny_archive, "--slides")
    assert second.code == 1 and "s3.png does not hold" in second.out


def test_a_backup_is_searched_and_continued(backed_up, slideseek, tmp_path):
    backup = tmp_path / "backup"
    assert hits(slideseek, backup) == hits(slideseek, backed_up)
    assert slideseek("verify", backup).code == 0
    again = slideseek("backup", backup, "-a", backed_up)
    assert again.code == 0 and "0 files copied" in again.out
    inside = slideseek("backup", backed_up / "x", "-a", backed_up)
    assert inside.code == 2 and "inside the archive" in inside.err


@pytest.mark.slow
def test_a_backup_during_a_build_is_one_state_and_can_be_continued(tmp_path, tiny_slides, tiny_config, slideseek):
    root, backup = tmp_path / "archive", tmp_path / "backup"
    slideseek("init", root, "--config", tiny_config)
    slideseek("add", tiny_slides, "--manifest", tiny_slides / "manifest.csv", "-a", root)
    child = os.fork()
    if child == 0:
        for _ in range(3):
            slideseek("build", "-a", root, "--recompute", "featurize")
        os._exit(0)
    taken = 0
    while os.waitpid(child, os.WNOHANG)[0] == 0:
        done = slideseek("backup", backup, "-a", root)
        assert done.code == 0, done.err
        taken += 1
        assert slideseek("verify", backup).code == 0
    assert taken
    restored = shutil.copytree(backup, tmp_path / "restored")
    assert slideseek("build", "-a", restored).code == 0
    slideseek("build", "-a", root)
    assert hits(slideseek, restored) == hits(slideseek, root)
