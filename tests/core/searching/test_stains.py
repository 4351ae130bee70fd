"""One archive of H&E, IHC and blurred slides, made from real tiles: what is measured, kept apart, left out and said."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from PIL import Image

from slideseek.api import open_archive
from slideseek.slides.reader import open_slide

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from bench.restained import out_of_focus, restain

pytestmark = pytest.mark.shared

CONFIG = """
[[engine]]
name       = "toy"
selector   = { use = "grid", size = 128, mpp = 1.0, min_tissue = 0.5, max_blur = 1.5 }
featurizer = { use = "colour-texture" }
encoder    = { use = "mean" }
index      = { use = "cosine" }
"""

SLIDES = {  # patient and stain of each; "" is H&E
    "a-he": ("a", ""),
    "a-he2": ("a", ""),
    "a-ihc": ("a", "dab"),
    "b-he": ("b", ""),
    "b-ihc": ("b", "dab"),
    "c-red": ("c", "aec"),
}


@pytest.fixture(scope="module")
def stained(tmp_path_factory: pytest.TempPathFactory, shared_data: Path, slideseek: Any) -> Path:
    """An archive of the slides above, one of them partly blurred, and one that is blurred as a whole."""
    folder = tmp_path_factory.mktemp("stains")
    tiles = folder / "tiles"
    tiles.mkdir()
    with open_slide(shared_data / "slides-atlas" / "colon-adenocarcinoma__HE.tif") as slide:
        whole = slide.thumbnail(3600)
    rows = ["slide_id,case_id,mpp,stain"]
    for number, (name, (patient, mixture)) in enumerate(SLIDES.items()):
        image = whole[400 * number : 400 * number + 640, 800:1440]
        image = restain(image, mixture) if mixture else image
        if name == "b-he":
            image = image.copy()
            image[:320] = out_of_focus(image[:320], 4)
        Image.fromarray(np.ascontiguousarray(image)).save(tiles / f"{name}.png")
        rows.append(f"{name},{patient},1.0,")
    Image.fromarray(out_of_focus(whole[:640, :640], 4)).save(tiles / "d-blurred.png")
    rows.append("d-blurred,d,1.0,")
    (tiles / "manifest.csv").write_text("\n".join(rows) + "\n")
    (folder / "toy.toml").write_text(CONFIG)
    archive = folder / "archive"
    assert slideseek("init", archive, "--config", folder / "toy.toml").code == 0
    assert slideseek("add", tiles, "--manifest", tiles / "manifest.csv", "-a", archive).code == 0
    built = slideseek("build", "-a", archive)
    assert built.code == 3 and "all 25 patches are out of focus" in built.out + built.err
    assert "10 of 25 patches are out of focus and left out" in built.out + built.err
    return archive


def measured(archive: Path) -> dict[str, dict[str, str]]:
    with open_archive(archive) as opened:
        return {slide["id"]: slide["measured"] for slide in opened.status()["slides"]}


def test_stain_and_blur_are_stored_and_shown(stained: Path, slideseek: Any) -> None:
    found = measured(stained)
    stains = {name: one["stain"] for name, one in found.items() if name != "d-blurred"}
    assert stains == {"a-he": "he", "a-he2": "he", "a-ihc": "ihc", "b-he": "he", "b-ihc": "ihc", "c-red": "ihc-red"}
    assert float(found["a-he"]["blur_um"]) < 1 and found["a-he"]["blurred"] == "0.00"
    assert found["b-he"]["blurred"] == "0.40"
    table = slideseek("status", "-a", stained).out
    assert " stain " in table and "ihc-red" in table
    shown = slideseek("inspect", "b-he", "-a", stained, "-o", stained.parent / "b.png").out
    assert "blurred by 0." in shown and "40% of the patches" in shown and "pen 0.0%" in shown


def test_patches_out_of_focus_are_left_out_of_the_features_and_scored(stained: Path) -> None:
    sharp, half = (next(stained.rglob(f"features/*/{name}.h5")) for name in ("a-he", "b-he"))
    with h5py.File(sharp) as file:
        assert len(file["features"]) == 25 and file["blur_um"][:].max() < 1.5
        assert set(file) == {"features", "coords", "mpp", "blur_um", "pen", "debris", "folds"}
    with h5py.File(half) as file:
        assert len(file["features"]) == 15 and file["coords"][:, 1].min() >= 256


def test_searches_keep_to_the_stain_of_the_query_and_say_so(stained: Path, slideseek: Any) -> None:
    ask = "search", "a-he", "-a", stained, "--json"
    answer = slideseek(*ask).json
    assert [hit["slide"]["id"] for hit in answer["hits"]] == ["b-he"]
    assert any("only slides of the query's stain (he) were searched: 3 of other stains" in n for n in answer["notes"])
    every = slideseek(*ask, "--any-stain").json
    assert {hit["slide"]["id"] for hit in every["hits"]} == {"b-he", "b-ihc", "c-red"}
    assert not any("stain" in note for note in every["notes"])
    red = slideseek(*ask, "--where", "stain=ihc-red").json
    assert [hit["slide"]["id"] for hit in red["hits"]] == ["c-red"]
    assert not slideseek(*ask, "--any-stain", "--where", "blur_um>9").json["hits"]
    with open_archive(stained) as archive:
        assert len(archive.search("a-he", any_stain=True)) == 3


def test_a_file_is_searched_with_by_its_stain(stained: Path, slideseek: Any, tmp_path: Path) -> None:
    with Image.open(stained.parent / "tiles" / "c-red.png") as image:
        image.crop((0, 0, 639, 639)).save(tmp_path / "new.png")
    answer = slideseek("search", tmp_path / "new.png", "--mpp", "1", "-a", stained, "--json").json
    assert [hit["slide"]["id"] for hit in answer["hits"]] == ["c-red"]


def test_a_case_is_made_of_one_stain(stained: Path, slideseek: Any) -> None:
    answer = slideseek("search", "a", "--case", "-a", stained, "--json").json
    notes = " ".join(answer["notes"])
    assert (
        "2 slide(s) of patient 'a' used together: a-he, a-he2; not used, since their stain is not 'he': a-ihc" in notes
    )
    assert [hit["slide"]["id"] for hit in answer["hits"]] == ["b-he"]
    notes = slideseek("search", "a", "--case", "--any-stain", "-a", stained, "--json").json["notes"]
    assert any("3 slide(s) of patient 'a' used together" in note for note in notes)


def test_what_the_manifest_states_overrides_what_was_measured(stained: Path, slideseek: Any, tmp_path: Path) -> None:
    archive = Path(shutil.copytree(stained, tmp_path / "archive"))
    manifest = tmp_path / "stated.csv"
    manifest.write_text(f"slide_id,path,case_id,mpp,stain\nb-ihc,{stained.parent}/tiles/b-ihc.png,b,1.0,he\n")
    assert slideseek("add", stained.parent / "tiles", "--manifest", manifest, "-a", archive).code == 0
    assert measured(archive)["b-ihc"]["stain"] == "ihc"
    hits = slideseek("search", "a-he", "-a", archive, "--json").json["hits"]
    assert {hit["slide"]["id"] for hit in hits} == {"b-he", "b-ihc"}


def test_an_archive_of_unknown_stains_is_searched_as_before(stained: Path, slideseek: Any, tmp_path: Path) -> None:
    archive = Path(shutil.copytree(stained, tmp_path / "archive"))
    from slideseek.archive.catalog import Catalog

    with contextlib.closing(Catalog(archive / "catalog.sqlite")) as catalog, catalog.transaction():
        catalog._db.execute("UPDATE slides SET measured = '{}'")
    answer = slideseek("search", "a-he", "-a", archive, "--json").json
    assert len(answer["hits"]) == 3 and not any("stain" in note for note in answer["notes"])


def test_other_content_drops_what_was_measured(stained: Path, slideseek: Any, tmp_path: Path) -> None:
    archive = Path(shutil.copytree(stained, tmp_path / "archive"))
    with contextlib.closing(sqlite3.connect(archive / "catalog.sqlite")) as catalog:
        assert catalog.execute("SELECT count(*) FROM slides WHERE measured <> '{}'").fetchone()[0] == len(SLIDES) + 1
    tile = stained.parent / "tiles" / "c-red.png"
    before = tile.read_bytes()
    try:
        Image.fromarray(np.full((300, 300, 3), 244, np.uint8)).save(tile)
        assert slideseek("add", tile, "-a", archive).code == 0
        assert measured(archive)["c-red"] == {}
    finally:
        tile.write_bytes(before)
