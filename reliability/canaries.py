"""Words that identify a patient, in every place they may be: none is in anything that is made to be shared."""

from __future__ import annotations

import base64
import io
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import openslide
import tifffile
from PIL import Image

from reliability.hostile_files import call
from reliability.hostile_slides import CONFIG, tissue
from reliability.row import Effort, Figure, Row
from reliability.trial import in_child

COLUMNS = ("name", "birth", "address", "accession", "phone", "mrn", "clinician", "ward", "remark")
CANARIES = [f"CANARY{number:02d}X" for number in range(25)]
GREEN = (0, 255, 0)
"""The colour of label and macro images, which no tissue has."""

BENCH = """
name = "house"

[[protocol]]
name = "horizontal"
mode = "horizontal"

[[engine]]
name    = "mean"
encoder = { use = "mean" }
"""


def write_slide(path: Path, seed: int) -> None:
    """Write a slide as Aperio does: with names in its description, a barcode, and a green label and macro image."""
    image, green = np.roll(tissue(512), 31 * seed, 0), np.full((128, 256, 3), GREEN, np.uint8)
    said = f"Aperio Image Library v11\r\n512x512|AppMag = 20|MPP = 0.5|Patient = {CANARIES[3]}|User = {CANARIES[4]}"
    strips: dict[str, Any] = {"photometric": "rgb", "compression": "lzw", "rowsperstrip": 128, "metadata": None}
    with tifffile.TiffWriter(path) as writer:
        tiled: dict[str, Any] = {"tile": (128, 128), "photometric": "rgb", "compression": "jpeg", "metadata": None}
        writer.write(image, description=f"{said}|Barcode = {CANARIES[5]}|Title = {CANARIES[5]}", **tiled)
        writer.write(image[::4, ::4].copy(), description="Aperio Image Library v11\r\nthumbnail", **strips)
        for name, kind in (("label", 1), ("macro", 9)):
            said = f"Aperio Image Library v11\r\n{name} 256x128 {CANARIES[5]}"
            writer.write(green, description=said, subfiletype=kind, **strips)


def make_house(base: Path) -> Path:
    """Make an archive with a canary in all places that may identify a patient."""
    folder = base / CANARIES[1] / f"ward {CANARIES[2]}"
    folder.mkdir(parents=True)
    rows = [",".join(("slide_id", "path", "case_id", "primary_site", "diagnosis", "center", *COLUMNS))]
    for number in range(8):
        write_slide(folder / f"{CANARIES[6 + number % 4]}-{number}.svs", number)
        free = [CANARIES[16 + at] for at in range(len(COLUMNS))]
        name = f"{CANARIES[6 + number % 4]} {number}"
        site = "lung" if number % 2 else "colon"
        case = f"{CANARIES[10 + number % 4]} {number}"
        file = f"{CANARIES[6 + number % 4]}-{number}.svs"
        rows.append(",".join((name, file, case, site, "fine", CANARIES[14], *free)))
    manifest = folder / f"{CANARIES[15]}.csv"
    manifest.write_text("\n".join(rows) + "\n")
    (base / "engines.toml").write_text(CONFIG)
    archive = base / CANARIES[1] / "archive"
    for words in (
        ["init", archive, "--config", base / "engines.toml"],
        ["add", folder, "--manifest", manifest, "-a", archive],
        ["build", "-a", archive],
        ["search", f"{CANARIES[6]} 0", "-a", archive, "--where", f"name={CANARIES[16]}"],
    ):
        code, text = call(words)
        if code:
            raise RuntimeError(text)
    return archive


def share(archive: Path, out: Path) -> int:
    """Write everything that is made to be shared; return how many files there are."""
    runs: list[list[Any]] = [
        ["export", what, "-o", out / what] for what in ("features", "patches", "codes", "hits", "table")
    ]
    runs += [["report", "-o", out / "log.html"], ["report", "--query", f"{CANARIES[7]} 1", "-o", out / "query.html"]]
    for words in runs:
        code, text = call([*words, "-a", archive])
        (out / "printed.log").open("a").write(text.replace(str(out), "OUT"))
        if code:
            raise RuntimeError(text)
    config = archive.parent.parent / "bench.toml"
    config.write_text(BENCH)
    results = archive.parent.parent / "results"
    for words in (
        ["bench", "run", config, "--data", archive, "-o", results],
        ["bench", "report", results, "-o", out / "bench"],
    ):
        code, text = call(words)
        if code:
            raise RuntimeError(text)
    return sum(path.is_file() for path in out.rglob("*"))


def leaks(folder: Path) -> set[str]:
    """Return what identifies somebody in the names, bytes, texts and pictures of every file below a folder."""
    found = set()
    for path in folder.rglob("*"):
        data = path.name.encode() + (path.read_bytes() if path.is_file() else b"")
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as arrays:
                data += b"".join(str(arrays[name].tolist()).encode() for name in arrays)
        pictures = [base64.b64decode(text) for text in re.findall(rb"data:image/[a-z]+;base64,([A-Za-z0-9+/=]+)", data)]
        lowered = data.lower()
        found |= {one for one in CANARIES if one.lower().encode() in lowered or one.encode("utf-16-le") in data}
        found |= {f"user in {path.name}"} if f" by {os.environ.get('LOGNAME')}".encode() in data else set()
        for picture in [*pictures, *([data] if path.suffix in (".png", ".jpg") else [])]:
            with Image.open(io.BytesIO(picture)) as image:
                pixels = np.asarray(image.convert("RGB")).astype(int)
            if ((pixels[..., 1] > 200) & (pixels[..., 0] < 60) & (pixels[..., 2] < 60)).mean() > 0.02:
                found.add(f"green in {path.name}")
    return found


def run(effort: Effort) -> Iterator[Figure]:
    """Share everything, and look for the canaries in every byte; count how often associated images are opened."""
    os.environ["LOGNAME"] = CANARIES[0]
    os.environ.pop("SLIDESEEK_NO_QUERY_LOG", None)  # the log is one of the things that are shared
    archive, out = make_house(effort.work), effort.work / "out"
    out.mkdir()

    def work() -> list[Any]:
        os.environ["SLIDESEEK_ISOLATION"] = "off"  # so that what is opened can be watched here
        opened: list[str] = []

        def watched(self: openslide.OpenSlide) -> dict[str, Any]:
            opened.append("associated images")
            return {}

        setattr(openslide.OpenSlide, "associated_images", property(watched))  # noqa: B010 - mypy knows it as read-only
        files = share(archive, out)
        return [files, len(opened)]

    done = in_child(work, 300)
    files, opened = done.value if done.end == "answered" else (0, 0)
    found = sorted(leaks(out))
    with openslide.OpenSlide(next(archive.parent.glob("*/*.svs"))) as slide:
        there = {"label", "macro"} <= set(slide.associated_images) and CANARIES[5] in str(dict(slide.properties))
    yield Figure(
        "canaries in names, folders, manifest, descriptions, barcode, label and macro",
        len(CANARIES),
        {"files written": files, "found in them": len(found), "associated images opened": opened},
        done.end == "answered" and files > 20 and not found and not opened and there,
        examples=(*found, done.text[-2000:]),
    )


ROW = Row(
    "canaries",
    "Patients' names",
    "25 canaries: none in any byte that `export`, `report` or `bench report` write by default; associated images never"
    " opened",
    run,
)
