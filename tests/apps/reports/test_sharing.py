"""What leaves the house names nobody: 25 canaries in names, folders, manifest and slide files, none in any output."""

import getpass
import os
import stat
import threading
from importlib.util import find_spec

import h5py
import numpy as np
import pytest
from PIL import Image

from slideseek.archive.archive import Archive
from slideseek.errors import DamagedError, SlideseekError
from slideseek_apps.reports.sharing import KEY_NAME, Sharing, archive_key, write_private

COLUMNS = ("name", "birth", "address", "barcode", "phone", "mrn", "clinician", "ward", "remark")


def canary(number: int) -> str:
    return f"CANARY{number:02d}X"


CANARIES = [canary(number) for number in range(25)]


@pytest.fixture
def house(tmp_path, tiny_slides, tiny_config, write_tiff, slideseek, monkeypatch):
    """An archive with a canary in all places that may identify a patient, and the canary's user."""
    monkeypatch.setenv("LOGNAME", canary(0))
    folder = tmp_path / canary(1) / f"ward {canary(2)}"
    folder.mkdir(parents=True)
    rows = [",".join(("slide_id", "path", "case_id", "primary_site", "diagnosis", "center", "mpp", *COLUMNS))]
    for number in range(4):
        pixels = np.asarray(Image.open(tiny_slides / f"s{2 * number}.png").convert("RGB"))
        written = write_tiff("x.tif", pixels, aperio=f"MPP = 1.0|Patient = {canary(3)}|User = {canary(4)}|Barcode = 7")
        file = written.rename(folder / f"{canary(5)}-{number}.tif")
        free = [canary(16 + at) for at in range(len(COLUMNS))]
        identity = (f"{canary(6 + number)} s", file.name, f"{canary(10 + number)}", "lung", "fine", canary(14), "1.0")
        rows.append(",".join((*identity, *free)))
    manifest = folder / f"{canary(15)}.csv"
    manifest.write_text("\n".join(rows) + "\n")
    archive = tmp_path / canary(1) / "archive"
    for arguments in (
        ("init", archive, "--config", tiny_config),
        ("add", folder, "--manifest", manifest, "-a", archive),
        ("build", "-a", archive),
        ("search", f"{canary(6)} s", "-a", archive, "--where", f"name={canary(16)}"),
    ):
        done = slideseek(*arguments)
        assert done.code == 0, done.err
    return archive


def leaks(folder):
    """Return the canaries in the names, bytes, unpacked pages and strings of every file below a folder."""
    found = set()
    for path in folder.rglob("*"):
        data = path.name.encode() + (path.read_bytes() if path.is_file() else b"")
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as arrays:
                data += b"".join(arrays[name].tobytes() + str(arrays[name]).encode() for name in arrays)
        if path.suffix == ".parquet":
            import pyarrow.parquet

            data += str(pyarrow.parquet.read_table(path).to_pydict()).encode()
        if path.suffix == ".h5":
            with h5py.File(path) as file:
                data += str([dict(file[name].attrs) for name in file]).encode()
        lowered = data.lower()
        found |= {one for one in CANARIES if one.lower().encode() in lowered}
        found |= {one for one in CANARIES if one.encode("utf-16-le") in data or one.encode("utf-32-le") in data}
        found |= {"user"} if f" by {getpass.getuser()}".encode() in data else set()
        found |= {"path"} if str(folder.parent).encode() in data else set()
    return found


def everything(slideseek, archive, out, *options):
    """Write every kind of report and export to a folder."""
    kinds = ("features", "patches", "codes", "hits", "table")
    runs: list[tuple[object, ...]] = [("export", what, "-o", out / what) for what in kinds]
    if find_spec("anndata") and find_spec("pyarrow"):
        mean = ("--engine", "mean", "-o", out / "extra")
        runs += [("export", "codes", "--format", "h5ad", *mean), ("export", "codes", "--format", "parquet", *mean)]
        runs += [("export", what, "--format", "parquet", *mean) for what in ("hits", "table")]
    runs += [("report", "-o", out / "log.html"), ("report", "--query", f"{canary(7)} s", "-o", out / "query.html")]
    for run in runs:
        done = slideseek(*run, "-a", archive, *options)
        assert done.code == 0, done.err
    script = archive.parent / "script.txt"
    suffix = "".join(f" {one}" for one in options)
    lines = [f"export '{out}/hits.{kind}'{suffix}" for kind in ("csv", "json", "html")]
    script.write_text("\n".join([f"search '{canary(8)} s'", *lines]))
    done = slideseek("session", archive, "--script", script)
    assert done.code == 0, done.err


