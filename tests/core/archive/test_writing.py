"""All writes in an archive's folder go through `slideseek.archive.files`; writers wait for each other if asked to."""

import os
import re
import signal
import time
from pathlib import Path

import pytest

import slideseek
from slideseek.archive.archive import Archive
from slideseek.archive.files import replacing, write_bytes

CORE = Path(slideseek.__file__).parent
WRITES = re.compile(
    r"""\.open\(\s*["'](?:w|a|x|r\+)|\bopen\([^)\n]*["'](?:wb?|ab?|xb?|r\+b?)["']|\.write_(?:text|bytes)\("""
    r"""|\.(?:rename|replace)\((?:self\.)?_?(?:path|target|root|temporary)|\bos\.(?:replace|rename|link|fsync|remove)\("""
    r"""|shutil\.(?:rmtree|copy|move)|\.unlink\(|\.rmdir\(|\.mkdir\(|\bnp\.save|sqlite3\.connect\(|h5py\.File\([^)]*["'][wa]"""
)
ALLOWED = {
    "archive/files.py": "the one place",
    "archive/catalog.py": "SQLite writes the catalogue itself",
    "archive/archive.py": "makes the folder of a new archive",
    "archive/features.py": "packs HDF5 in memory",
    "building/parts.py": "packs arrays in memory",
    "building/fit_work.py": "makes the folder in which an encoder keeps its checkpoints",
    "searching/query_log.py": "the log of queries has connections of its own",
}


def test_no_other_module_of_core_writes():
    found = set()
    for file in sorted(CORE.rglob("*.py")):
        for line in file.read_text(encoding="utf-8").splitlines():
            if WRITES.search(line) and not line.lstrip().startswith(("#", "write_text(", "write_bytes(")):
                found.add(str(file.relative_to(CORE)))
    assert found == set(ALLOWED)


def test_the_guard_sees_writes():
    for line in (
        "path.write_text(x)",
        'with path.open("w") as f:',
        "os.replace(a, b)",
        "shutil.rmtree(x)",
        "a.unlink()",
    ):
        assert WRITES.search(line), line


def test_an_error_of_the_disk_names_the_file(tmp_path):
    with pytest.raises(OSError, match=r"result\.json"), replacing(tmp_path / "result.json"):
        raise OSError(28, "No space left on device")
    assert list(tmp_path.iterdir()) == []
    write_bytes(tmp_path / "result.json", b"{}")
    assert (tmp_path / "result.json").read_bytes() == b"{}"


def test_a_second_writer_is_refused_or_waits(tiny_archive, tiny_slides, slideseek):
    ready, tell = os.pipe()
    child = os.fork()
    if child == 0:
        with Archive(tiny_archive) as archive, archive.writing():
            os.write(tell, b"x")
            time.sleep(3)
        os._exit(0)
    os.read(ready, 1)
    refused = slideseek("remove", "s7", "-a", tiny_archive)
    assert refused.code == 1 and "--wait" in refused.err
    waited = slideseek("remove", "s7", "-a", tiny_archive, "--wait")
    assert waited.code == 0 and "waiting until it is done" in waited.err
    assert os.waitpid(child, 0)[1] == 0


def test_the_lock_of_a_killed_writer_is_free(tiny_archive, slideseek):
    ready, tell = os.pipe()
    child = os.fork()
    if child == 0:
        with Archive(tiny_archive) as archive, archive.writing():
            os.write(tell, b"x")
            time.sleep(60)
    os.read(ready, 1)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert slideseek("remove", "s7", "-a", tiny_archive).code == 0


@pytest.mark.parametrize("command", ["build", "compact"])
def test_the_id_of_a_removed_slide_is_in_no_file_of_the_archive(tiny_archive, tiny_slides, slideseek, command):
    slideseek("add", tiny_slides / "s7.png", "--mpp", "1", "-a", tiny_archive)
    assert any(b"s7" in file.read_bytes() for file in (tiny_archive / "index").rglob("ids.bin"))
    assert slideseek("remove", "s7", "-a", tiny_archive).code == 0
    done = slideseek(command, "-a", tiny_archive)
    assert done.code == 0, done.err
    assert not [file for file in (tiny_archive / "index").rglob("*") if file.is_file() and b"s7" in file.read_bytes()]
    with Archive(tiny_archive) as archive:
        assert "s7" not in archive.catalog.slides.ids()


def test_features_of_a_removal_that_was_killed_are_swept(tiny_archive, slideseek):
    kept = sorted((tiny_archive / "features").rglob("*.h5"))
    orphan = kept[0].with_name("gone.h5")
    orphan.write_bytes(kept[0].read_bytes())
    assert slideseek("compact", tiny_archive).code == 0
    assert sorted((tiny_archive / "features").rglob("*.h5")) == kept