def test_no_canary_leaves_the_house(house, tmp_path, slideseek):
    out = tmp_path / "out"
    everything(slideseek, house, out)
    assert sorted(leaks(out)) == []
    files = [path for path in out.rglob("*") if path.is_file()]
    assert len([path for path in files if path.parent.name != "extra"]) == 4 + 4 + 1 + 1 + 1 + 2 + 3
    assert all(stat.S_IMODE(path.stat().st_mode) & ~0o640 == 0 for path in files)

    real = tmp_path / "real"
    everything(slideseek, house, real, "--identified")
    shown = leaks(real)  # the same search finds them where they are
    assert {*CANARIES[:3], *CANARIES[5:15], *CANARIES[16:]} <= shown


def test_a_slide_has_one_pseudonym_in_all_outputs_of_its_archive(house, tmp_path, slideseek):
    out = tmp_path / "out"
    everything(slideseek, house, out)
    with Archive(house) as archive:
        sharing = Sharing.of(archive, identified=False)
    names = [sharing.slide(f"{canary(6 + number)} s") for number in range(4)]
    assert len(set(names)) == 4 and all(len(name) == 18 and name.startswith("S-") for name in names)
    assert {path.stem for path in (out / "features").iterdir()} == set(names)
    assert {path.stem for path in (out / "patches").iterdir()} == set(names)
    with np.load(out / "codes" / "codes.npz") as file:
        assert set(file["ids"]) == set(names)
    texts = [(out / name).read_text() for name in ("table/slides.csv", "query.html", "hits.html")]
    assert all(sum(name in text for name in names) == 4 for text in texts)
    assert "lung" in texts[0] and "diagnosis" in texts[0] and "path" not in texts[0].splitlines()[0].split(",")
    assert Sharing(b"x" * 32).slide(f"{canary(6)} s") != names[0], "another key, another pseudonym"

    assert slideseek("export", "pseudonyms", "-a", house, "-o", out).code == 0
    rows = [line.split(",") for line in (out / "pseudonyms.csv").read_text().splitlines()]
    assert {row[0]: row[1] for row in rows[1:]} == {name: f"{canary(6 + n)} s" for n, name in enumerate(names)}


def test_listed_columns_are_shown_and_no_others(house, tmp_path, slideseek):
    out = tmp_path / "out"
    done = slideseek("export", "table", "--fields", "ward", "--fields", "center", "-a", house, "-o", out)
    assert done.code == 0, done.err
    done = slideseek("report", "--fields", "ward", "-a", house, "-o", out / "page.html")
    assert done.code == 0, done.err
    ward = canary(16 + COLUMNS.index("ward"))
    assert leaks(out) == {ward, canary(14)} and ward in (out / "page.html").read_text()
    typo = slideseek("report", "--fields", "wart", "-a", house, "-o", out / "no.html")
    assert typo.code == 2 and "did you mean 'ward'" in typo.err and not (out / "no.html").exists()
    both = slideseek("export", "table", "--fields", "ward", "--identified", "-a", house, "-o", out / "no")
    assert both.code == 2 and "exclude each other" in both.err
    assert slideseek("export", "codes", "--fields", "ward", "-a", house, "-o", out / "no").code == 2


def test_a_missing_slide_and_notes_do_not_name_a_file(house, tmp_path, slideseek):
    for file in (house.parent / f"ward {canary(2)}").glob("*.tif"):
        file.unlink()
    out = tmp_path / "out"
    done = slideseek("report", "-a", house, "-o", out / "page.html")
    assert done.code == 0, done.err
    assert "the slide cannot be read" in (out / "page.html").read_text() and leaks(out) == set()


def test_the_key_is_private_made_once_and_checked(tmp_path):
    found = []
    threads = [threading.Thread(target=lambda: found.append(archive_key(tmp_path))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8 and len(set(found)) == 1 and len(found[0]) == 32
    path = tmp_path / KEY_NAME
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and os.listdir(tmp_path) == [KEY_NAME]
    path.chmod(0o644)
    with pytest.raises(SlideseekError, match="can be read by others"):
        archive_key(tmp_path)
    path.chmod(0o600)
    path.write_text("not a key")
    with pytest.raises(DamagedError, match="damaged"):
        archive_key(tmp_path)
    with pytest.raises(SlideseekError, match="cannot be used"):
        archive_key(tmp_path / "nowhere")


@pytest.mark.parametrize(("umask", "mode"), [(0o000, 0o640), (0o022, 0o640), (0o077, 0o600)])
def test_files_are_never_for_everybody(tmp_path, umask, mode):
    path = tmp_path / "page.html"
    path.write_text("old")
    path.chmod(0o666)
    before = os.umask(umask)
    try:
        write_private(path, "new \udc80")
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == mode and path.read_text() == "new \\udc80"


def test_settings_and_records():
    sharing = Sharing(b"k" * 32)
    settings = {"use": "onnx", "weights": "/home/me/net.onnx", "more": ["C:\\x", 3]}
    assert sharing.settings(settings) == {"use": "onnx", "weights": "(path left out)", "more": ["(path left out)", 3]}
    assert Sharing().settings(settings) == settings
    assert sharing.slide("") == "" and sharing.slide("a") != sharing.slide("b")
